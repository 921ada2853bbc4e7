"""Checks the files of a partition.

- Segments: each batch is complete. Its checksum and its record count are correct. Its offsets are
  above the offsets of the previous batch.
- Offset index and time index: each entry belongs to a batch and has the values of this batch.
- Transaction index: each entry has a marker. Each abort marker whose transaction is known has an
  entry.
- Other files: the content is valid for the type of file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from odradek.env.file_system import FileSystem, read_file
from odradek.log import names
from odradek.log.checkpoints import read_leader_epochs, read_offsets, read_partition_metadata
from odradek.log.errors import DamagedFile, RecordsRefused
from odradek.log.index import Index, OffsetIndex, TimeIndex
from odradek.log.inspect import Kind, Place, index_entries, kind_of, places
from odradek.log.producer_snapshot import read_snapshot
from odradek.log.producer_state import ProducerState
from odradek.log.transaction_index import read_aborted
from odradek.records.batch import RecordBatch
from odradek.records.errors import RecordsError
from odradek.records.record import iterate_records
from odradek.records.segment_files import AbortedTransaction


class Problem(NamedTuple):
    """A problem that was found in a file."""

    path: str
    text: str
    position: int | None = None
    """The position of the problem in the file; None if it has no position."""


class BatchSeen(NamedTuple):
    """The fields of a batch with which the indexes are compared."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


@dataclass(slots=True)
class SegmentSeen:
    """The result of checking a segment."""

    path: str
    base_offset: int
    batches: list[BatchSeen] = field(default_factory=list)
    valid_bytes: int = 0
    """All batches before this position are valid."""
    size: int = 0
    problems: list[Problem] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    """The entries that the transaction index must have."""
    bad_indexes: set[str] = field(default_factory=set)
    """The kinds of the indexes that have problems."""

    def is_good_to(self, position: int) -> None:
        """Record that all batches before the position are valid."""
        self.valid_bytes = position

    def add_aborted(self, found: Iterable[AbortedTransaction]) -> None:
        """Add the entries of a transaction index that has no problems."""
        self.aborted = sorted({*found, *self.aborted}, key=lambda each: each.last_offset)

    @property
    def end_offset(self) -> int:
        """The offset after the last batch."""
        return self.batches[-1].last_offset + 1 if self.batches else self.base_offset


def verify_file(file_system: FileSystem, path: str) -> list[Problem]:
    """Return the problems of a file that can be checked alone.

    For segments and their indexes the result is empty. `verify_segments` checks them.

    Raises:
        OSError: the file cannot be read.
    """
    readers: dict[Kind, Callable[[], object]] = {
        Kind.PRODUCER_SNAPSHOT: lambda: read_snapshot(path, read_file(file_system, path)),
        Kind.LEADER_EPOCHS: lambda: _check_epochs(file_system, path),
        Kind.OFFSETS: lambda: read_offsets(file_system, path),
        Kind.PARTITION_METADATA: lambda: read_partition_metadata(file_system, path),
    }
    kind = kind_of(path)
    if kind is Kind.METADATA_SNAPSHOT:
        return [
            Problem(path, place.problem, place.position)
            for place in places(file_system, path)
            if place.problem is not None
        ]
    reader = readers.get(kind) if kind is not None else None
    if reader is None:
        return []
    try:
        reader()
    except DamagedFile as error:
        return [Problem(path, str(error).removeprefix(f"{path}: "))]
    return []


def _check_epochs(file_system: FileSystem, path: str) -> None:
    entries = read_leader_epochs(file_system, path)
    for before, after in pairwise(entries):
        if not (before[0] < after[0] and before[1] <= after[1]):
            raise DamagedFile(f"epoch {after[0]} from offset {after[1]} follows {before}")


def verify_segments(
    file_system: FileSystem, directory: str, bases: list[int]
) -> Iterator[SegmentSeen]:
    """Yield the segments of a partition with their problems, oldest first.

    Raises:
        OSError: a file cannot be read.
    """
    producers = ProducerState()
    previous_end = 0
    for base in bases:
        path = f"{directory}/{names.file_name(base, names.LOG)}"
        seen = look_at_segment(file_system, path, base, producers)
        if base < previous_end:
            seen.problems.insert(
                0, Problem(path, f"it begins before offset {previous_end}, where the last one ends")
            )
        previous_end = seen.end_offset
        _check_offset_index(file_system, seen)
        _check_time_index(file_system, seen)
        _check_transaction_index(file_system, seen)
        yield seen


def segment_bases(file_system: FileSystem, directory: str) -> list[int]:
    """Return the base offsets of the segments in a directory."""
    found = []
    for entry in file_system.scan(directory):
        base = names.offset_of(entry.name)
        if base is not None and entry.name.endswith(names.LOG):
            found.append(base)
    return sorted(found)


def look_at_segment(
    file_system: FileSystem, path: str, base: int, producers: ProducerState | None
) -> SegmentSeen:
    """Check all batches of a segment.

    `producers` has the state at the start of the segment, and is updated. If it is None, the
    batches are not checked against the producers' state.
    """
    status = file_system.status(path)
    seen = SegmentSeen(path, base, size=0 if status is None else status.size)
    is_good = True
    for place in places(file_system, path):
        problem = place.problem or _problem_of(place, seen)
        if problem is None and producers is not None and isinstance(place.batch, RecordBatch):
            problem = _replay(producers, place.batch, seen)
        if problem is not None:
            seen.problems.append(Problem(path, problem, place.position))
            is_good = False
        batch = place.batch
        if batch is None:
            break
        if is_good:
            seen.is_good_to(place.position + batch.size)
        base_offset = batch.base_offset
        seen.batches.append(
            BatchSeen(
                place.position, batch.size, base_offset, batch.last_offset, batch.max_timestamp
            )
        )
    return seen


