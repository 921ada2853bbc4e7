"""The fast path of Produce has the same responses and effects as the general path."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.support import LED_HERE, partition_of
from tests.log.support import NOW_MS, batch
from tests.network.scripted import Scripted

from odradek.broker.partitions.leading import LeaderContext
from odradek.broker.partitions.partition import Partition
from odradek.core.metadata.image import EMPTY_IMAGE
from odradek.env.clock import SystemClock
from odradek.handlers import k00_produce
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.entry import Binding, Bound
from odradek.handlers.registry import SERVED
from odradek.model import api_keys
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.compression import Codec
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.primitives import write_uvarint

REPLICATED = LED_HERE._replace(replicas=(1, 2), isr=(1, 2), directories=(bytes(16),) * 2)
TOPICS = {"orders": bytes(range(16)), "x": bytes(range(16, 32)), "__consumer_offsets": bytes(16)}
PARTITIONS = 4
CORRELATION = 77
SMALL_BATCHES = {"max_message_bytes": 400}


def split(sent: bytes) -> list[bytes]:
    """The answers of which the sent bytes consist, each with its size in front."""
    answers = []
    while sent:
        end = 4 + int.from_bytes(sent[:4], "big")
        answers.append(sent[:end])
        sent = sent[end:]
    return answers


class Node:
    """Partitions of some topics, and a dispatcher that serves Produce from them.

    Of each topic, partition 0 takes everything, 1 only small batches, 2 is led elsewhere and 3
    gives records the time of the append. If `is_replicated`, node 2 follows partitions 0 and 1.
    """

    def __init__(self, path: Path, quick: bool, is_replicated: bool = False) -> None:
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.quick_answers = 0
        by_name: dict[str, dict[int, Partition]] = {}
        elsewhere = LED_HERE._replace(leader=2)
        for topic in TOPICS:
            by_name[topic] = {
                0: self._partition(path, topic, 0),
                1: self._partition(path, topic, 1, **SMALL_BATCHES),
                2: self._partition(path, topic, 2, registration=elsewhere),
                3: self._partition(path, topic, 3, message_timestamp_type="LogAppendTime"),
            }
        for name in ("orders", "x") if is_replicated else ():
            for each in (by_name[name][0], by_name[name][1]):
                each.update(REPLICATED)
                each.lead_followers(LeaderContext(1, lambda: NOW_MS, _live, 10_000, _no_change))
        wire = {TOPICS[name]: each for name, each in by_name.items()}
        by_id = dict(wire)
        for name, each in by_name.items():
            wire[write_uvarint(len(name) + 1) + name.encode()] = each
        replicas = SimpleNamespace(
            by_name=by_name, by_id=by_id, by_wire_topic=wire, why_missing=self._why_missing
        )
        broker = SimpleNamespace(
            replicas=replicas,
            metadata=SimpleNamespace(image=EMPTY_IMAGE),
            loop=asyncio.get_running_loop() if is_replicated else None,
            authorizer=None,
        )
        handler = k00_produce.HANDLER

        def quickly(*arguments: Any) -> bytes | None:
            answer = handler.quick(broker, *arguments) if quick else None
            self.quick_answers += answer is not None
            return answer

        bound = Bound(handler, partial(handler.handle, broker), quickly)
        served = SERVED[0]
        binding = Binding(served.version_min, served.version_max, lambda: bound)
        self.dispatch = Dispatcher({0: binding}, SystemClock())
        self.dispatch.entries[api_keys.PRODUCE].load()

    def _partition(self, path: Path, topic: str, index: int, **arguments: Any) -> Partition:
        made = partition_of(path, topic=topic, topic_id=TOPICS[topic], index=index, **arguments)
        self.partitions[topic, index] = made
        return made

    def _why_missing(self, topic: str | bytes, index: int) -> ErrorCode:
        if topic in TOPICS or topic in TOPICS.values():
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_id = isinstance(topic, bytes)
        return ErrorCode.UNKNOWN_TOPIC_ID if is_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def play(self, frames: list[bytes]) -> tuple[list[bytes], bool]:
        """The answers, and whether the connection was closed."""
        answers: list[bytes] = []
        closed = False
        client = Scripted(self.dispatch)
        for frame in frames:
            client.receive(len(frame).to_bytes(4, "big") + frame)
            if client.connection.closed:
                closed = True
                answers += split(bytes(client.transport.sent))
                client = Scripted(self.dispatch)
        return answers + split(bytes(client.transport.sent)), closed

    def content(self) -> dict[tuple[str, int], tuple[Any, ...]]:
        """What is in the logs, and what the partitions count."""
        found = {}
        for name, each in self.partitions.items():
            log = each.log
            data = log.read(0, 1 << 30, log.log_end_offset)
            records = b""
            if data is not None:
                part = data.records
                records = log.storage.file_system.pread(part.descriptor, len(part), part.position)
            found[name] = (
                records,
                log.log_end_offset,
                log.high_watermark,
                each.records_in,
                each.bytes_in,
                [] if log.producers is None else log.active_producers(),
            )
        return found


def frame_of(version: int, topics: Any, client_id: str | None = "c", **fields: Any) -> bytes:
    request = ProduceRequest(**{"timeout_ms": 1000, **fields})
    for name, partitions in topics:
        topic = TopicProduceData(name=name, topic_id=TOPICS.get(name, b"?" * 16))
        for index, records in partitions:
            topic.partition_data.append(PartitionProduceData(index=index, records=records))
        request.topic_data.append(topic)
    header = RequestHeader(
        request_api_key=0,
        request_api_version=version,
        correlation_id=CORRELATION,
        client_id=client_id,
    )
    return header.encode(2 if version >= 9 else 1) + request.encode(version)


def _damage(records: bytes, at: int) -> bytes:
    at %= len(records)
    return records[:at] + bytes([records[at] ^ 0x55]) + records[at + 1 :]


@st.composite
def records_of_a_producer(draw: st.DrawFn) -> bytes | None:
    """One batch, mostly a good one; of no producer, or of one of two with few sequences."""
    values = draw(st.lists(st.integers(0, 150).map(bytes), min_size=1, max_size=3))
    fields: dict[str, Any] = {}
    if draw(st.booleans()):
        fields = {
            "producer_id": draw(st.integers(1, 2)),
            "producer_epoch": draw(st.sampled_from([0, 0, 0, 1])),
            "base_sequence": draw(st.integers(0, 4)),
        }
        if draw(st.integers(0, 15)) == 0:
            fields["is_transactional"] = True
    records = bytes(
        batch(
            *values,
            timestamp=NOW_MS + draw(st.integers(0, 3)),
            codec=draw(
                st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD])
            ),
            **fields,
        )
    )
    kind = draw(st.integers(0, 19))
    if kind == 0:
        return _damage(records, draw(st.integers(0, 1000)))
    if kind == 1:
        return records[: draw(st.integers(0, len(records)))]
    if kind == 2:
        return records + records
    return records if kind > 3 else draw(st.sampled_from([b"", None, records]))


NAMES = st.sampled_from(["orders", "orders", "orders", "x", "x", "__consumer_offsets", "unknown"])
REQUESTS = st.tuples(
    st.sampled_from([13, 13, 12, 9, 8, 3]),
    st.lists(
        st.tuples(
            NAMES,
            st.lists(
                st.tuples(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 9]), records_of_a_producer()),
                min_size=1,
                max_size=5,
            ),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([-1, -1, -1, 1, 0, 5]),
    st.sampled_from(["c", None, "__admin_client"]),
)


def both(frames: list[bytes]) -> tuple[list[bytes], Node]:
    """Play frames in both ways, compare, and return the answers and the quick one's node."""
    path = Path(tempfile.mkdtemp())
    try:
        general, quick = Node(path / "general", False), Node(path / "quick", True)
        expected, found = general.play(frames), quick.play(frames)
        assert found == expected
        assert quick.content() == general.content()
        return found[0], quick
    finally:
        shutil.rmtree(path)


