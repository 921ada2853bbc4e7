"""Files other than records: indexes, snapshots, checkpoints, names; and open file descriptors."""

from __future__ import annotations

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.env.file_system import (
    CREATE,
    OsFileSystem,
    read_file,
    remove_tree,
    replace_file,
    write_fully,
)
from odradek.log import names
from odradek.log.checkpoints import (
    clean_shutdown_text,
    leader_epochs_text,
    read_clean_shutdown,
    read_leader_epochs,
    read_offsets,
    read_partition_metadata,
    write_offsets,
    write_partition_metadata,
)
from odradek.log.descriptors import DescriptorPool
from odradek.log.errors import DamagedFile
from odradek.log.index import OffsetIndex, TimeIndex
from odradek.log.producer_snapshot import read_snapshot, snapshot_content
from odradek.log.producer_state import ProducerStateEntry
from odradek.log.transaction_index import (
    append_aborted,
    read_aborted,
    truncate_aborted,
)
from odradek.model.topic_partition import TopicPartition
from odradek.records.segment_files import AbortedTransaction

FILES = OsFileSystem()


# -- indexes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@given(
    gaps=st.lists(st.integers(1, 5), max_size=700),
    written=st.integers(0, 700),
    kept=st.integers(0, 700),
)
def test_an_index_finds_what_a_list_finds(tmp_path_factory, kind, gaps, written, kept):
    path = str(tmp_path_factory.getbasetemp() / f"{kind.__name__}.index")
    index = kind()
    index.truncate(FILES, path, 0)
    FILES.close(FILES.open(path, 0o1102))  # an empty file
    entries = []
    key = 0
    for number, gap in enumerate(gaps):
        if number == written:
            index.write(FILES, path)
        key += gap
        entries.append((key, 2 * number))
        index.append(key, 2 * number)
    if kept < len(entries):
        index.truncate(FILES, path, kept)
        del entries[kept:]
    assert len(index) == len(entries)
    assert index.last(FILES, path) == (entries[-1] if entries else None)
    for wanted in (0, 1, key // 3, key // 2, key - 1, key, key + 1):
        below = [entry for entry in entries if entry[0] <= wanted]
        assert index.floor(FILES, path, wanted) == (below[-1] if below else None)
        assert index.count_to(FILES, path, wanted, field=1) == sum(
            1 for entry in entries if entry[1] <= wanted
        )
    index.write(FILES, path)
    again = kind(len(read_file(FILES, path)) // kind.ENTRY.size)
    assert [again.entry(FILES, path, number) for number in range(len(again))] == entries


def test_the_bytes_of_indexes(tmp_path):
    offsets, times = OffsetIndex(), TimeIndex()
    offsets.append(5, 4096)
    times.append(1_700_000_000_000, 5)
    offsets.write(FILES, f"{tmp_path}/o")
    times.write(FILES, f"{tmp_path}/t")
    assert read_file(FILES, f"{tmp_path}/o").hex() == "0000000500001000"
    assert read_file(FILES, f"{tmp_path}/t").hex() == "0000018bcfe5680000000005"


def test_a_transaction_index(tmp_path):
    path = f"{tmp_path}/x.txnindex"
    assert read_aborted(FILES, path, 0) == []
    truncate_aborted(FILES, path, 0)
    entries = [AbortedTransaction(9, first, first + 5, first + 6) for first in (10, 20, 30)]
    for entry in entries:
        append_aborted(FILES, path, entry)
    assert read_aborted(FILES, path, 10) == entries
    assert read_file(FILES, path).hex() == "".join(
        "0000" + "".join(f"{field:016x}" for field in entry) for entry in entries
    )
    truncate_aborted(FILES, path, 26)
    assert read_aborted(FILES, path, 10) == entries[:2]
    truncate_aborted(FILES, path, 25)
    append_aborted(FILES, path, entries[2])
    assert read_aborted(FILES, path, 10) == [entries[0], entries[2]]
    with pytest.raises(DamagedFile, match="segment"):
        read_aborted(FILES, path, 16)


# -- snapshots --------------------------------------------------------------------------------


def producers():
    plain = ProducerStateEntry(5, 1)
    for number in range(7):
        plain.add_batch(1, number, 10 + number, 0, 1000 + number)
    open_one = ProducerStateEntry(6, 2)
    open_one.add_batch(2, 3, 40, 3, 99)
    open_one.transaction_first_offset = 37
    ended = ProducerStateEntry(7, 3)
    ended.coordinator_epoch = 8
    ended.last_timestamp = 77
    return [plain, open_one, ended]


def test_a_snapshot():
    content = snapshot_content(producers())
    found = read_snapshot("path", content)
    assert [(each.producer_id, each.epoch, each.next_sequence) for each in found] == [
        (5, 1, 7),
        (6, 2, 4),
        (7, 3, -1),
    ]
    assert [each.transaction_first_offset for each in found] == [-1, 37, -1]
    assert [len(each.batches) for each in found] == [1, 1, 0]
    assert found[1].batches[0].first_offset == 37
    assert (found[2].coordinator_epoch, found[2].last_timestamp) == (8, 77)
    assert read_snapshot("path", snapshot_content(())) == []


def test_a_damaged_snapshot():
    content = snapshot_content(producers())
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        with pytest.raises(DamagedFile):
            read_snapshot("path", bytes(damaged))
        with pytest.raises(DamagedFile):
            read_snapshot("path", content[:position])


# -- checkpoints ------------------------------------------------------------------------------


def test_offsets(tmp_path):
    path = f"{tmp_path}/recovery-point-offset-checkpoint"
    assert read_offsets(FILES, path) == {}
    offsets = {TopicPartition("a-b", 3): 17, TopicPartition("c", 0): 0}
    write_offsets(FILES, path, offsets)
    assert read_file(FILES, path) == b"0\n2\na-b 3 17\nc 0 0\n"
    assert read_offsets(FILES, path) == offsets
    assert [entry.name for entry in FILES.scan(str(tmp_path))] == [path.split("/")[-1]]


@pytest.mark.parametrize("content", [b"", b"0\n"])
def test_a_checkpoint_that_was_never_written(tmp_path, content):
    (tmp_path / "c").write_bytes(content)
    assert read_offsets(FILES, f"{tmp_path}/c") == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\na 1\n",
        b"0\nx\n",
        b"0\n1\na b 1\n",
        b"0\n1\na 0 z\n",
        b"\xff\n0",
    ],
)
def test_a_checkpoint_that_is_damaged(tmp_path, content):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(DamagedFile, match="c"):
        read_offsets(FILES, f"{tmp_path}/c")


