"""Records are acknowledged when they satisfy the requested `acks`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support import LED_HERE, Flushes, partition_of
from tests.log.support import batch

from odradek.broker.coordinator.replicas import ReplicaPartition
from odradek.broker.partitions.partition import ACKS_ALL
from odradek.core.metadata.registrations import PartitionRegistration
from odradek.log.errors import DiskFull, LogDirectoryOffline
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.builder import plain_batch
from odradek.records.control import EndOfTransaction, end_of_transaction_batch

FLUSHED_BEFORE_ACK = {"flush_messages": 1}


class Answers:
    """Collects what callbacks are told, under the name of each."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ErrorCode]] = []

    def __call__(self, name: str):
        def answer(error: ApiError | None) -> None:
            self.told.append((name, ErrorCode.NONE if error is None else error.code))

        return answer


@pytest.fixture
def answers() -> Answers:
    return Answers()


def test_without_a_flush_records_are_committed_when_they_are_appended(tmp_path: Path, answers):
    partition = partition_of(tmp_path)
    end = partition.append(batch(b"1", b"2"), ACKS_ALL).last_offset + 1
    assert partition.commits_at_once
    assert partition.is_acknowledged(end, ACKS_ALL)
    assert partition.is_acknowledged(end, 1)
    partition.when_committed(end, answers("all"))
    partition.when_acknowledged(end, 1, answers("1"))
    assert answers.told == [("all", 0), ("1", 0)]


@pytest.mark.parametrize("acks", [ACKS_ALL, 1])
def test_with_flush_messages_1_records_are_acknowledged_after_the_flush(tmp_path, answers, acks):
    flushes = Flushes()
    partition = partition_of(tmp_path, flushes=flushes, **FLUSHED_BEFORE_ACK)
    end = partition.append(batch(b"1"), acks).last_offset + 1
    assert not partition.commits_at_once
    assert not partition.is_acknowledged(end, acks)
    partition.when_acknowledged(end, acks, answers("1"))
    assert partition.log.high_watermark == 0
    assert answers.told == []
    flushes.succeed()
    assert answers.told == [("1", 0)]
    assert partition.log.high_watermark == 1
    assert partition.is_acknowledged(end, acks)


def test_callbacks_come_in_the_order_of_their_offsets(tmp_path: Path, answers):
    flushes = Flushes()
    partition = partition_of(tmp_path, flushes=flushes, **FLUSHED_BEFORE_ACK)
    for _ in range(3):
        partition.append(batch(b"1"), ACKS_ALL)
    for offset in (3, 1, 2, 1):
        partition.when_committed(offset, answers(f"{offset}"))
    partition.when_committed(0, answers("0"))
    assert answers.told == [("0", 0)]
    flushes.waiting, later = flushes.waiting[:1], flushes.waiting[1:]
    flushes.succeed()
    assert answers.told == [("0", 0), ("1", 0), ("1", 0)]
    flushes.waiting = later
    flushes.succeed()
    assert answers.told == [("0", 0), ("1", 0), ("1", 0), ("2", 0), ("3", 0)]


def test_the_high_watermark_advances_before_waiters_are_notified(tmp_path: Path):
    flushes = Flushes()
    partition = partition_of(tmp_path, flushes=flushes, **FLUSHED_BEFORE_ACK)
    seen: list[int] = []
    partition.append(batch(b"1"), ACKS_ALL)
    partition.when_committed(1, lambda error: seen.append(partition.log.high_watermark))
    flushes.succeed()
    assert seen == [1]


@pytest.mark.parametrize("acks", [ACKS_ALL, 1])
@pytest.mark.parametrize("error", [DiskFull("full"), LogDirectoryOffline("offline")])
def test_a_failed_flush_is_no_acknowledgement(tmp_path: Path, answers, acks, error):
    flushes = Flushes()
    partition = partition_of(tmp_path, flushes=flushes, **FLUSHED_BEFORE_ACK)
    partition.append(batch(b"1"), acks)
    partition.when_acknowledged(1, acks, answers("1"))
    flushes.fail(error)
    assert answers.told == [("1", error.code)]
    assert partition.log.high_watermark == 0


