"""Measures a broker with ten thousand partitions: `python -m bench.scale`.

There are three layouts: one topic, a thousand topics of ten partitions, and ten thousand topics. A
trial uses one broker and one layout. It creates the topics in a fresh node, and writes a record to
every partition. Then it stops the node cleanly, starts it again, and describes all partitions. The
trials of the two brokers alternate. Each row of the result compares both brokers for one layout.

The node itself measures the pauses of its event loop. At the same time a second connection (the
"bystander") sends one ApiVersions request after the other. The result has the longest wait for a
response.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.odradek_node import OdradekNode, metric
from compat.lab.toolchain import Missing, free_port
from compat.lab.wire_client import WireClient, decode_response

from bench.build import add_mode, prepared
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.pauses import METRIC
from bench.results import conclude
from odradek.records.builder import RecordBatchBuilder
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import CreatePartitionsResponse
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from odradek.wire.generated.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
)
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_offsets_response import ListOffsetsResponse
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

PARTITIONS = 10_000
AT_ONCE = 1000
"""The number of partitions in a CreateTopics or Produce request, if there are several topics."""
CREATED_MAX = 9999
"""The maximum number of partitions in a request to create a topic. The metadata records of the
topic and of its partitions must fit into one batch."""
PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.1
SETTLE_SECONDS = 0.5
"""The pause after a request for metrics. The node needs this time to free the large response, which
has forty thousand metrics."""

START_SECONDS_MAX = 3.0
MEMORY_MB_MAX = 300.0
PAUSE_MS_MAX = 50.0
OPEN_FILES_MAX = 40_000 - 1
STEPS = ("create", "list offsets", "metadata", "describe")

Item = TypeVar("Item")
Topics = dict[str, int]
"""The number of partitions by topic name."""


def quantities(form: str) -> dict[str, Quantity]:
    """Return the quantities of a layout by their short names."""
    aims = {
        "create": ("s", None),
        "start": ("s", START_SECONDS_MAX),
        "memory, started": ("MB", MEMORY_MB_MAX),
        "metadata": ("ms", None),
        "metadata, pause": ("ms", PAUSE_MS_MAX),
        "describe, pause": ("ms", PAUSE_MS_MAX),
        "list offsets, pause": ("ms", None),
        "create, pause": ("ms", None),
        **{f"{step}, bystander": ("ms", None) for step in STEPS},
        "memory, written to": ("MB", MEMORY_MB_MAX),
        "open files": ("", OPEN_FILES_MAX),
        "stop": ("s", None),
    }
    return {
        name: Quantity(f"{form}: {name}", unit, most=most) for name, (unit, most) in aims.items()
    }


class Trial:
    """A broker with all topics of a layout."""

    def __init__(self, role: str, topics: Topics, directory: Path, node: type[OdradekNode]) -> None:
        self.topics = topics
        self.partitions = sum(topics.values())
        self.metrics_port = free_port() if role == OURS else None
        settings = {"odradek.metrics.port": str(self.metrics_port)} if role == OURS else {}
        self.broker: Broker = (node if role == OURS else ApacheKafka)(
            settings=settings, directory=directory
        )
        self.broker.start_seconds_max = PATIENCE_SECONDS
        self.values: dict[str, float] = {}

    def run(self) -> dict[str, float]:
        """Run all steps in order. Return the values by the names of `quantities`."""
        with self.broker:
            with self.watched("create"):
                started = time.monotonic()
                self.create()
                self.wait_until_served()
                self.values["create"] = time.monotonic() - started
            self.write_to_all()
            self.values["memory, written to"] = self.broker.rss_bytes() / 1e6
            self.values["open files"] = self.broker.process.num_fds()
            self.stop()
            self.start()
            self.values["memory, started"] = self.broker.rss_bytes() / 1e6
            with self.watched("list offsets"):
                self.wait_until_served()
            with self.watched("metadata"):
                self.values["metadata"] = self.ask_for_all()
            with self.watched("describe"):
                self.describe_all()
            return self.values

    def start(self) -> None:
        """Start the broker, and wait until it serves every partition."""
        self.broker.start()
        self.wait_until_served()
        self.values["start"] = time.monotonic() - self.broker.started_at

    def stop(self) -> None:
        """Stop the broker cleanly."""
        started = time.monotonic()
        self.broker.stop(PATIENCE_SECONDS)
        self.values["stop"] = time.monotonic() - started

    def client(self) -> WireClient:
        """Return a new connection to the broker."""
        return WireClient(self.broker.port, timeout=PATIENCE_SECONDS)

    @contextlib.contextmanager
    def watched(self, step: str) -> Iterator[None]:
        """Record the longest pause of the event loop and the longest wait of a bystander.

        Both are measured while the `with` statement runs.
        """
        self.longest_pause_ms()
        time.sleep(SETTLE_SECONDS)
        with self.client() as client, _Bystander(client) as bystander:
            yield
        self.values[f"{step}, bystander"] = bystander.longest_seconds * 1000
        if self.metrics_port is not None:
            self.values[f"{step}, pause"] = self.longest_pause_ms()

    def longest_pause_ms(self) -> float:
        """Return the longest pause of the event loop since the last call, in ms.

        Return 0 for Apache Kafka, which has no event loop.
        """
        pause = None if self.metrics_port is None else metric(self.metrics_port, METRIC)
        return 0.0 if pause is None else pause * 1000

    # -- requests -----------------------------------------------------------------------------

    def create(self) -> None:
        """Create all topics, with up to `AT_ONCE` partitions or one topic in a request."""
        with self.client() as client:
            for part in in_pieces(list(self.topics.items()), AT_ONCE, lambda each: each[1]):
                wanted = [
                    CreatableTopic(
                        name=name, num_partitions=min(count, CREATED_MAX), replication_factor=1
                    )
                    for name, count in part
                ]
                request = CreateTopicsRequest(topics=wanted, timeout_ms=60_000)
                answer = client.call("CreateTopics", 7, request, CreateTopicsResponse)
                check(each.error_code for each in answer.topics)
            for name, count in self.topics.items():
                if count > CREATED_MAX:
                    grown = CreatePartitionsTopic(name=name, count=count, assignments=None)
                    more = CreatePartitionsRequest(topics=[grown], timeout_ms=60_000)
                    done = client.call("CreatePartitions", 3, more, CreatePartitionsResponse)
                    check(each.error_code for each in done.results)

    def wait_until_served(self) -> None:
        """Wait until the broker leads every partition."""
        wanted = [
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=-1)
                    for index in range(count)
                ],
            )
            for name, count in self.topics.items()
        ]
        request = ListOffsetsRequest(replica_id=-1, topics=wanted)
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self.client() as client:
            frame = client.frame("ListOffsets", 1, request)
            while time.monotonic() < deadline:
                client.send(frame)
                answer = decode_response("ListOffsets", 1, client.receive(), ListOffsetsResponse)
                if not any(each.error_code for t in answer.topics for each in t.partitions):
                    return
                time.sleep(POLL_SECONDS)
        raise BrokerFailed(f"{self.broker.name} does not serve all partitions")

    def ask_for_all(self) -> float:
        """Request the metadata of all topics. Return the response time in ms."""
        with self.client() as client:
            frame = client.frame("Metadata", 12, MetadataRequest(topics=None))
            started = time.monotonic()
            client.send(frame)
            received = client.receive()
            elapsed = time.monotonic() - started
        answer = decode_response("Metadata", 12, received, MetadataResponse)
        leaders = [each.leader_id >= 0 for t in answer.topics for each in t.partitions]
        assert len(leaders) == self.partitions, f"{len(leaders)} partitions are described"
        assert all(leaders), "there are partitions without a leader"
        return elapsed * 1000

    def describe_all(self) -> None:
        """Describe all partitions with DescribeTopicPartitions, page after page."""
        count = 0
        cursor: Cursor | None = None
        with self.client() as client:
            while True:
                request = DescribeTopicPartitionsRequest(topics=[], cursor=cursor)
                answer = client.call(
                    "DescribeTopicPartitions", 0, request, DescribeTopicPartitionsResponse
                )
                count += sum(len(topic.partitions) for topic in answer.topics)
                end = answer.next_cursor
                if end is None:
                    break
                cursor = Cursor(topic_name=end.topic_name, partition_index=end.partition_index)
        assert count == self.partitions, f"{count} partitions are described"

    def write_to_all(self) -> None:
        """Write a record to each partition."""
        builder = RecordBatchBuilder()
        builder.append(time.time_ns() // 1_000_000, None, b"x" * 100)
        batch = bytes(builder.build())
        places = [(name, index) for name, count in self.topics.items() for index in range(count)]
        with self.client() as client:
            for part in in_pieces(places, AT_ONCE, lambda _: 1):
                indexes: dict[str, list[int]] = {}
                for name, index in part:
                    indexes.setdefault(name, []).append(index)
                data = [
                    TopicProduceData(
                        name=name,
                        partition_data=[PartitionProduceData(index=i, records=batch) for i in each],
                    )
                    for name, each in indexes.items()
                ]
                request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=data)
                answer = client.call("Produce", 9, request, ProduceResponse)
                check(e.error_code for t in answer.responses for e in t.partition_responses)


class _Bystander:
    """Sends ApiVersions requests one after the other in a thread, and measures the longest wait."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._frame = client.frame("ApiVersions", 0, ApiVersionsRequest())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.longest_seconds = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._ended.is_set():
            asked = time.monotonic()
            self._client.send(self._frame)
            self._client.receive()
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - asked)
            time.sleep(0.001)


