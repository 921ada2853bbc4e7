"""Moves between log directories while processes are killed, and with Apache Kafka on the same files."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.broker import Broker
from compat.lab.toolchain import Missing
from compat.lab.wire_client import Batch, WireClient
from tests.crash.moving_loop import MovingLoop, TwoDirectories, move
from tests.support.run_seed import run_seed
from tests.support.waiting import until

from odradek.wire.generated.describe_log_dirs_request import DescribeLogDirsRequest
from odradek.wire.generated.describe_log_dirs_response import DescribeLogDirsResponse
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)

pytestmark = pytest.mark.cluster
KILLS = int(os.environ.get("ODRADEK_KILLS", "4"))
BROKER = 4
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
STALLED, UNLIMITED = "1", str(2**63 - 1)
POLL_SECONDS = 0.02
TOPIC, BATCHES = "moved", 8


@pytest.mark.timeout(120 + 20 * KILLS)
@pytest.mark.slow("the node is killed during several moves")
def test_nothing_is_lost_when_the_node_is_killed_during_moves(
    tmp_path: Path, figures: list[str]
) -> None:
    loop = MovingLoop(tmp_path, run_seed())
    report = loop.run(KILLS)
    assert not report.errors, f"seed {run_seed()}: {report.errors[:10]}"
    assert report.acknowledged_count() == sum(report.sent)
    figures.append(
        f"{KILLS} kills, {report.acknowledged_count()} records acknowledged, none lost; "
        f"left after kills: {dict(loop.left_behind)}"
    )


class Places:
    """A broker with two log directories, which Odradek and Apache Kafka run in turn."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.directories = TwoDirectories(directory=path).paths

    def broker(self, is_ours: bool) -> Broker:
        """Return a broker that is not started."""
        if is_ours:
            return TwoDirectories(directory=self._path)
        settings = {"log.dirs": ",".join(map(str, self.directories))}
        return NextApacheKafka(directory=self._path, settings=settings)

    def current(self) -> Path:
        """The directory with the log of the partition."""
        (found,) = [each for each in self.directories if (each / f"{TOPIC}-0").exists()]
        return found

    def other(self) -> Path:
        """The other directory."""
        (found,) = [each for each in self.directories if each != self.current()]
        return found


def limit(wire: WireClient, value: str) -> None:
    """Set the limit of moves for all brokers."""
    config = AlterableConfig(name=LIMIT, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = wire.call(
        "IncrementalAlterConfigs", 1, request, IncrementalAlterConfigsResponse
    ).responses[0]
    assert answer.error_code == 0, answer.error_message


def futures(wire: WireClient) -> list[tuple[str, int]]:
    """The directory and the size of each future log."""
    request = DescribeLogDirsRequest(topics=None)
    answer = wire.call("DescribeLogDirs", 4, request, DescribeLogDirsResponse)
    return [
        (result.log_dir, each.partition_size)
        for result in answer.results
        for topic in result.topics
        for each in topic.partitions
        if each.is_future_key
    ]


def contents(wire: WireClient) -> list[Batch]:
    """The headers of all batches of the partition."""
    found: list[Batch] = []
    end = wire.end_offsets(TOPIC, 1)[0]
    while not found or found[-1].base_offset + found[-1].records < end:
        offset = found[-1].base_offset + found[-1].records if found else 0
        found += wire.batches(TOPIC, 0, offset)
    return found


def begin(wire: WireClient, broker: Broker, target: Path) -> None:
    """Begin a move that does not end, and wait until a part is copied."""
    limit(wire, STALLED)
    assert move(broker.port, target, TOPIC, [0]) == [0]
    until(lambda: any(size for _, size in futures(wire)))


def end(wire: WireClient, expected: list[Batch]) -> None:
    """Let the move end, and check that there are the same records."""
    limit(wire, UNLIMITED)
    until(lambda: not futures(wire))
    assert contents(wire) == expected


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(240)
def test_each_broker_continues_the_moves_of_the_other(tmp_path: Path) -> None:
    places = Places(tmp_path)
    value = os.urandom(900_000)

    with closing(places.broker(True)) as ours:
        ours.start()
        with WireClient(ours.port) as wire:
            until(lambda: wire.has_leader(TOPIC))
            for _ in range(BATCHES):
                assert wire.produce_one(TOPIC, value) == 0
            target = places.other()
            begin(wire, ours, target)
            expected = contents(wire)
        ours.kill()
    try:
        theirs = places.broker(False)
    except Missing as reason:
        pytest.skip(str(reason))
    with closing(theirs):
        theirs.start()
        with WireClient(theirs.port) as wire:
            assert [path for path, _ in futures(wire)] == [str(target)]
            end(wire, expected)
            assert places.current() == target
            target = places.other()
            begin(wire, theirs, target)
        theirs.kill()
    with closing(places.broker(True)) as ours:
        ours.start()
        with WireClient(ours.port) as wire:
            assert [path for path, _ in futures(wire)] == [str(target)]
            end(wire, expected)
            assert places.current() == target
        ours.kill()

    # A kill between the two renames of the swap leaves only the future log, in the directory that
    # the controller has assigned.
    (target / f"{TOPIC}-0").rename(target / f"{TOPIC}-0.{'0' * 32}-future")
    with closing(places.broker(False)) as theirs:
        theirs.start()
        with WireClient(theirs.port) as wire:
            until(lambda: wire.has_leader(TOPIC))
            assert contents(wire) == expected
            assert places.current() == target
        theirs.kill()
    (target / f"{TOPIC}-0").rename(target / f"{TOPIC}-0.{'1' * 32}-future")
    with closing(places.broker(True)) as ours:
        ours.start()
        with WireClient(ours.port) as wire:
            assert contents(wire) == expected
            assert places.current() == target