@settings(max_examples=60, deadline=None)
@given(st.lists(REQUESTS, min_size=1, max_size=6))
def test_any_requests(requests: Any) -> None:
    frames = [
        frame_of(version, topics, client_id, acks=acks)
        for version, topics, acks, client_id in requests
    ]
    both(frames)


def _responses(answers: list[bytes], version: int) -> list[ProduceResponse]:
    return [ProduceResponse.decode(answer[9:], version) for answer in answers]


@pytest.mark.parametrize("version", [9, 12, 13])
def test_usual_requests_go_the_quick_way(version: int) -> None:
    def records(n: int) -> bytes:
        return bytes(batch(b"value", producer_id=1, producer_epoch=0, base_sequence=n))

    topics = [
        [("orders", [(0, records(n)), (1, records(n))]), ("x", [(0, records(n))])] for n in range(9)
    ]
    answers, node = both([frame_of(version, each, acks=-1) for each in topics])
    assert node.quick_answers == 9
    for number, response in enumerate(_responses(answers, version)):
        for topic in response.responses:
            for each in topic.partition_responses:
                assert (each.error_code, each.base_offset) == (0, number)


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("refused", [{0}, {1}, {2}, {0, 1, 2}, {0, 2}])
def test_what_one_partition_refuses_is_appended_to_the_others(
    version: int, refused: set[int]
) -> None:
    good, bad = bytes(batch(b"value")), _damage(bytes(batch(b"value")), -1)
    partitions = [(0, bad if number in refused else good) for number in range(3)]
    answers, node = both([frame_of(version, [("orders", partitions), ("x", partitions)], acks=-1)])
    assert node.quick_answers == 1
    (response,) = _responses(answers, version)
    for topic in response.responses:
        codes = [each.error_code for each in topic.partition_responses]
        corrupt, fine = ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE
        assert codes == [corrupt if number in refused else fine for number in range(3)]


