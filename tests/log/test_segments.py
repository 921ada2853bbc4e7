"""Segments: rolling, retention, truncation."""

from __future__ import annotations

import pytest
from tests.log.support import (
    NOW_MS,
    PARTITION,
    append,
    batch,
    read_batches,
    topic_config,
    values,
)

from odradek.log import OffsetOutOfRange
from odradek.records.compression import Codec

DAY_MS = 86_400_000


def bases(log):
    return [segment.base_offset for segment in log.segments]


# -- rolling ----------------------------------------------------------------------------------


def test_a_segment_is_never_larger_than_its_limit(workspace):
    size = len(batch(b"v" * 10))
    log = workspace.open(segment_bytes=3 * size)
    for _ in range(10):
        append(log, b"v" * 10)
    assert bases(log) == [0, 3, 6, 9]
    assert [segment.size for segment in log.segments] == [3 * size] * 3 + [size]


def test_segments_roll_by_the_time_of_their_records(workspace):
    log = workspace.open(segment_ms=1000)
    append(log, timestamp=NOW_MS - DAY_MS)
    append(log, timestamp=NOW_MS - DAY_MS + 1000)
    append(log, timestamp=NOW_MS - 2 * DAY_MS)
    assert bases(log) == [0]
    append(log, timestamp=NOW_MS - DAY_MS + 1001)
    append(log, timestamp=NOW_MS - DAY_MS + 1001)
    assert bases(log) == [0, 3]
    append(log, timestamp=NOW_MS)
    assert bases(log) == [0, 3, 5]


def test_records_without_time_roll_by_the_clock(workspace):
    log = workspace.open(segment_ms=1000)
    append(log, timestamp=-1)
    workspace.clock.ms += 1000
    append(log, timestamp=-1)
    assert bases(log) == [0]
    workspace.clock.ms += 1
    append(log, timestamp=-1)
    assert bases(log) == [0, 2]


def test_the_age_is_known_after_a_restart(workspace):
    log = workspace.open(segment_ms=1000)
    append(log, timestamp=NOW_MS - 5000)
    log.close()
    log = workspace.reopen(arguments={"was_clean": True}, segment_ms=1000)
    append(log, timestamp=NOW_MS - 4000)
    append(log, timestamp=NOW_MS - 3999)
    assert bases(log) == [0, 2]


def test_jitter_rolls_earlier_but_not_always_at_the_same_time(workspace):
    rolled = set()
    for number in range(8):
        log = workspace.open(
            PARTITION._replace(partition=number),
            segment_ms=1000,
            segment_jitter_ms=900,
        )
        append(log, timestamp=NOW_MS - 2000)
        age = 0
        while len(log.segments) == 1:
            age += 10
            append(log, timestamp=NOW_MS - 2000 + age)
        assert 100 <= age <= 1010
        rolled.add(age)
    assert len(rolled) > 3


def test_a_full_index_rolls(workspace):
    log = workspace.open(segment_index_bytes=5 * 12, index_interval_bytes=0)
    for number in range(20):
        append(log, timestamp=NOW_MS + number)
    # The first batch has no entry. The fourth entry of the time index is the last but one.
    assert bases(log) == [0, 5, 10, 15]


def test_an_index_without_any_room(workspace):
    log = workspace.open(segment_index_bytes=4, index_interval_bytes=0)
    for number in range(3):
        append(log, b"%d" % number)
    assert values(log) == [b"0", b"1", b"2"]