def test_leader_epochs(tmp_path):
    path = f"{tmp_path}/leader-epoch-checkpoint"
    assert read_leader_epochs(FILES, path) == []
    replace_file(FILES, path, leader_epochs_text([(0, 0), (3, 77)]))
    assert read_file(FILES, path) == b"0\n2\n0 0\n3 77\n"
    assert read_leader_epochs(FILES, path) == [(0, 0), (3, 77)]


def test_partition_metadata(tmp_path):
    path = f"{tmp_path}/partition.metadata"
    assert read_partition_metadata(FILES, path) is None
    write_partition_metadata(FILES, path, bytes(range(16)))
    assert read_file(FILES, path) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_partition_metadata(FILES, path) == bytes(range(16))
    for content in (b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\n", b"\xff"):
        (tmp_path / "partition.metadata").write_bytes(content)
        with pytest.raises(DamagedFile):
            read_partition_metadata(FILES, path)


def test_the_marker_of_a_clean_shutdown(tmp_path):
    path = f"{tmp_path}/.kafka_cleanshutdown"
    assert read_clean_shutdown(FILES, path) is None
    replace_file(FILES, path, clean_shutdown_text(42))
    assert read_file(FILES, path) == b'{"version":0,"brokerEpoch":42}'
    assert read_clean_shutdown(FILES, path) == 42
    for content in (b"", b"{}", b"[]"):
        (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
        assert read_clean_shutdown(FILES, path) == -1


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topic-0", (("topic", 0), "")),
        ("with-dashes.and.dots-12", (("with-dashes.and.dots", 12), "")),
        (f"t-3.{'0f' * 16}-delete", (("t", 3), "-delete")),
        (f"t-3.{'0f' * 16}-stray", (("t", 3), "-stray")),
        (f"t-3.{'0f' * 16}-future", (("t", 3), "-future")),
        ("lost+found", None),
        ("topic-", None),
        ("-3", None),
        ("remote-log-index-cache", None),
        ("t-x", None),
    ],
)
def test_directories(name, expected):
    assert names.parse_directory(name) == expected