@pytest.mark.parametrize("version", [9, 13])
def test_a_partition_that_is_led_elsewhere_names_its_leader(version: int) -> None:
    good = bytes(batch(b"value"))
    answers, node = both([frame_of(version, [("orders", [(0, good), (2, good)])], acks=1)])
    assert node.quick_answers == 1
    (response,) = _responses(answers, version)
    here, elsewhere = response.responses[0].partition_responses
    assert here.error_code == ErrorCode.NONE
    assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert elsewhere.base_offset == -1


@pytest.mark.parametrize("topic", ["__consumer_offsets", "unknown"])
def test_nothing_is_appended_before_all_partitions_are_known(topic: str) -> None:
    good = bytes(batch(b"value"))
    _, node = both([frame_of(13, [("orders", [(0, good)]), (topic, [(0, good)])], acks=-1)])
    assert node.quick_answers == 0
    assert node.partitions["orders", 0].log.log_end_offset == 1


def test_a_transactional_batch_refuses_the_whole_request() -> None:
    good = bytes(batch(b"value"))
    fields: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    transactional = bytes(batch(b"value", is_transactional=True, **fields))
    _, node = both([frame_of(13, [("orders", [(0, good), (1, transactional)])], acks=-1)])
    assert node.quick_answers == 0
    assert node.partitions["orders", 0].log.log_end_offset == 0


# -- partitions with followers ----------------------------------------------------------------------


def _live(broker_id: int) -> None:
    """The follower's broker; it is not needed, because the ISR does not grow."""


def _no_change(*_: Any) -> None:
    """The controller never answers."""


