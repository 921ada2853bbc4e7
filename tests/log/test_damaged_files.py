"""Damaged or truncated files of a data directory, after a clean stop and after a crash.

In all cases the node starts, the other partitions are intact, and no changed record of the damaged
partition is served. (The base offset and the leader epoch of a batch are not covered by its
checksum, so changes of them cannot be detected in Apache Kafka's format.)
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from tests.log.support import NOW_MS, LogWorkspace, append, batch, end_transaction, topic_config

from odradek.log import LogDamaged, LogManager, OffsetOutOfRange, PartitionLog
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import ATTRIBUTES_POSITION, RecordBatch, iterate_batches
from odradek.records.errors import RecordsError
from odradek.sim.lossy_file_system import Directory, File, LossyFileSystem

TOPIC_ID = b"topic id 16 byte"
DAMAGED, SOUND = TopicPartition("damaged", 0), TopicPartition("sound", 0)
SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 100}
BATCHES = 24
SEED = 20261121
FLIPS_A_FILE = 40
MEMORY_MAX = 4 << 20

Files = dict[str, bytes]


def start(files: Files) -> tuple[LogWorkspace, LogManager]:
    """Return a manager for these files."""
    root = Directory()
    for path, content in files.items():
        directory = root
        *above, name = path.strip("/").split("/")
        for part in above:
            directory = directory.now.setdefault(part, Directory())
        directory.now[name] = File(content)
    workspace = LogWorkspace("/logs", LossyFileSystem(root))
    manager = workspace.manager(topic_configs=lambda _: topic_config(**SETTINGS))
    manager.start()
    return workspace, manager


def files_in(directory: Directory, path: str = "") -> Files:
    found: Files = {}
    for name, node in directory.now.items():
        if isinstance(node, Directory):
            found |= files_in(node, f"{path}/{name}")
        else:
            found[f"{path}/{name}"] = bytes(node.now)
    return found


def fill(log: PartitionLog) -> None:
    """Return plain and transactional batches in three epochs. Some transactions are aborted."""
    for number in range(BATCHES // 4):
        append(log, b"plain %d" % number, b"x" * 20, epoch=number // 2)
        data = batch(
            b"in a transaction",
            timestamp=NOW_MS + number,
            producer_id=5,
            producer_epoch=0,
            base_sequence=number,
            is_transactional=True,
        )
        log.append_as_leader(data, number // 2)
        end_transaction(log, number % 2 == 0, 5)
        append(log, b"more", epoch=number // 2)


@pytest.fixture(scope="module")
def written() -> tuple[Files, Files, list[bytes]]:
    """The files after a clean stop and after a crash, and all batches in order."""
    workspace, manager = start({})
    manager.storage.verify_transactions = False
    for partition in (DAMAGED, SOUND):
        fill(manager.get_or_create(partition, TOPIC_ID))
    log = manager.get(DAMAGED)
    log.flush()
    assert len(log.segments) > 3
    crashed = files_in(workspace.file_system.root)
    stored, error = served(log)
    assert error is None
    manager.shutdown()
    return files_in(workspace.file_system.root), crashed, [bytes(each.data) for each in stored]


def served(log: PartitionLog) -> tuple[list[RecordBatch], Exception | None]:
    """Read as a consumer from the start. Return the batches, and the error if there is one."""
    log.high_watermark = log.log_end_offset
    offset, found = log.log_start_offset, []
    try:
        while (data := log.read(offset, 1 << 20, log.log_end_offset)) is not None:
            place = data.records
            content = log.storage.file_system.pread(place.descriptor, place.length, place.position)
            batches = list(iterate_batches(content))
            assert batches
            found += batches
            assert batches[-1].next_offset > offset
            offset = batches[-1].next_offset
        log.aborted_transactions(0, log.log_end_offset)
        for timestamp in (-1, -2, -3, NOW_MS, NOW_MS + 3):
            log.offset_for_timestamp(timestamp)
    except (LogDamaged, OffsetOutOfRange, RecordsError) as error:
        return found, error
    return found, None


def damages(files: Files, draw: random.Random) -> Iterator[tuple[str, str, bytes]]:
    """Yield damaged files: description, path and content."""
    for path, content in files.items():
        if not path.startswith("/logs/damaged-0/") and path.count("/") > 2:
            continue
        if path.endswith((".lock", "meta.properties")):
            continue
        yield "is empty", path, b""
        yield "is longer", path, content + b"noise"
        yield "is zeros", path, bytes(len(content))
        yield "is noise", path, draw.randbytes(len(content) + 8)
        for _ in range(min(FLIPS_A_FILE, 8 * len(content))):
            bit = draw.randrange(8 * len(content))
            flipped = bytearray(content)
            flipped[bit // 8] ^= 0x80 >> bit % 8
            yield f"has another bit {bit}", path, bytes(flipped)
        for _ in range(min(5, len(content))):
            size = draw.randrange(len(content))
            yield f"is cut to {size}", path, content[:size]


def by_checksum(batches: list[bytes]) -> set[bytes]:
    """Return the bytes that the checksum covers, and the checksum."""
    return {each[ATTRIBUTES_POSITION - 4 :] for each in batches}


@pytest.mark.parametrize("was_clean", [True, False])
def test_damaged_files(written, was_clean, caplog):
    clean, crashed, batches = written
    files = clean if was_clean else crashed
    good = by_checksum(batches)
    cases = 0
    for what, path, content in damages(files, random.Random(SEED)):
        case = f"{path} {what}"
        workspace, manager = start(files | {path: content})
        assert manager.online_directories, case
        log = manager.get(SOUND)
        found, error = served(log)
        assert error is None, case
        assert [bytes(each.data) for each in found] == batches, case
        log = manager.get(DAMAGED)
        if log is not None:
            found, error = served(log)
            for each in found:
                assert not each.is_valid or bytes(each.data)[ATTRIBUTES_POSITION - 4 :] in good, (
                    case
                )
            if not was_clean:  # all files were damaged
                assert all(each.is_valid for each in found), case
            before = log.log_end_offset
            try:
                assert append(log, b"after", epoch=9).base_offset == before, case
            except LogDamaged:
                assert was_clean, case
                assert log.log_end_offset == before, case
        manager.shutdown()
        cases += 1
        caplog.clear()
    assert cases > 300


@pytest.mark.parametrize("size", [2**31 - 1, 1 << 30, 100 << 20])
def test_lengths_that_lie_cost_no_memory(written, size):
    clean, crashed, _ = written
    path = next(
        path for path in clean if path.startswith("/logs/damaged-0/") and path.endswith(".log")
    )
    for files in (clean, crashed):
        content = bytearray(files[path])
        content[8:12] = size.to_bytes(4, "big")
        tracemalloc.start()
        try:
            _, manager = start(files | {path: bytes(content)})
            log = manager.get(DAMAGED)
            _, error = served(log)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MEMORY_MAX
        if files is clean:
            assert isinstance(error, LogDamaged)
            assert str(log.segments[0].path(".log")) in str(error)
            assert "byte 0" in str(error)
        manager.shutdown()


def test_a_log_that_cannot_be_loaded_stays_offline_until_it_is_deleted(written, caplog):
    clean, _, batches = written
    path = max(p for p in clean if p.startswith("/logs/damaged-0/") and p.endswith(".log"))
    content = bytearray(clean[path])
    content[-60:] = b"\xff" * 60
    workspace, manager = start(clean | {path: bytes(content)})
    assert manager.get(DAMAGED) is None
    assert f"damaged-0 is damaged and stays offline: {path}" in caplog.text
    with pytest.raises(LogDamaged, match="damaged-0 is damaged"):
        manager.get_or_create(DAMAGED, TOPIC_ID)
    assert len(served(manager.get(SOUND))[0]) == len(batches)
    assert manager.delete(DAMAGED)
    assert not manager.delete(DAMAGED)
    append(manager.get_or_create(DAMAGED, b"another topic id"), b"anew")
    workspace.clock.ms += 100_000
    while manager.tick() < 100:
        pass
    manager.shutdown()
    assert not [name for name in files_in(workspace.file_system.root) if "delete" in name]