def _problem_of(place: Place, seen: SegmentSeen) -> str | None:
    batch = place.batch
    assert batch is not None
    if batch.base_offset < seen.end_offset:
        return f"offset {batch.base_offset} comes after {seen.end_offset - 1}"
    if not isinstance(batch, RecordBatch):
        return None
    try:
        last = batch.base_offset - 1
        for record in iterate_records(batch):
            if not last < record.offset <= batch.last_offset:
                return f"record {record.offset} is out of place in {batch!r}"
            last = record.offset
    except RecordsError as error:
        return f"offset {batch.base_offset}: {error}"
    return None


def _replay(producers: ProducerState, batch: RecordBatch, seen: SegmentSeen) -> str | None:
    if not batch.has_producer_id:
        return None
    try:
        ended = producers.replay(batch)
    except (RecordsError, RecordsRefused) as error:
        return f"offset {batch.base_offset}: {error}"
    if ended is not None and ended[0].aborted:
        completed, last_stable_offset = ended
        seen.aborted.append(
            AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                last_stable_offset,
            )
        )
    return None


# -- indexes --------------------------------------------------------------------------------------


def _index_path(seen: SegmentSeen, kind: str) -> str:
    return seen.path.removesuffix(names.LOG) + kind


def _check_offset_index(file_system: FileSystem, seen: SegmentSeen) -> None:
    by_position = {batch.position: batch for batch in seen.batches}

    def wrong(relative: int, position: int) -> str | None:
        batch = by_position.get(position)
        if batch is None:
            return f"the entry ({relative}, {position}) does not point at a batch"
        if not batch.base_offset <= seen.base_offset + relative <= batch.last_offset:
            return f"offset {seen.base_offset + relative} is not in the batch at byte {position}"
        return None

    _check_entries(file_system, seen, names.OFFSET_INDEX, OffsetIndex, wrong)


def _check_time_index(file_system: FileSystem, seen: SegmentSeen) -> None:
    by_offset = {batch.last_offset: batch for batch in seen.batches}

    def wrong(timestamp: int, relative: int) -> str | None:
        batch = by_offset.get(seen.base_offset + relative)
        if batch is None or batch.max_timestamp != timestamp:
            return f"no batch ends at offset {seen.base_offset + relative} at time {timestamp}"
        return None

    _check_entries(file_system, seen, names.TIME_INDEX, TimeIndex, wrong)


def _check_entries(
    file_system: FileSystem,
    seen: SegmentSeen,
    kind: str,
    index: type[Index],
    wrong: Callable[[int, int], str | None],
) -> None:
    """Check each entry of an index. Its fields must be above the fields of the previous entry.

    `wrong(first field, second field)` returns another problem of an entry, or None.
    """
    path = _index_path(seen, kind)
    if file_system.status(path) is None:
        _bad(seen, kind, Problem(path, "it is missing"))
        return
    last = (-1, -1)
    for number, entry in enumerate(index_entries(file_system, path, index)[0]):
        text = wrong(*entry)
        if text is None and (entry[0] <= last[0] or entry[1] <= last[1]):
            text = f"the entry {entry} comes after {last}"
        if text is not None:
            _bad(seen, kind, Problem(path, text, number * index.ENTRY.size))
            return
        last = entry


def _check_transaction_index(file_system: FileSystem, seen: SegmentSeen) -> None:
    path = _index_path(seen, names.TRANSACTION_INDEX)
    try:
        found = read_aborted(file_system, path, seen.base_offset)
    except DamagedFile as error:
        text = str(error).removeprefix(f"{path}: ")
        _bad(seen, names.TRANSACTION_INDEX, Problem(path, text))
        return
    known = {(each.producer_id, each.last_offset) for each in found}
    for entry in seen.aborted:
        if (entry.producer_id, entry.last_offset) not in known:
            text = (
                f"the transaction of producer {entry.producer_id} that was aborted at offset "
                f"{entry.last_offset} is missing"
            )
            _bad(seen, names.TRANSACTION_INDEX, Problem(path, text))
            return
    markers = {batch.base_offset for batch in seen.batches}
    for entry in found:
        if entry.last_offset not in markers:
            text = f"there is no marker at offset {entry.last_offset}"
            _bad(seen, names.TRANSACTION_INDEX, Problem(path, text))
            return
    seen.add_aborted(found)


def _bad(seen: SegmentSeen, kind: str, problem: Problem) -> None:
    seen.problems.append(problem)
    seen.bad_indexes.add(kind)


def verify_directory(file_system: FileSystem, directory: str) -> Iterator[Problem]:
    """Yield all problems of a partition's directory.

    Raises:
        OSError: a file cannot be read.
    """
    for seen in verify_segments(file_system, directory, segment_bases(file_system, directory)):
        yield from seen.problems
    for entry in sorted(file_system.scan(directory)):
        if not entry.is_directory:
            yield from verify_file(file_system, f"{directory}/{entry.name}")


def segment_of(path: str) -> tuple[str, int]:
    """Return the directory and the base offset of a segment's file."""
    base = names.offset_of(Path(path).name)
    assert base is not None
    return str(Path(path).parent), base
