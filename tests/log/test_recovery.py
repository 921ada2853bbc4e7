"""Recovery after a crash: incomplete batches, damage, lost indexes, interrupted replacements."""

from __future__ import annotations

import pytest
from tests.log.support import NOW_MS, append, batch, read_batches, topic_config, values
from tests.records.legacy import legacy_message

from odradek.env.file_system import read_file, replace_file
from odradek.log import names
from odradek.records.batch import RecordBatch
from odradek.records.builder import RecordBatchBuilder


def filled(workspace, count=30, **settings):
    """A log of several segments that was not closed, as after a crash."""
    log = workspace.open(**({"segment_bytes": 500, "index_interval_bytes": 100} | settings))
    for number in range(count):
        append(log, b"value %d" % number, epoch=number // 10)
    return log


def reopen(workspace, **arguments):
    return workspace.reopen(arguments=arguments, segment_bytes=500, index_interval_bytes=100)


def expected(count):
    return [b"value %d" % number for number in range(count)]


@pytest.mark.parametrize("recovery_point", [0, 7, 29, 30])
def test_all_that_was_written_is_there(workspace, recovery_point):
    filled(workspace)
    log = reopen(workspace, recovery_point=recovery_point)
    assert values(log) == expected(30)
    assert log.recovery_point == recovery_point
    assert log.leader_epochs.entries == [(0, 0), (1, 10), (2, 20)]
    append(log, b"value 30", epoch=2)
    assert values(log) == expected(31)


@pytest.mark.parametrize("cut", [1, 12, 16, 60, 61, 70])
def test_a_torn_tail_is_cut_off(workspace, cut):
    log = filled(workspace)
    path = log.active_segment.path(names.LOG)
    content = read_file(workspace.file_system, path)
    last = len(batch(b"value 29"))
    replace_file(workspace.file_system, path, content[: len(content) - last + cut])
    log = reopen(workspace)
    assert log.log_end_offset == 29
    assert values(log) == expected(29)
    assert workspace.file_system.status(path).size == len(content) - last


@pytest.mark.parametrize("tail", [bytes(5000), b"\xff" * 40, b"noise" * 100])
def test_what_is_no_batch_is_cut_off(workspace, tail):
    log = filled(workspace)
    path = log.active_segment.path(names.LOG)
    replace_file(workspace.file_system, path, read_file(workspace.file_system, path) + tail)
    assert values(reopen(workspace)) == expected(30)


def test_a_damaged_batch_ends_the_log(workspace, caplog):
    log = filled(workspace)
    path = log.segments[1].path(names.LOG)
    base = log.segments[1].base_offset
    content = bytearray(read_file(workspace.file_system, path))
    size = len(batch(b"value 6"))
    content[size + 65] ^= 1
    replace_file(workspace.file_system, path, content)
    log = reopen(workspace)
    assert values(log) == expected(base + 1)
    assert len(log.segments) == 2
    assert f"byte {size}, offset {base + 1}" in caplog.text
    offsets = range(base + 2)
    assert set(workspace.files()) <= {
        *(names.file_name(offset, kind) for offset in (0, base) for kind in names.SEGMENT_KINDS),
        *(names.file_name(offset, names.PRODUCER_SNAPSHOT) for offset in offsets),
        names.LEADER_EPOCH_CHECKPOINT,
        names.PARTITION_METADATA,
    }


def test_damage_below_the_recovery_point_is_not_looked_for(workspace):
    log = filled(workspace)
    path = log.segments[0].path(names.LOG)
    content = bytearray(read_file(workspace.file_system, path))
    content[65] ^= 1
    replace_file(workspace.file_system, path, content)
    log = reopen(workspace, recovery_point=29)
    assert log.log_end_offset == 30
    assert not RecordBatch(content).is_valid


def test_rebuilt_indexes_are_the_same(workspace):
    log = filled(workspace)
    log.close()
    before = {
        name: read_file(workspace.file_system, f"{log.path}/{name}")
        for name in workspace.files()
        if name.endswith((".index", ".timeindex"))
    }
    assert any(before.values())
    for name in before:
        replace_file(workspace.file_system, f"{log.path}/{name}", b"nonsense" * 3)
    reopen(workspace).close()
    for name, content in before.items():
        assert read_file(workspace.file_system, f"{log.path}/{name}") == content, name


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_missing_index_is_made_even_after_a_clean_shutdown(workspace, kind):
    log = filled(workspace)
    log.close()
    path = log.segments[2].path(kind)
    before = read_file(workspace.file_system, path)
    workspace.file_system.remove(path)
    log = reopen(workspace, was_clean=True, recovery_point=30)
    assert read_file(workspace.file_system, path) == before
    assert values(log) == expected(30)


def test_an_index_without_its_log_goes(workspace):
    log = filled(workspace)
    log.close()
    for kind in (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
        replace_file(workspace.file_system, f"{log.path}/{names.file_name(999, kind)}", b"")
    reopen(workspace, was_clean=True)
    assert not [name for name in workspace.files() if "999" in name]


def test_an_index_that_points_nowhere_does_no_harm(workspace):
    log = filled(workspace)
    log.close()
    for segment in log.segments:
        for kind in (names.OFFSET_INDEX, names.TIME_INDEX):
            path = segment.path(kind)
            size = len(read_file(workspace.file_system, path))
            replace_file(workspace.file_system, path, b"\x7f" * size)
    log = reopen(workspace, was_clean=True, recovery_point=30)
    assert log.log_end_offset == 30
    assert values(log) == expected(30)


def test_a_log_that_ends_before_its_start_begins_anew(workspace):
    filled(workspace)
    log = reopen(workspace, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert [segment.base_offset for segment in log.segments] == [100]
    append(log, b"new", epoch=5)
    assert values(log, 100) == [b"new"]


def test_the_log_start_offset_is_kept(workspace):
    filled(workspace)
    log = reopen(workspace, log_start_offset=17)
    assert log.log_start_offset == 17
    assert values(log, 17) == expected(30)[17:]
    assert log.leader_epochs.entries == [(1, 17), (2, 20)]


def test_an_empty_directory_becomes_a_log(workspace):
    workspace.file_system.make_directory(f"{workspace.path}/topic-0")
    log = reopen(workspace)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    append(log, b"first")
    assert values(log) == [b"first"]


# -- replacements -----------------------------------------------------------------------------


def compacted(workspace, log, numbers, suffix):
    """Write the compacted first segments into files with a suffix."""
    segments = [log.segments[number] for number in numbers]
    base = segments[0].base_offset
    last = log.segments[numbers[-1] + 1].base_offset - 1
    builder = RecordBatchBuilder(base_offset=base)
    builder.append(NOW_MS, b"key", b"compacted", offset=last - 1)
    for kind, content in (
        (names.LOG, builder.build(last)),
        (names.OFFSET_INDEX, b""),
        (names.TIME_INDEX, b""),
    ):
        path = f"{log.path}/{names.file_name(base, kind)}{suffix}"
        replace_file(workspace.file_system, path, content)
    return last


def test_an_unfinished_replacement_goes(workspace):
    log = filled(workspace)
    log.close()
    before = workspace.files()
    compacted(workspace, log, [0, 1], names.CLEANED)
    log = reopen(workspace, was_clean=True)
    assert values(log) == expected(30)
    assert workspace.files() == before


def test_a_finished_replacement_takes_over(workspace):
    log = filled(workspace)
    log.close()
    last = compacted(workspace, log, [0, 1, 2], names.SWAP)
    log = reopen(workspace, was_clean=True, recovery_point=30)
    assert [segment.base_offset for segment in log.segments][:2] == [0, last + 1]
    assert values(log) == [b"compacted", *expected(30)[last + 1 :]]
    assert not [name for name in workspace.files() if name.endswith(names.SWAP)]
    assert (
        values(log, last) == expected(30)[last + 1 :]
    )  # the offset is in the batch, but no record has it


def test_a_replacement_that_was_half_renamed(workspace):
    log = filled(workspace)
    log.close()
    last = compacted(workspace, log, [0, 1], names.SWAP)
    swap = f"{log.path}/{names.file_name(0, names.OFFSET_INDEX)}"
    workspace.file_system.rename(swap + names.SWAP, swap)
    log = reopen(workspace, was_clean=True, recovery_point=30)
    assert values(log) == [b"compacted", *expected(30)[last + 1 :]]


def test_a_replacement_begun_twice(workspace):
    """A later `.cleaned` file means that `.swap` files from its offset on are from an unfinished
    split."""
    log = filled(workspace)
    log.close()
    compacted(workspace, log, [1], names.SWAP)
    compacted(workspace, log, [0], names.CLEANED)
    log = reopen(workspace, was_clean=True, recovery_point=30)
    assert values(log) == expected(30)


def test_deleted_files_go(workspace):
    log = filled(workspace)
    log.close()
    replace_file(workspace.file_system, f"{log.path}/{names.file_name(0, '.log.deleted')}", b"x")
    replace_file(
        workspace.file_system,
        f"{log.path}/00000000000000000005-0000000001.checkpoint.deleted",
        b"x",
    )
    reopen(workspace, was_clean=True)
    assert [name for name in workspace.files() if "deleted" in name] == [
        "00000000000000000005-0000000001.checkpoint.deleted"
    ]


# -- old formats ------------------------------------------------------------------------------


@pytest.mark.parametrize("was_clean", [True, False])
def test_messages_of_old_formats_are_served(workspace, was_clean):
    workspace.file_system.make_directory(f"{workspace.path}/topic-0")
    old = b"".join(
        legacy_message(number % 2, offset=number, timestamp=NOW_MS + number) for number in range(20)
    )
    new = batch(b"new", base_offset=20)
    replace_file(
        workspace.file_system, f"{workspace.path}/topic-0/{names.file_name(0, '.log')}", old + new
    )
    log = reopen(workspace, was_clean=was_clean)
    assert log.log_end_offset == 21
    data = log.read(7, 1 << 20, 21)
    found = workspace.file_system.pread(
        data.records.descriptor, data.records.length, data.records.position
    )
    assert old.endswith(found[: -len(new)])
    assert int.from_bytes(found[:8], "big") == 7
    found = log.offset_for_timestamp(NOW_MS + 4)
    assert (found.timestamp, found.offset) == (NOW_MS + 5, 5)
    log.update_config(topic_config())
    append(log, b"newer")
    assert [each.base_offset for each in read_batches(log, 20)] == [20, 21]