async def _let_run() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def converse(path: Path, quick: bool, steps: list[Any]) -> tuple[list[Any], Node]:
    """What the client has got after each step.

    A step is a request, a partition whose follower has caught up, or a partition that fails with an
    error.
    """
    node = Node(path, quick, is_replicated=True)
    client = Scripted(node.dispatch)
    seen: list[Any] = []
    for step in steps:
        if isinstance(step, bytes):
            client.receive(len(step).to_bytes(4, "big") + step)
        else:
            partition, error = node.partitions[step[0]], step[1]
            if error is None:
                partition._on_high_watermark(partition.log.log_end_offset, 0)
            else:
                partition.fail_uncommitted(ApiError(error))
        await _let_run()
        seen.append((split(bytes(client.transport.sent)), client.connection.closed))
        if client.connection.closed:
            client = Scripted(node.dispatch)
    metrics = node.dispatch.entries[0].metrics
    seen.append((metrics.count, metrics.bytes_in, metrics.by_version))
    return seen, node


def both_converse(steps: list[Any]) -> tuple[list[Any], Node]:
    path = Path(tempfile.mkdtemp())
    try:
        expected, general = asyncio.run(converse(path / "general", False, steps))
        found, quick = asyncio.run(converse(path / "quick", True, steps))
        assert found == expected
        assert quick.content() == general.content()
        return found, quick
    finally:
        shutil.rmtree(path)


LED = st.tuples(st.sampled_from(["orders", "orders", "x"]), st.sampled_from([0, 0, 1]))
ERRORS = st.sampled_from(
    [None, None, None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(REQUESTS, st.sampled_from([60_000, 60_000, 0])), st.tuples(LED, ERRORS)
        ),
        min_size=2,
        max_size=8,
    )
)
def test_any_requests_to_partitions_with_followers(steps: list[Any]) -> None:
    both_converse(
        [
            frame_of(first[0], first[1], first[3], acks=first[2], timeout_ms=second)
            if len(first) == 4
            else (first, second)
            for first, second in steps
        ]
    )


GOOD = bytes(batch(b"value"))
TWO = [("orders", [(0, GOOD)]), ("x", [(0, GOOD)])]


@pytest.mark.parametrize("version", [9, 13])
def test_replicated_records_are_acknowledged_when_all_followers_have_them(version: int) -> None:
    request = frame_of(version, TWO, acks=-1)
    seen, node = both_converse([request, (("orders", 0), None), request, (("x", 0), None)])
    assert node.quick_answers == 2
    assert [len(answers) for answers, _ in seen[:-1]] == [0, 0, 0, 1]
    (response,) = _responses(seen[3][0], version)
    results = [topic.partition_responses[0] for topic in response.responses]
    assert [(each.error_code, each.base_offset) for each in results] == [(0, 0), (0, 0)]


def test_one_acknowledgement_does_not_wait_for_followers() -> None:
    seen, node = both_converse([frame_of(13, TWO, acks=1), frame_of(13, TWO, acks=0)])
    assert node.quick_answers == 2
    assert [len(answers) for answers, _ in seen[:-1]] == [1, 1]


def test_an_error_names_the_partition_and_keeps_the_others() -> None:
    steps = [
        frame_of(13, TWO, acks=-1),
        (("x", 0), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (("orders", 0), None),
    ]
    seen, node = both_converse(steps)
    assert node.quick_answers == 1
    (response,) = _responses(seen[2][0], 13)
    results = [topic.partition_responses[0] for topic in response.responses]
    codes = [(each.error_code, each.base_offset) for each in results]
    assert codes == [(0, 0), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_followers_that_do_not_follow_are_timed_out() -> None:
    seen, node = both_converse([frame_of(13, TWO, acks=-1, timeout_ms=0)])
    assert node.quick_answers == 1
    (response,) = _responses(seen[0][0], 13)
    for topic in response.responses:
        (result,) = topic.partition_responses
        assert (result.error_code, result.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
