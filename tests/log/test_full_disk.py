"""A full disk: writes that do not fit fail, and work continues when there is space again."""

from __future__ import annotations

import errno

import pytest
from tests.log.support import (
    NOW_MS,
    PARTITION,
    LogWorkspace,
    append,
    batch,
    end_transaction,
    read_batches,
    values,
)

from odradek.log import DiskFull, LogDirectoryOffline, PartitionLog
from odradek.log.checkpoints import read_offsets
from odradek.model.topic_partition import TopicPartition
from odradek.sim.lossy_file_system import Directory, LossyFileSystem

TOPIC_ID = b"topic id 16 byte"
SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 100, "flush_messages": 7}
REFUSALS = 3
"""Number of attempts of each step while the disk is full."""


class FullDisk(LossyFileSystem):
    """A disk that is full from the `fits`-th write or new name on, until `has_room` is set.

    Half of the bytes of the first failing write are written.
    """

    def __init__(self, fits: int | None = None, root: Directory | None = None) -> None:
        super().__init__(root)
        self.fits = fits
        self.has_room = True
        self.changes = 0
        self.code = errno.ENOSPC

    def _step(self, operation: str, path: str) -> None:
        super()._step(operation, path)
        if operation in {"pwrite", "create", "mkdir"}:
            self.changes += 1
            if self.changes == self.fits:
                self.has_room = False
            if not self.has_room:
                raise OSError(self.code, "no room", path)

    def pwrite(self, descriptor: int, data, position: int) -> int:
        was_full = not self.has_room
        try:
            return super().pwrite(descriptor, data, position)
        except OSError:
            if was_full or len(data) < 2:
                raise
            half = bytes(data[: len(data) // 2])
            self.descriptors[descriptor].write(position, half)
            return len(half)


def contents(directory: Directory, path: str = "") -> dict[str, bytes]:
    """Return all files except the sparse indexes, which may have one more entry after a failed
    roll."""
    found: dict[str, bytes] = {}
    for name, node in directory.now.items():
        if isinstance(node, Directory):
            found |= contents(node, f"{path}/{name}")
        elif not name.endswith((".index", ".timeindex")):
            found[f"{path}/{name}"] = bytes(node.now)
    return found


def state(log) -> list[object]:
    """Return everything that a client can see of the log."""
    return [
        [bytes(each.data) for each in read_batches(log)],
        log.last_stable_offset,
        log.aborted_transactions(0, log.log_end_offset),
        log.active_producers(),
        log.leader_epochs.entries,
        [log.offset_for_timestamp(NOW_MS + each).offset for each in range(12)],
    ]


def steps():
    """Yield operations on a log. Transactions are committed, aborted or left open."""
    for number in range(12):
        producer = 1 + number % 2
        for sequence in range(2):
            yield lambda log, n=number, p=producer, s=sequence: log.append_as_leader(
                batch(
                    b"%d" % n * (5 + 7 * n),
                    timestamp=NOW_MS + n,
                    producer_id=p,
                    producer_epoch=0,
                    base_sequence=n // 2 * 2 + s,
                    is_transactional=True,
                ),
                n // 4,
            )
        yield lambda log, n=number: append(log, b"plain" * n, b"x", epoch=n // 4)
        if number % 3:
            yield lambda log, n=number, p=producer: end_transaction(log, n % 2 == 0, p)
    yield lambda log: log.flush()
    yield lambda log: log.roll()
    yield lambda log: append(log, b"last", epoch=3)


def perform(workspace: LogWorkspace, step, log) -> int:
    """Perform a step. If it fails repeatedly, free space first. Return the number of failures."""
    for attempt in range(REFUSALS):
        before = (
            log.log_end_offset,
            log.producers.first_unstable_offset,
            log.size,
            log.active_segment,
        )
        try:
            step(log)
            return attempt
        except DiskFull:
            assert not workspace.directory.is_offline
            assert before[:3] == (log.log_end_offset, log.producers.first_unstable_offset, log.size)
    workspace.file_system.has_room = True
    step(log)
    return REFUSALS


def run(fits: int | None) -> tuple[LogWorkspace, PartitionLog, int]:
    workspace = LogWorkspace("/logs", FullDisk())
    workspace.storage.verify_transactions = False
    log = workspace.open(**SETTINGS)
    workspace.file_system.changes = 0
    workspace.file_system.fits = fits
    refused = 0
    for step in steps():
        refused += perform(workspace, step, log)
        log.high_watermark = log.log_end_offset
    return workspace, log, refused


@pytest.fixture(scope="module")
def plenty():
    """The state and files after the same steps without a full disk, and the number of changes."""
    workspace, log, refused = run(None)
    assert not refused
    assert len(log.segments) > 5
    assert log.aborted_transactions(0, 1000)
    changes = workspace.file_system.changes
    log.flush()
    return state(log), contents(workspace.file_system.root), changes


@pytest.mark.parametrize("part", range(4))
def test_a_disk_that_fills_up_at_any_change(plenty, part):
    expected, files, changes = plenty
    refusals = 0
    for fits in range(1 + part, changes + 1, 4):
        workspace, log, refused = run(fits)
        refusals += refused
        assert state(log) == expected, fits
        log.flush()
        assert contents(workspace.file_system.root) == files, fits
        crashed = LogWorkspace("/logs", workspace.file_system)
        recovered = crashed.open(**SETTINGS)
        assert state(recovered) == expected, fits
        log.close()
        closed = crashed.reopen(PARTITION, {"was_clean": True, "recovery_point": 10**6}, **SETTINGS)
        assert state(closed) == expected, fits
    assert refusals > changes // 4


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_what_is_there_is_served_while_nothing_fits(code, caplog):
    workspace = LogWorkspace("/logs", FullDisk())
    log = workspace.open()
    append(log, b"before")
    workspace.file_system.has_room = False
    workspace.file_system.code = code
    offered = batch(b"lost")
    for _ in range(3):
        with pytest.raises(DiskFull, match="could not append to topic-0"):
            log.append_as_leader(offered, 0)
        assert values(log) == [b"before"]
    assert not workspace.directory.is_offline
    assert caplog.text.count("it refuses writes") == 1
    workspace.file_system.has_room = True
    assert append(log, b"after").base_offset == 1
    assert values(log) == [b"before", b"after"]


def test_too_many_open_files_are_no_failure_of_the_disk():
    workspace = LogWorkspace("/logs", FullDisk())
    log = workspace.open(flush_messages=2)
    append(log, b"before")
    workspace.file_system.fail = lambda operation, _: (
        OSError(errno.EMFILE, "Too many open files") if operation == "open" else None
    )
    append(log, b"its file is open")  # but cannot be flushed now
    assert log.recovery_point == 0
    log.active_segment.forget_positions()
    log.active_segment.close_file()
    for attempt in (
        lambda: append(log, b"lost"),
        lambda: log.read(0, 100, 1),
        log.flush,
    ):
        with pytest.raises(DiskFull, match="Too many open files"):
            attempt()
    assert not workspace.directory.is_offline
    workspace.file_system.fail = lambda operation, _: None
    append(log, b"after")
    assert log.recovery_point == 3
    assert values(log) == [b"before", b"its file is open", b"after"]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_other_failures_are_no_matter_of_room(code):
    workspace = LogWorkspace("/logs", FullDisk())
    log = workspace.open()
    workspace.file_system.has_room = False
    workspace.file_system.code = code
    with pytest.raises(LogDirectoryOffline):
        append(log, b"lost")
    assert workspace.directory.is_offline


def test_half_a_batch_that_stays_behind_is_a_failure():
    workspace = LogWorkspace("/logs", FullDisk())
    log = workspace.open()
    append(log, b"before")
    workspace.file_system.fits = workspace.file_system.changes + 1
    workspace.file_system.fail = lambda operation, _: (
        OSError(errno.ENOSPC, "no room") if operation == "truncate" else None
    )
    with pytest.raises(LogDirectoryOffline, match="a torn batch"):
        append(log, b"lost")


def test_a_sync_that_says_full_is_a_failure():
    workspace = LogWorkspace("/logs", FullDisk())
    log = workspace.open()
    append(log, b"perhaps lost")
    workspace.file_system.fail = lambda operation, _: (
        OSError(errno.ENOSPC, "no room") if operation == "fsync" else None
    )
    with pytest.raises(LogDirectoryOffline):
        log.flush()


def test_a_new_log_without_room_leaves_nothing():
    workspace = LogWorkspace("/logs", FullDisk())
    manager = workspace.manager()
    manager.start()
    before = contents(workspace.file_system.root)
    for fits in range(1, 6):
        workspace.file_system.fits = workspace.file_system.changes + fits
        with pytest.raises(DiskFull, match="could not make the log of new-0"):
            manager.get_or_create(TopicPartition("new", 0), TOPIC_ID)
        assert contents(workspace.file_system.root) == before
        assert workspace.file_system.status("/logs/new-0") is None
        workspace.file_system.has_room = True
    append(manager.get_or_create(TopicPartition("new", 0), TOPIC_ID), b"x")
    manager.shutdown()


def test_checkpoints_are_written_when_there_is_room():
    workspace = LogWorkspace("/logs", FullDisk())
    manager = workspace.manager()
    manager.start()
    log = manager.get_or_create(PARTITION, TOPIC_ID)
    append(log, b"x")
    log.flush()
    workspace.file_system.has_room = False
    for _ in range(3):
        workspace.clock.ms += 60_000
        while manager.tick() < 100:
            pass
    assert manager.online_directories
    path = "/logs/recovery-point-offset-checkpoint"
    assert read_offsets(workspace.file_system, path) == {}
    workspace.file_system.has_room = True
    workspace.clock.ms += 60_000
    while manager.tick() < 100:
        pass
    assert read_offsets(workspace.file_system, path) == {PARTITION: 0}


def test_a_stop_without_room_is_none_in_good_order():
    workspace = LogWorkspace("/logs", FullDisk())
    manager = workspace.manager()
    manager.start()
    log = manager.get_or_create(PARTITION, TOPIC_ID)
    append(log, b"x")
    workspace.file_system.has_room = False
    manager.shutdown()
    assert workspace.file_system.status("/logs/.kafka_cleanshutdown") is None
    workspace.file_system.has_room = True
    manager = workspace.manager()
    manager.start()
    log = manager.get(PARTITION)
    log.high_watermark = log.log_end_offset
    assert values(log) == [b"x"]


def test_what_is_too_old_goes_even_if_no_new_segment_fits():
    workspace = LogWorkspace("/logs", FullDisk())
    log = workspace.open(segment_bytes=200, retention_ms=1000)
    for number in range(6):
        append(log, b"%d" % number * 50)
    workspace.clock.ms += 10_000
    workspace.file_system.has_room = False
    segments = len(log.segments)
    assert log.delete_old_segments() == segments - 1 > 1
    workspace.file_system.has_room = True
    assert log.delete_old_segments() == 1


def test_new_logs_go_where_there_is_room():
    workspace = LogWorkspace("/logs", FullDisk())
    manager = workspace.manager(["/logs/first", "/logs/second"])
    manager.start()
    first = manager.get_or_create(TopicPartition("t", 0), TOPIC_ID, is_new=True)
    manager.get_or_create(TopicPartition("t", 1), TOPIC_ID, is_new=True)
    first.directory.refuse("try", OSError(errno.ENOSPC, "no room"))
    for number in range(2, 5):
        log = manager.get_or_create(TopicPartition("t", number), TOPIC_ID, is_new=True)
        assert log.directory is not first.directory
    assert len(manager.online_directories) == 2
    manager.shutdown()
