"""Replicas move between the log directories of a broker (AlterReplicaLogDirs)."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from compat.lab.maven import kafka_jars
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from compat.tools.workbench import Workbench
from tests.log.support import TOPIC_ID, batch
from tests.log.test_power_loss import stored_batches
from tests.raft.requests import ask
from tests.support.run_seed import numbers_of_histories

from odradek.broker.replication import directory_moves
from odradek.broker.replication.directory_moves import Move
from odradek.config.load import load
from odradek.env.clock import SystemClock
from odradek.env.executor import InlineExecutor
from odradek.log import LogManager, PartitionLog
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker
from odradek.testing.files import UnsyncedFileSystem
from odradek.wire.generated.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.generated.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from odradek.wire.generated.describe_log_dirs_request import DescribeLogDirsRequest
from odradek.wire.generated.describe_log_dirs_response import DescribeLogDirsResponse

from .cluster import cluster

PARTITION = TopicPartition("a", 0)


def contents(log: PartitionLog) -> list[bytes]:
    """The batches from the log start offset on."""
    return [bytes(e.data) for e in stored_batches(log) if e.last_offset >= log.log_start_offset]


def manager(path: Path) -> LogManager:
    directories = f"{path}/1,{path}/2"
    settings = {"log.dirs": directories, "log.cleaner.enable": "false"}
    config = load(None, settings, data_directory=str(path)).config
    logs = LogManager(
        config,
        UnsyncedFileSystem(),
        SystemClock(),
        os.urandom,
        topic_configs=lambda topic: config.topic_config({"internal.segment.bytes": "2000"}),
        executor=InlineExecutor(),
    )
    logs.start()
    return logs


@pytest.mark.parametrize("seed", numbers_of_histories("ODRADEK_MOVE_HISTORIES", 20))
def test_a_future_log_follows_its_log(tmp_path, monkeypatch, seed: int) -> None:
    """The log is appended to, truncated and shortened while it is copied in small chunks."""
    dice = random.Random(seed)
    monkeypatch.setattr(directory_moves, "CHUNK_BYTES", 700)
    logs = manager(tmp_path)
    current = logs.get_or_create(PARTITION, TOPIC_ID, is_new=True)
    other = next(each for each in logs.directories if each is not current.directory)
    move: Move | None = None
    epoch = 0
    for _ in range(dice.randint(1, 60)):
        kind = dice.choice(("append", "append", "append", "copy", "copy", "truncate", "delete"))
        if kind == "append":
            epoch += dice.random() < 0.2
            if current.leader_epoch < epoch:
                current.on_leader_epoch(epoch)
            values = [os.urandom(dice.randint(1, 400)) for _ in range(dice.randint(1, 3))]
            current.append_as_leader(batch(*values), epoch)
            current.high_watermark = dice.randint(current.high_watermark, current.log_end_offset)
        elif kind == "truncate" and current.log_end_offset > current.high_watermark:
            bases = [each.base_offset for each in stored_batches(current)]
            chosen = [each for each in bases if each >= current.high_watermark]
            if chosen:
                current.truncate_to(dice.choice(chosen))
                epoch += 1  # another leader follows
        elif kind == "delete":
            first = dice.randint(current.log_start_offset, current.high_watermark)
            current.delete_records_before(first)
            current.delete_old_segments()
        elif kind == "copy":
            if move is None:
                move = Move(None, current, logs.create_future(PARTITION, other))
            copy(move)
    if move is None:
        move = Move(None, current, logs.create_future(PARTITION, other))
    while copy(move):
        pass
    expected = contents(current)
    offsets = current.log_start_offset, current.high_watermark, current.log_end_offset
    epochs = current.leader_epochs.entries
    moved = logs.promote_future(PARTITION)
    for again in (False, True):
        assert moved.directory.path == other.path
        assert contents(moved) == expected
        found = moved.log_start_offset, moved.high_watermark, moved.log_end_offset
        assert found == offsets
        last = [each for each in epochs if each[1] < moved.log_end_offset]
        assert [each for each in moved.leader_epochs.entries if each in last][-1:] == last[-1:]
        if not again:
            moved.append_as_leader(batch(b"more"), epoch)
            expected, offsets = contents(moved), (*offsets[:2], moved.log_end_offset)
            epochs = moved.leader_epochs.entries
            logs.shutdown()
            logs = manager(tmp_path)
            moved = logs.logs[PARTITION]
    logs.shutdown()


def copy(move: Move) -> bool:
    """Copy a chunk. Return False if there is nothing to copy."""
    offset = directory_moves._aligned(move)
    data = move.current.read(offset, directory_moves.CHUNK_BYTES, move.current.log_end_offset)
    if data is None:
        return False
    range_ = data.records
    read = move.current.storage.file_system.pread
    directory_moves._append(move, read(range_.descriptor, range_.length, range_.position))
    return True


def test_a_crash_between_the_renames_leaves_one_log(tmp_path) -> None:
    logs = manager(tmp_path)
    current = logs.get_or_create(PARTITION, TOPIC_ID, is_new=True)
    current.on_leader_epoch(0)
    current.append_as_leader(batch(b"1", b"2"), 0)
    other = next(each for each in logs.directories if each is not current.directory)
    move = Move(None, current, logs.create_future(PARTITION, other))
    while copy(move):
        pass
    expected = contents(current)
    move.future.flush()
    current.flush()
    os.rename(move.future.path, other.file("a-0"))
    logs.release()
    again = manager(tmp_path)
    assert contents(again.logs[PARTITION]) == expected
    assert len(again.logs) == 1
    again.shutdown()
    last = manager(tmp_path)  # only one of them is left
    assert contents(last.logs[PARTITION]) == expected
    last.shutdown()


def futures_of(wire: WireClient) -> list[tuple[str, str, int, int]]:
    """The directory, topic, index and lag of each future log."""
    request = DescribeLogDirsRequest(topics=None)
    answer = wire.call("DescribeLogDirs", 4, request, DescribeLogDirsResponse)
    return [
        (result.log_dir, topic.name, each.partition_index, each.offset_lag)
        for result in answer.results
        for topic in result.topics
        for each in topic.partitions
        if each.is_future_key
    ]


def alter(wire: WireClient, path: str, topic: str, *indexes: int) -> list[int]:
    """Request moves; return the errors of the partitions."""
    named = AlterReplicaLogDirTopic(name=topic, partitions=list(indexes))
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[named])])
    answer = wire.call("AlterReplicaLogDirs", 2, request, AlterReplicaLogDirsResponse)
    return [each.error_code for topic in answer.results for each in topic.partitions]


def test_a_restart_continues_a_move(tmp_path: Path) -> None:
    settings = {"log.dirs": f"{tmp_path}/1,{tmp_path}/2"}
    slow = {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}
    with Broker(topics={"a": 1}, settings=settings | slow, data=str(tmp_path / "1")) as broker:
        log = broker.node.broker.replicas.find("a", 0).log
        target = next(
            each.path
            for each in broker.node.broker.storage.logs.directories
            if each is not log.directory
        )
        with WireClient(broker.port) as wire:
            for _ in range(5):
                wire.produce_one("a", os.urandom(600_000))
            expected = [each.base_offset for each in wire.batches("a", 0)]
            assert alter(wire, target, "a", 0) == [0]
            assert [each[:3] for each in futures_of(wire)] == [(target, "a", 0)]
            assert futures_of(wire)[0][3] > 0
            later = alter(wire, target, "b", 0, 1, 2, 3)
            assert later == [ErrorCode.REPLICA_NOT_AVAILABLE] * 4
            broker.create_topics({"b": 4})
            replicas = broker.node.broker.replicas
            assert {replicas.find("b", each).log.directory.path for each in range(4)} == {target}
    with (
        Broker(settings=settings, data=str(tmp_path / "1")) as broker,
        WireClient(broker.port) as wire,
    ):
        while futures_of(wire):
            wire.produce_one("a", b"more")
        assert broker.node.broker.replicas.find("a", 0).log.directory.path == target
        assert [each.base_offset for each in wire.batches("a", 0)][:5] == expected
        assert wire.produce_one("a", b"after the move") == 0


@pytest.mark.cluster
@pytest.mark.slow("two replicas of a megabyte move with 300 kB a second")
def test_a_replica_moves_while_it_serves(tmp_path) -> None:
    async def scenario() -> None:
        roles = {1: "broker,controller", 2: "broker"}
        settings = {
            "log_dirs": "{node}/a,{node}/b",
            "replica_alter_log_dirs_io_max_bytes_per_second": "300000",
        }
        async with cluster(tmp_path, roles, **settings) as nodes:
            await nodes.create(1, "a", factor=2)
            await nodes.produce("a", [os.urandom(1000) for _ in range(1000)])

            def log(node_id: int) -> PartitionLog:
                return nodes.nodes[node_id].broker.replicas.find("a", 0).log

            for node_id in (1, 2):  # the leader and the follower, in any order
                node = nodes.nodes[node_id]
                directories = node.broker.storage.logs.directories
                target = next(each for each in directories if each is not log(node_id).directory)
                assert (
                    await moved(nodes, node_id, target.path, 1) == ErrorCode.REPLICA_NOT_AVAILABLE
                )
                assert await moved(nodes, node_id, "/x") == ErrorCode.LOG_DIR_NOT_FOUND
                assert await moved(nodes, node_id, target.path) == ErrorCode.NONE
                answer = await ask(nodes.ports[node_id], DescribeLogDirsRequest(topics=None), 4)
                futures = [
                    (result.log_dir, each.partition_index)
                    for result in answer.results
                    for topic in result.topics
                    for each in topic.partitions
                    if each.is_future_key
                ]
                assert futures == [(target.path, 0)]
                while log(node_id).directory is not target:
                    await nodes.produce("a", [b"during the move"])
                image = nodes.nodes[1].controller
                await nodes.until(
                    lambda n=node_id, t=target, i=image: (
                        i.image.topics.by_name["a"].partitions[0].directory(n) == t.id
                    )
                )
                assert not node.broker.storage.logs.futures
            await nodes.produce("a", [b"after the moves"])
            await nodes.until(lambda: log(1).log_end_offset == log(2).log_end_offset)
            assert contents(log(1)) == contents(log(2))
            places = {each: log(each).directory.path for each in (1, 2)}
            await nodes.stop(2)
            await nodes.start(2)
            assert log(2).directory.path == places[2]
            assert contents(log(2)) == contents(log(1))

    asyncio.run(scenario())


async def moved(nodes, node_id: int, path: str, index: int = 0) -> int:
    """Request a move; return the error of the partition."""
    topic = AlterReplicaLogDirTopic(name="a", partitions=[index])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
    answer = await ask(nodes.ports[node_id], request, 2)
    return answer.results[0].partitions[0].error_code


@pytest.mark.cluster
def test_the_controller_assigns_the_replica_before_the_swap(tmp_path) -> None:
    """Without the controller, the replica stays. A cancelled move returns the replica."""

    async def scenario() -> None:
        roles = {1: "controller", 2: "broker"}
        settings = {"log_dirs": "{node}/a,{node}/b", "metadata_log_dir": "{node}/a"}
        async with cluster(tmp_path, roles, **settings) as nodes:
            await nodes.create(2, "a")
            await nodes.produce("a", [os.urandom(1000) for _ in range(100)])
            broker = nodes.nodes[2].broker
            partition = broker.replicas.find("a", 0)
            source = partition.log.directory
            target = next(each for each in broker.storage.logs.directories if each is not source)

            def assigned() -> bytes:
                topics = nodes.nodes[1].controller.image.topics
                return topics.by_name["a"].partitions[0].directory(2)

            await nodes.until(lambda: assigned() == source.id)
            await nodes.kill_controller(1)
            assert await moved(nodes, 2, target.path) == ErrorCode.NONE
            future = broker.storage.logs.futures[PARTITION]
            await nodes.until(lambda: future.log_end_offset == partition.log.log_end_offset)
            await nodes.produce("a", [b"while the controller does not run"])
            await nodes.until(lambda: future.log_end_offset == partition.log.log_end_offset)
            assert partition.log.directory is source
            # A cancelled move, which the controller may or may not have seen, and another one.
            assert await moved(nodes, 2, source.path) == ErrorCode.NONE
            assert not broker.storage.logs.futures
            await nodes.start(1)
            await nodes.active()
            assert assigned() == source.id
            assert await moved(nodes, 2, target.path) == ErrorCode.NONE
            await nodes.until(lambda: partition.log.directory is target)
            assert assigned() == target.id
            assert broker.replicas.find("a", 0) is partition

    asyncio.run(scenario())


@pytest.mark.java
@pytest.mark.cluster
def test_kafka_reassign_partitions_chooses_the_directory_of_a_new_replica(tmp_path) -> None:
    count = 4

    async def scenario() -> None:
        roles = {1: "broker,controller", 2: "broker"}
        settings = {"log_dirs": "{node}/a,{node}/b", "metadata_log_dir": "{node}/a"}
        async with cluster(tmp_path, roles, **settings) as nodes:
            await nodes.create(1, "a", partitions=count)
            chosen = nodes.nodes[2].broker.storage.logs.directories[1]
            await asyncio.to_thread(reassign, nodes.bootstrap, chosen.path)
            replicas = nodes.nodes[2].broker.replicas
            logs = [replicas.find("a", index).log for index in range(count)]
            assert {log.directory for log in logs} == {chosen}
            topics = nodes.nodes[1].controller
            await nodes.until(
                lambda: (
                    {
                        each.directory(2)
                        for each in topics.image.topics.by_name["a"].partitions.values()
                    }
                    == {chosen.id}
                )
            )

    def reassign(bootstrap: str, path: str) -> None:
        with Workbench(SimpleNamespace(bootstrap=bootstrap), tmp_path) as bench:
            moves = [
                {"topic": "a", "partition": index, "replicas": [2], "log_dirs": [path]}
                for index in range(count)
            ]
            plan = bench.file("plan.json", json.dumps({"version": 1, "partitions": moves}))

            def tool(*words: str):
                name = "reassign.ReassignPartitionsCommand"
                return bench.tool(name, "--reassignment-json-file", plan, *words)

            tool("--execute").says("Successfully started partition reassignments")
            while "is still in progress" in (said := tool("--verify")).out:
                pass
            said.says("is completed|completed successfully")

    try:
        kafka_jars()
    except Missing as reason:
        pytest.skip(str(reason))
    asyncio.run(scenario())
