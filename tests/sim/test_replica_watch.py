"""The comparison of committed records of replicas that begin at different offsets, and are added again."""

from __future__ import annotations

from types import SimpleNamespace

from tests.log.support import batch

from odradek.sim.replica_watch import CommittedContent


class Disk:
    """The files of one segment each, by descriptor."""

    def __init__(self) -> None:
        self.files: list[bytes] = []

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        return self.files[descriptor][position : position + length]


DISK = Disk()


def log(*segments: tuple[int, list[bytes]]) -> SimpleNamespace:
    """A log with these segments: base offset and values. All records are committed."""
    made, end = [], 0
    for base, values in segments:
        end = base
        data = b""
        for value in values:
            data += bytes(batch(value, base_offset=end))
            end += 1
        DISK.files.append(data)
        opened = SimpleNamespace(descriptor=len(DISK.files) - 1)
        made.append(
            SimpleNamespace(base_offset=base, size=len(data), opened=lambda opened=opened: opened)
        )
    return SimpleNamespace(segments=made, high_watermark=end, log_end_offset=end)


def problems(content: CommittedContent, name: str, seen: SimpleNamespace) -> list[str]:
    node = SimpleNamespace(name=name, incarnation=1, disk=DISK)
    return list(content.compare(node, seen))


def test_a_replica_may_begin_later_and_must_have_the_same_records() -> None:
    content = CommittedContent()
    assert problems(content, "node1", log((0, [b"a", b"b", b"c"]), (3, [b"d"]))) == []
    assert problems(content, "node2", log((2, [b"c", b"d"]))) == []
    assert problems(content, "node3", log((2, [b"c", b"x"]))) != []


def test_a_replica_that_is_added_again_begins_anew() -> None:
    content = CommittedContent()
    assert problems(content, "node1", log((0, [b"a", b"b"]))) == []
    assert problems(content, "node1", log((0, [b"a"]))) == []
    assert problems(content, "node1", log((0, [b"x"]))) != []


def test_a_replica_that_removes_committed_records_is_found() -> None:
    content, seen = CommittedContent(), log((0, [b"a", b"b"]))
    assert problems(content, "node1", seen) == []
    seen.high_watermark = seen.log_end_offset = 1
    assert problems(content, "node1", seen) != []


def test_a_batch_that_overlaps_another_one_is_found() -> None:
    content = CommittedContent()
    DISK.files.append(bytes(batch(b"a", b"b", base_offset=0)))
    opened = SimpleNamespace(descriptor=len(DISK.files) - 1)
    segment = SimpleNamespace(base_offset=0, size=len(DISK.files[-1]), opened=lambda: opened)
    seen = SimpleNamespace(segments=[segment], high_watermark=2, log_end_offset=2)
    assert problems(content, "node1", seen) == []
    assert problems(content, "node2", log((1, [b"b"]))) != []
