"""A future log replaces the log of a partition while requests wait for acknowledgements."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support import LED_HERE, NODE_ID
from tests.log.support import TOPIC_ID, LaterExecutor, LogWorkspace, batch, topic_config

from odradek.broker.partitions.leading import LeaderContext
from odradek.broker.partitions.partition import ACKS_ALL, Partition
from odradek.broker.replication import directory_moves
from odradek.broker.replication.directory_moves import Move
from odradek.core.metadata.registrations import PartitionRegistration
from odradek.env.executor import InlineExecutor
from odradek.log import LogDirectoryOffline, LogManager
from odradek.model.topic_partition import TopicPartition
from odradek.testing.files import UnsyncedFileSystem

NAME = TopicPartition("topic", 0)


class Place:
    """Logs in two directories. Background work waits until `work` runs it."""

    def __init__(self, path: Path, registration: PartitionRegistration, **settings: object) -> None:
        self.background: list = []
        workspace = LogWorkspace(path, UnsyncedFileSystem())
        self.manager: LogManager = workspace.manager(
            [f"{path}/1", f"{path}/2"],
            overrides={"log.cleaner.enable": "false"},
            topic_configs=lambda _: topic_config(**settings),
            executor=LaterExecutor(lambda work, done: self.background.append((work, done))),
        )
        self.manager.start()
        log = self.manager.get_or_create(NAME, TOPIC_ID, is_new=True)
        log.on_leader_epoch(registration.leader_epoch)
        self.partition = Partition(
            "topic", TOPIC_ID, 0, log, registration, NODE_ID, self.manager.when_flushed
        )

    def work(self) -> None:
        while self.background:
            InlineExecutor().submit(*self.background.pop(0))

    def move(self) -> None:
        """Copy the log to the other directory, and replace it."""
        log = self.partition.log
        other = next(each for each in self.manager.directories if each is not log.directory)
        move = Move(self.partition, log, self.manager.create_future(NAME, other))
        while True:
            offset = directory_moves._aligned(move)
            data = log.read(offset, 1 << 20, log.log_end_offset)
            if data is None:
                break
            found = data.records
            read = log.storage.file_system.pread(found.descriptor, found.length, found.position)
            directory_moves._append(move, read)
        move.future.flush()
        assert directory_moves._may_replace(move)
        self.partition.use_log(self.manager.promote_future(NAME))
        assert self.partition.log is move.future
        assert log.is_deleted


@pytest.mark.parametrize("acks", [ACKS_ALL, 1])
def test_a_flush_that_waits_is_one_of_the_new_log(tmp_path: Path, acks: int) -> None:
    place = Place(tmp_path, LED_HERE, flush_messages=1)
    partition, told = place.partition, []
    first = partition.append(batch(b"1"), acks).last_offset + 1
    partition.when_acknowledged(first, acks, told.append)
    second = partition.append(batch(b"2"), acks).last_offset + 1  # during the first flush
    partition.when_acknowledged(second, acks, told.append)
    place.move()
    assert told == []
    assert partition.log.recovery_point == 0, "the new names are not durable"
    place.work()
    assert told == [None, None]
    assert partition.log.recovery_point == second
    third = partition.append(batch(b"3"), acks).last_offset + 1
    partition.when_acknowledged(third, acks, told.append)
    place.work()
    assert told == [None] * 3
    assert partition.log.high_watermark == third
    place.manager.shutdown()


def test_a_leader_goes_on_to_wait_for_its_followers(tmp_path: Path) -> None:
    registration = LED_HERE._replace(
        replicas=(1, 2), isr=(1, 2), directories=(bytes(16), bytes(16))
    )
    place = Place(tmp_path, registration)
    partition, told = place.partition, []
    context = LeaderContext(
        node_id=NODE_ID,
        now_ms=lambda: 0,
        broker_of=lambda _: None,
        lag_time_max_ms=30_000,
        alter=lambda *_: None,
    )
    partition.lead_followers(context)
    end = partition.append(batch(b"1", b"2"), ACKS_ALL).last_offset + 1
    partition.when_committed(end, told.append)
    leading = partition.leading
    place.move()
    assert partition.leading is leading
    assert told == []
    leading.fetched(2, -1, end, 0)
    assert told == [None]
    assert partition.log.high_watermark == end
    place.work()
    place.manager.shutdown()


def test_the_guard_of_a_transaction_stays_valid(tmp_path: Path) -> None:
    place = Place(tmp_path, LED_HERE)
    log = place.partition.log
    guard = log.start_verification(7, 0, 0, False)
    assert guard
    place.move()
    moved = place.partition.log
    assert moved.start_verification(7, 0, 0, False) == guard
    records = batch(b"1", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert place.partition.append(records, 1, guard).base_offset == 0
    assert moved.start_verification(8, 0, 0, False) > guard
    place.work()
    place.manager.shutdown()


def test_a_failed_rename_leaves_the_log(tmp_path: Path, monkeypatch) -> None:
    place = Place(tmp_path, LED_HERE)
    partition = place.partition
    partition.append(batch(b"1"), 1)
    files, rename = place.manager.storage.file_system, UnsyncedFileSystem.rename

    def refuse(source: str, target: str) -> None:
        if source.endswith("-future"):
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(UnsyncedFileSystem, "rename", staticmethod(refuse))
    log = partition.log
    with pytest.raises(LogDirectoryOffline):
        place.move()
    assert partition.log is log
    assert not log.is_deleted
    assert files.status(log.path) is not None
    assert partition.append(batch(b"2"), 1).base_offset == 1
    assert not place.manager.futures, "its directory is offline"
    place.work()
    place.manager.shutdown()


def test_a_new_log_is_created_in_the_preferred_directory(tmp_path: Path) -> None:
    place = Place(tmp_path, LED_HERE)
    second = place.manager.directories[1]
    names = [TopicPartition("new", index) for index in range(4)]
    for name in names:
        place.manager.prefer(name, second)
    made = [place.manager.get_or_create(name, TOPIC_ID, is_new=True) for name in names]
    assert {log.directory for log in made} == {second}
    place.manager.delete(names[0])
    again = place.manager.get_or_create(names[0], TOPIC_ID, is_new=True)
    assert again.directory is not second, "a preference is used once"
    place.work()
    place.manager.shutdown()