def test_a_directory_on_its_way_out_is_recognised():
    for topic in ("t", "t" * 249):
        name = names.retired_directory(TopicPartition(topic, 5), "-delete", bytes(range(16)))
        assert len(name) <= 255
        assert names.parse_directory(name)[1] == "-delete"


def test_offsets_in_names():
    assert names.file_name(42, ".log") == "00000000000000000042.log"
    assert names.offset_of("00000000000000000042.log.swap") == 42
    for name in (
        "partition.metadata",
        "42.log",
        "0000000000000000004x.log",
        "²0000000000000000042.log",
    ):
        assert names.offset_of(name) is None


# -- the seam ---------------------------------------------------------------------------------


def test_the_machines_file_system(tmp_path):
    path = f"{tmp_path}/a/b"
    FILES.make_directory(path)
    FILES.make_directory(path)
    assert FILES.status(path).is_directory
    assert FILES.status(f"{path}/none") is None
    replace_file(FILES, f"{path}/file", b"content")
    FILES.sync_directory(path)
    status = FILES.status(f"{path}/file")
    assert (status.size, status.is_directory) == (7, False)
    assert status.modified_ms > 1_600_000_000_000
    descriptor = FILES.open(f"{path}/file", 0o2)
    write_fully(FILES, descriptor, b"CON", 0)
    assert FILES.pwritev(descriptor, [b"te", b"nts!"], 3) == 6
    assert FILES.pread(descriptor, 100, 0) == b"CONtents!"
    assert FILES.size(descriptor) == 9
    assert FILES.is_resident(descriptor, 0, 9)
    FILES.truncate(descriptor, 3)
    FILES.fdatasync(descriptor)
    FILES.close(descriptor)
    assert read_file(FILES, f"{path}/file") == b"CON"
    total, free = FILES.space(path)
    assert total >= free > 0
    remove_tree(FILES, f"{tmp_path}/a")
    remove_tree(FILES, f"{tmp_path}/a")
    assert FILES.scan(str(tmp_path)) == []


class Holder:
    file = None
    is_used = True

    def hold_file(self, file):
        self.file = file

    def take_use(self):
        was_used, self.is_used = self.is_used, False
        return was_used


def test_the_pool_keeps_what_was_used(tmp_path):
    pool = DescriptorPool(FILES, 3)
    holders = [Holder() for _ in range(5)]
    for number, holder in enumerate(holders[:3]):
        (tmp_path / str(number)).touch()
        pool.open(holder, f"{tmp_path}/{number}")
    for number in (3, 4):
        (tmp_path / str(number)).touch()
    for holder in holders[:3]:
        holder.is_used = holder is holders[1]
    pool.open(holders[3], f"{tmp_path}/3")
    assert [holder.file is not None for holder in holders] == [False, True, True, True, False]
    kept = holders[2].file
    pool.open(holders[4], f"{tmp_path}/4")
    assert [holder.file is not None for holder in holders] == [False, True, False, True, True]
    assert FILES.size(kept.descriptor) == 0  # still open, because it is in use
    descriptor = kept.descriptor
    del kept
    with pytest.raises(OSError, match="Bad file descriptor"):
        FILES.size(descriptor)
    pool.release(holders[1])
    pool.release(holders[1])
    assert len(pool) == 2


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0, 0o666)])
def test_files_of_data_are_no_programs(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        FILES.close(FILES.open(f"{tmp_path}/00000000000000000000.log", CREATE))
        replace_file(FILES, f"{tmp_path}/recovery-point-offset-checkpoint", b"0\n0\n")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {mode}