def in_pieces(
    items: Sequence[Item], size: int, weigh: Callable[[Item], int]
) -> Iterator[list[Item]]:
    """Yield lists of consecutive items with a total weight of at most `size`.

    A heavier item is in a list alone.
    """
    piece: list[Item] = []
    weight = 0
    for item in items:
        if piece and weight + weigh(item) > size:
            yield piece
            piece, weight = [], 0
        piece.append(item)
        weight += weigh(item)
    yield piece


def check(codes: Iterator[int]) -> None:
    """Check that all error codes are 0."""
    wrong = {code for code in codes if code}
    assert not wrong, f"there were errors: {sorted(wrong)}"


def forms(partitions: int) -> dict[str, Topics]:
    """Return the layouts by name: one topic, topics of ten partitions, topics of one partition."""
    return {
        f"1 × {partitions}": {"one": partitions},
        f"{partitions // 10} × 10": {f"ten-{i:05}": 10 for i in range(partitions // 10)},
        f"{partitions} × 1": {f"each-{i:05}": 1 for i in range(partitions)},
    }


def plan(partitions: int, rounds: int, alone: bool) -> Iterator[tuple[str, str, Topics]]:
    """Yield the trials in order: the broker's role, the name of the layout, and its topics."""
    for form, topics in forms(partitions).items():
        for number in range(rounds):
            roles = (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS)
            for role in (OURS,) if alone else roles:
                yield role, form, topics


def note(
    figures: dict[str, Figure],
    known: dict[str, Quantity],
    role: str,
    values: dict[str, float],
) -> None:
    """Add the values of a trial to the figures, and print them."""
    for name, value in values.items():
        figure = figures.setdefault(known[name].name, Figure("scale", known[name]))
        figure.values.setdefault(role, []).append(value)
        print(f"scale  {role:6} {known[name].name:40} {value:10.4g} {known[name].unit}", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run the trials, and return the exit code.

    The code is 0 if all limits are kept, 1 if a limit is missed, and 2 if a broker cannot run.
    """
    options = _parser().parse_args(words)
    machine = facts()
    figures: dict[str, Figure] = {}
    brokers: dict[str, Broker] = {}
    try:
        node = prepared(options.mode).node()
        # All files are removed at the end, because a file system may create files slowly shortly
        # after many other files have been removed.
        with tempfile.TemporaryDirectory(prefix="odradek-scale-") as path:
            for role, form, topics in plan(options.partitions, options.rounds, options.alone):
                trial = Trial(role, topics, Path(tempfile.mkdtemp(dir=path)), node)
                brokers[role] = trial.broker
                note(figures, quantities(form), role, trial.run())
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    setup = {
        "kind": "setup",
        **{role: broker.described() for role, broker in brokers.items()},
        "partitions": options.partitions,
        "rounds": options.rounds,
    }
    names = {OURS: OdradekNode.name, THEIRS: ApacheKafka.name}
    trial_run = options.partitions != PARTITIONS
    return conclude(
        [*figures.values()], names, machine, setup, is_trial=trial_run, output=options.output
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument(
        "--partitions", type=int, default=PARTITIONS, help="fewer to try it (default: 10000)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each layout (default: 3)")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka beside it")
    add_mode(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
