"""Finds and performs repairs in a partition's directory.

- A torn end of the last segment is cut off, because nothing valid comes after it.
- Wrong indexes are rebuilt from their segment.
- A damaged snapshot of producers is removed. The node rebuilds the state from the batches.

Damage in the middle of a log is not repaired. The damaged records cannot be restored. Truncating
the log at the damage would also remove the valid records after the damage. A node still sends such
a batch to consumers, because a fetch does not verify checksums (as in Apache Kafka). Consumers
detect the damage. A fetch fails only if the search for an offset reads a damaged batch header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from odradek.env.file_system import READ_WRITE, FileSystem, replace_file
from odradek.log import names
from odradek.log.errors import DirectoryInUse
from odradek.log.index_builder import IndexBuilder
from odradek.log.inspect import Kind, kind_of
from odradek.log.inspect_verify import (
    Problem,
    SegmentSeen,
    segment_bases,
    verify_file,
    verify_segments,
)
from odradek.records.segment_files import encode_aborted

INDEX_INTERVAL_BYTES = 4096


class Repair(NamedTuple):
    """A problem and its repair.

    `text` describes the repair. `perform` is the function that performs the repair; None if the
    problem cannot be repaired.
    """

    problem: Problem
    text: str
    perform: Callable[[], None] | None


def lock_directory(file_system: FileSystem, directory: str) -> int | None:
    """Lock the log directory that contains a partition's directory, so that no node can use it.

    Return the descriptor of the lock file. Close it to release the lock. Return None if there is no
    lock file, which means that no node uses the directory.

    Raises:
        DirectoryInUse: a node uses the log directory.
        OSError: the lock file cannot be opened.
    """
    resolved = Path(directory).resolve()
    for candidate in (resolved, resolved.parent):
        path = str(candidate / names.LOCK)
        if file_system.status(path) is None:
            continue
        lock = file_system.open(path, READ_WRITE)
        if not file_system.lock(lock):
            file_system.close(lock)
            raise DirectoryInUse(f"a node works in {candidate}: stop it first")
        return lock
    return None


def find_repairs(file_system: FileSystem, directory: str) -> Iterator[Repair]:
    """Yield the problems of a partition's directory with their repairs.

    The caller performs either none of the repairs, or all of them. If it performs them, it must
    perform each repair before it requests the next one.

    Raises:
        OSError: a file cannot be read.
    """
    bases = segment_bases(file_system, directory)
    for seen in verify_segments(file_system, directory, bases):
        yield from _segment_repairs(file_system, seen, is_last=seen.base_offset == bases[-1])
    for entry in sorted(file_system.scan(directory)):
        path = f"{directory}/{entry.name}"
        for problem in () if entry.is_directory else verify_file(file_system, path):
            yield _file_repair(file_system, directory, problem)


def _segment_repairs(
    file_system: FileSystem, seen: SegmentSeen, *, is_last: bool
) -> Iterator[Repair]:
    in_segment = [problem for problem in seen.problems if problem.path == seen.path]
    is_torn = bool(in_segment) and is_last and _is_torn(seen, in_segment)
    for problem in in_segment:
        if is_torn:
            surplus = seen.size - seen.valid_bytes
            text = f"cut off the last {surplus} bytes"
            yield Repair(problem, text, partial(_cut, file_system, seen))
            break
        yield Repair(problem, "cannot be repaired here; copy it from another replica", None)
    if in_segment and not is_torn:
        return  # new indexes of a damaged segment would only hide the damage
    kinds = seen.bad_indexes
    if is_torn:
        kinds = {names.OFFSET_INDEX, names.TIME_INDEX, *seen.bad_indexes}
    for kind in sorted(kinds):
        path = seen.path.removesuffix(names.LOG) + kind
        problem = next(
            (each for each in seen.problems if each.path == path),
            Problem(path, "it may have entries for the bytes that are cut off"),
        )
        yield Repair(problem, "rebuild it", partial(_rebuild, file_system, seen, kind))


def _is_torn(seen: SegmentSeen, problems: list[Problem]) -> bool:
    """Return whether no valid batch comes after the first problem."""
    first = problems[0].position
    if first is None or first != seen.valid_bytes:
        return False
    bad = {problem.position for problem in problems}
    return all(batch.position in bad for batch in seen.batches if batch.position >= first)


def _cut(file_system: FileSystem, seen: SegmentSeen) -> None:
    descriptor = file_system.open(seen.path, READ_WRITE)
    try:
        file_system.truncate(descriptor, seen.valid_bytes)
        file_system.fsync(descriptor)
    finally:
        file_system.close(descriptor)


def _rebuild(file_system: FileSystem, seen: SegmentSeen, kind: str) -> None:
    path = seen.path.removesuffix(names.LOG) + kind
    if kind == names.TRANSACTION_INDEX:
        entries = encode_aborted(seen.aborted)
        replace_file(file_system, path, entries)
        return
    builder = IndexBuilder(seen.base_offset, INDEX_INTERVAL_BYTES)
    for batch in seen.batches:
        if batch.position < seen.valid_bytes:
            builder.add(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
    builder.finish()
    is_offsets = kind == names.OFFSET_INDEX
    replace_file(file_system, path, builder.offset_entries if is_offsets else builder.time_entries)


def _file_repair(file_system: FileSystem, directory: str, problem: Problem) -> Repair:
    if kind_of(problem.path) is not Kind.PRODUCER_SNAPSHOT:
        return Repair(problem, "cannot be repaired here", None)

    def remove() -> None:
        file_system.remove(problem.path)
        file_system.sync_directory(directory)

    return Repair(problem, "remove it; the node rebuilds it from the batches", remove)