def test_offsets_too_far_from_the_base_roll(workspace):
    log = workspace.open()
    log.truncate_fully_and_start_at(10)
    log.append_as_follower(batch(b"a", base_offset=10), 0)
    log.append_as_follower(batch(b"b", base_offset=10 + 2**31 - 1), 0)
    log.append_as_follower(batch(b"c", base_offset=10 + 2**31), 0)
    assert bases(log) == [10, 10 + 2**31]
    log.high_watermark = log.log_end_offset
    assert values(log, 10) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_leader_rolls_before_an_offset_is_too_far_from_the_base(workspace, compressed):
    log = workspace.open()
    last = 2**31 - 1
    log.append_as_follower(batch(b"a", base_offset=0), 0)
    log.append_as_follower(batch(b"b", base_offset=last - 2), 0)
    codec = Codec.LZ4 if compressed else Codec.NONE
    append(log, b"c", b"d", codec=codec)
    assert bases(log) == [0]
    append(log, b"e", b"f", codec=codec)
    assert bases(log) == [0, last + 1]
    assert values(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    log.close()
    reopened = workspace.open()
    assert bases(reopened) == [0, last + 1]
    assert values(reopened, last - 2) == [b"b", b"c", b"d", b"e", b"f"]


def test_roll_by_hand(workspace):
    log = workspace.open()
    log.roll()
    assert bases(log) == [0]
    append(log)
    log.roll()
    log.roll()
    assert bases(log) == [0, 1]


def test_files_of_segments(workspace):
    log = workspace.open(segment_bytes=200, index_interval_bytes=10)
    for _ in range(5):
        append(log, b"value")
    log.close()
    assert workspace.files() == sorted(
        [
            "partition.metadata",
            "leader-epoch-checkpoint",
            *(
                f"{base:020d}{kind}"
                for base in (0, 2, 4)
                for kind in (".log", ".index", ".timeindex")
            ),
            *(f"{offset:020d}.snapshot" for offset in (2, 4, 5)),
        ]
    )


def test_preallocation(workspace):
    log = workspace.open(segment_bytes=10_000, preallocate=True)
    append(log, b"value")
    path = log.active_segment.path(".log")
    assert workspace.file_system.status(path).size == 10_000
    append(log, bytes(9900))
    assert workspace.file_system.status(path).size == len(batch(b"value"))
    assert values(log) == [b"value", bytes(9900)]
    log = workspace.open(
        segment_bytes=10_000, preallocate=True
    )  # after a crash trailing zeros are removed
    assert values(log) == [b"value", bytes(9900)]
    log.close()
    assert workspace.file_system.status(log.active_segment.path(".log")).size == len(
        batch(bytes(9900))
    )


# -- retention --------------------------------------------------------------------------------


def three_segments(workspace, **settings):
    """Segments at 0, 10 and 20, with a day between them. The newest is of today."""
    log = workspace.open(**settings)
    for day in range(3):
        for _ in range(10):
            append(log, b"value", timestamp=NOW_MS - (2 - day) * DAY_MS)
        if day < 2:
            log.roll()
    assert bases(log) == [0, 10, 20]
    return log


def test_by_time(workspace):
    log = three_segments(workspace, retention_ms=DAY_MS)
    assert log.delete_old_segments() == 1
    assert (bases(log), log.log_start_offset) == ([10, 20], 10)
    workspace.clock.ms += 1
    assert log.delete_old_segments() == 1
    workspace.clock.ms += 2 * DAY_MS
    assert log.delete_old_segments() == 1
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([30], 30, 30)
    append(log, b"goes on", timestamp=workspace.clock.ms)
    assert values(log, 30) == [b"goes on"]


def test_by_size(workspace):
    log = three_segments(workspace)
    size = log.segments[0].size
    for limit, kept in ((3 * size, 3), (2 * size + 1, 3), (2 * size, 2), (size, 1)):
        log.update_config(topic_config(retention_bytes=limit, retention_ms=-1))
        log.delete_old_segments()
        assert len(log.segments) == kept
    assert log.size == size


def test_by_log_start_offset(workspace):
    log = three_segments(workspace, retention_ms=-1)
    assert log.delete_records_before(15) == 15
    assert log.log_start_offset == 15
    assert log.delete_old_segments() == 1
    assert bases(log) == [10, 20]
    with pytest.raises(OffsetOutOfRange):
        log.read(14, 100, 30)
    assert len(values(log, 15)) == 15
    assert log.delete_records_before(-1) == 30
    assert log.delete_old_segments() == 1
    assert bases(log) == [20]


def test_delete_records_is_bounded_by_the_high_watermark(workspace):
    log = three_segments(workspace)
    log.high_watermark = 25
    for offset in (26, -2):
        with pytest.raises(OffsetOutOfRange):
            log.delete_records_before(offset)
    assert log.delete_records_before(-1) == 25
    assert log.delete_records_before(3) == 25


def test_nothing_at_or_above_the_high_watermark_is_deleted(workspace):
    log = three_segments(workspace, retention_ms=0)
    log.high_watermark = 0
    log.high_watermark = 19
    workspace.clock.ms += 10 * DAY_MS
    assert log.delete_old_segments() == 1
    assert bases(log) == [10, 20]


def test_a_compacted_topic_keeps_its_old_segments(workspace):
    log = workspace.open(cleanup_policy="compact", retention_ms=0, segment_bytes=200)
    for _ in range(10):
        append(log, (b"key", b"value"), timestamp=1000)
    count = len(log.segments)
    assert log.delete_old_segments() == 0
    log.delete_records_before(5)
    assert log.delete_old_segments() > 0
    assert 1 < len(log.segments) < count


def test_deleted_files_wait(workspace):
    waiting = []
    workspace.storage.remove_later = lambda paths, delay: waiting.append((list(paths), delay))
    log = three_segments(workspace, retention_ms=0, file_delete_delay_ms=777)
    workspace.clock.ms += DAY_MS
    log.delete_old_segments()
    assert {delay for _, delay in waiting} == {777}
    names = [name for name in workspace.files() if name.endswith(".deleted")]
    assert len(names) == 3 * 3 + 2  # .log and two indexes of each segment, snapshots of two
    for paths, _ in waiting:
        workspace.storage.remove_now(paths, 0)
    assert not [name for name in workspace.files() if name.endswith(".deleted")]


# -- truncation -------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [29, 25, 21, 20, 19, 11, 10, 5, 1, 0])
def test_truncate(workspace, offset):
    log = three_segments(workspace, index_interval_bytes=50)
    before = values(log)
    assert log.truncate_to(offset)
    assert (log.log_end_offset, log.high_watermark) == (offset, offset)
    assert values(log) == before[:offset]
    append(log, b"new")
    assert values(log) == [*before[:offset], b"new"]
    log.close()
    for was_clean in (True, False):
        log = workspace.reopen(arguments={"was_clean": was_clean, "recovery_point": offset})
        assert values(log) == [*before[:offset], b"new"]
        log.close()


def test_truncation_cuts_whole_batches(workspace):
    log = workspace.open()
    append(log, b"a", b"b", b"c")
    append(log, b"d", b"e", b"f")
    log.truncate_to(4)
    assert log.log_end_offset == 4
    assert [each.last_offset for each in read_batches(log, limit=3)] == [2]


def test_truncation_to_the_end_does_nothing(workspace):
    log = three_segments(workspace)
    assert not log.truncate_to(30)
    assert not log.truncate_to(99)
    assert log.log_end_offset == 30


def test_truncate_fully(workspace):
    log = three_segments(workspace)
    log.truncate_fully_and_start_at(100)
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([100], 100, 100)
    append(log, b"new")
    assert values(log, 100) == [b"new"]
    log.truncate_fully_and_start_at(50, 20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 50)
    log.truncate_fully_and_start_at(50)
    append(log, b"newer")
    log.close()
    log = workspace.reopen(arguments={"was_clean": True})
    assert (log.log_start_offset, values(log, 50)) == (50, [b"newer"])


def test_truncation_below_the_first_segment(workspace):
    log = three_segments(workspace, retention_ms=DAY_MS)
    log.delete_old_segments()
    log.truncate_to(5)
    assert (bases(log), log.log_end_offset, log.log_start_offset) == ([5], 5, 5)


def test_a_flush_that_a_truncation_overtook_moves_nothing(workspace):
    log = three_segments(workspace)
    work = log.flush_work()
    log.truncate_to(5)
    for _ in range(40):
        append(log, b"other")
    work.run()
    work.complete()
    assert log.recovery_point <= 5