def test_a_flush_that_fails_while_it_is_begun_is_tried_once_more(tmp_path: Path, answers):
    flushes = Flushes()
    partition = partition_of(tmp_path, flushes=flushes, **FLUSHED_BEFORE_ACK)
    partition.append(batch(b"1"), ACKS_ALL)
    flushes.fail(DiskFull("too many open files"))  # before anybody waits
    partition.when_committed(1, answers("1"))
    assert answers.told == []
    flushes.succeed()
    assert answers.told == [("1", 0)]


def test_a_later_flush_commits_what_an_earlier_one_could_not(tmp_path: Path, answers):
    flushes = Flushes()
    partition = partition_of(tmp_path, flushes=flushes, **FLUSHED_BEFORE_ACK)
    partition.append(batch(b"1"), ACKS_ALL)
    partition.when_committed(1, answers("1"))
    flushes.fail(DiskFull("full"))
    partition.append(batch(b"2"), ACKS_ALL)
    partition.when_committed(2, answers("2"))
    partition.when_committed(1, answers("1 again"))
    flushes.succeed()
    code = DiskFull("").code
    assert answers.told == [("1", code), ("1 again", 0), ("2", 0)]


def test_waiting_requests_fail_when_the_partition_is_removed(tmp_path: Path, answers):
    flushes = Flushes()
    partition = partition_of(tmp_path, flushes=flushes, **FLUSHED_BEFORE_ACK)
    partition.append(batch(b"1"), ACKS_ALL)
    partition.when_committed(1, answers("1"))
    partition.fail_uncommitted(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    partition.fail_uncommitted(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    flushes.succeed()
    assert answers.told == [("1", ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_a_callback_may_append_and_wait_again(tmp_path: Path, answers):
    flushes = Flushes()
    partition = partition_of(tmp_path, flushes=flushes, **FLUSHED_BEFORE_ACK)

    def again(error: ApiError | None) -> None:
        answers("1")(error)
        partition.append(batch(b"2"), ACKS_ALL)
        partition.when_committed(2, answers("2"))

    partition.append(batch(b"1"), ACKS_ALL)
    partition.when_committed(1, again)
    flushes.succeed()
    assert answers.told == [("1", 0)]
    flushes.succeed()
    assert answers.told == [("1", 0), ("2", 0)]


def test_the_high_watermark_only_advances_and_not_past_the_end_of_the_log(tmp_path: Path):
    log = partition_of(tmp_path, flushes=Flushes(), **FLUSHED_BEFORE_ACK).log
    log.append_as_leader(batch(b"1", b"2", b"3"), 0)
    assert log.high_watermark == 0
    moves = [log.advance_high_watermark(offset) for offset in (2, 1, 2, 9, 9)]
    assert moves == [True, False, False, True, False]
    assert log.high_watermark == 3


def _replicated(*isr: int) -> PartitionRegistration:
    """A registration with two replicas, of which these are in sync."""
    return LED_HERE._replace(replicas=(1, 2), directories=(bytes(16), bytes(16)), isr=isr)


def test_a_partition_needs_no_more_replicas_than_it_has(tmp_path: Path):
    """As in Apache Kafka from 3.7 on (`Partition.effectiveMinIsr`)."""
    partition = partition_of(tmp_path, min_insync_replicas=2)
    partition.append(batch(b"1"), ACKS_ALL)
    ReplicaPartition(partition).append_records(0, [(b"key", b"value")])
    assert partition.log.high_watermark == 2


def test_coordinators_and_markers_need_enough_replicas_in_sync(tmp_path: Path):
    """As with acks=all: a coordinator's decision must survive the loss of this broker."""
    partition = partition_of(tmp_path, registration=_replicated(1), min_insync_replicas=2)
    replica = ReplicaPartition(partition)
    ending = EndOfTransaction(True, 0)
    marker = end_of_transaction_batch(
        True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    writes = (
        lambda: replica.append(plain_batch(0, [(b"key", b"value")])),
        lambda: replica.append_records(0, [(b"key", b"value")]),
        lambda: partition.append_marker(bytearray(marker), ending, 2),
    )
    for write in writes:
        with pytest.raises(ApiError, match="NOT_ENOUGH_REPLICAS"):
            write()
    assert partition.log.log_end_offset == 0
    partition.update(_replicated(1, 2))
    for write in writes:
        write()
    assert partition.log.high_watermark == len(writes)
