"""Several batches in one write, reads below the log end, and truncations that are flushed later."""

from __future__ import annotations

from tests.log.support import LaterExecutor, LogWorkspace, append, batch, values

from odradek.log.log_end import pack_start
from odradek.log.partition_log import reading
from odradek.records.batch import LOG_OVERHEAD


def given(*contents: bytes, first: int = 0) -> bytes:
    payload = b""
    for offset, content in enumerate(contents, first):
        data = batch(content)
        pack_start(data, 0, offset, len(data) - LOG_OVERHEAD, 3)
        payload += data
    return payload


def test_a_follower_writes_several_batches_at_once(workspace):
    log = workspace.open()
    log.append_as_follower(given(b"a"), 3)
    writes = []
    segment = log.active_segment
    pwrite = segment._pwrite
    segment._pwrite = lambda *arguments: writes.append(arguments) or pwrite(*arguments)
    info = log.append_as_follower(given(b"b", b"c", b"d", first=1), 3)
    assert (info.base_offset, info.last_offset, len(writes)) == (1, 3, 1)
    assert values(log) == [b"a", b"b", b"c", b"d"]
    assert log.leader_epoch == 3


def test_the_tail_below_the_log_end_is_read_without_a_search(workspace, monkeypatch):
    log = workspace.open()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    monkeypatch.setattr(reading, "read", None)
    data = log.read(0, 1 << 20, 2)
    assert data.records.length == 2 * len(batch(b"a"))


def three_records(path):
    """A log with three records, and the list of the works that an executor would do later."""
    works = []
    workspace = LogWorkspace(path)
    workspace.storage = workspace.new_storage(
        executor=LaterExecutor(lambda *each: works.append(each))
    )
    log = workspace.open()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    return log, works


def test_an_append_waits_for_a_truncation(tmp_path):
    log, works = three_records(tmp_path)
    ended = []
    assert log.truncate_to(1, ended.append)
    assert log.log_end_offset == 1
    assert (ended, len(works)) == ([], 1)
    append(log, b"d")
    assert ended == [None]
    for work, done in works:
        work()
        done(None)
    assert ended == [None]
    assert values(log) == [b"a", b"d"]


def test_a_flush_that_was_begun_during_a_truncation_keeps_later_records(tmp_path):
    log, _ = three_records(tmp_path)
    assert log.truncate_to(1)
    flush = log.flush_work()
    append(log, b"d")
    flush.run()
    flush.complete()
    assert values(log) == [b"a", b"d"]
    assert log.recovery_point == 1


def test_a_flush_that_was_begun_during_a_truncation_may_cut_the_files(tmp_path):
    log, _ = three_records(tmp_path)
    assert log.truncate_to(1)
    log.flush()
    size = len(batch(b"a"))
    assert (tmp_path / "topic-0" / f"{0:020}.log").stat().st_size == size
    append(log, b"d")
    assert values(log) == [b"a", b"d"]
