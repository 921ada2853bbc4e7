"""Reads the segment files of a partition's directory, without the broker.

`odradek.records.segment_files` has the names and formats of the files.

The broker appends to the newest segment, and removes and replaces the other ones while they are read.
To remove a segment, the broker first renames its files to `.deleted`. To replace segments by a
compacted one, it renames the new files to `.swap`, the old ones to `.deleted`, and then the new ones
to their final names. So in a list of names without `.swap`, no segment is missing because of a
replacement. A descriptor of a removed file still reads the old content. `SegmentFile.check` detects
it by the file's inode, and the content is not used: the transaction indexes may be newer.

Nothing in this module writes or locks a file, and no file is mapped into memory: the broker may
truncate it.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from odradek.arrow.batches import STEP, Integers
from odradek.records.batch import HEADER_SIZE, MAGIC, RecordBatch
from odradek.records.segment_files import (
    ABORTED_ENTRY,
    ABORTED_FIELDS,
    ABORTED_VERSION,
    LOG,
    OFFSET_ENTRY,
    OFFSET_INDEX,
    SWAP,
    TRANSACTION_INDEX,
    file_name,
    offset_of,
    whole_length,
)

_ABORTED_COLUMNS = np.dtype([(name, f">{code}") for name, code in ABORTED_FIELDS])
"""An entry of a `.txnindex`. The last offset is that of the marker."""


class SegmentsChangedError(Exception):
    """The files were replaced or removed, or do not have the wanted records."""


class Listing(NamedTuple):
    """The names in a partition's directory: the base offsets of its segments, in order."""

    bases: tuple[int, ...]
    with_aborted: frozenset[int]
    """The segments that have a `.txnindex`."""

    def floor(self, offset: int) -> int:
        """Return the last base offset that is not above `offset`.

        Raises:
            SegmentsChangedError: all segments are above `offset`.
        """
        number = bisect.bisect_right(self.bases, offset)
        if number == 0:
            raise SegmentsChangedError(f"no segment has offset {offset}")
        return self.bases[number - 1]

    def following(self, base: int) -> int | None:
        """Return the base offset of the next segment; None if it is the last one."""
        number = bisect.bisect_right(self.bases, base)
        return self.bases[number] if number < len(self.bases) else None


def list_segments(directory: str) -> Listing:
    """List the segments of a partition.

    Raises:
        SegmentsChangedError: the broker replaces segments at the moment.
        OSError: the directory cannot be read.
    """
    names = os.listdir(directory)
    if any(name.endswith(SWAP) for name in names):
        raise SegmentsChangedError(f"segments in {directory} are being replaced")
    return Listing(tuple(sorted(_bases(names, LOG))), frozenset(_bases(names, TRANSACTION_INDEX)))


def _bases(names: list[str], kind: str) -> list[int]:
    found = (offset_of(name) for name in names if name.endswith(kind))
    return [offset for offset in found if offset is not None]


def path_of(directory: str, base: int, kind: str) -> str:
    """Return the path of a file of a segment."""
    return f"{directory}/{file_name(base, kind)}"


class SegmentFile:
    """An open `.log` file."""

    def __init__(self, directory: str, base: int, descriptor: int) -> None:
        self.base = base
        self._directory = directory
        self._path = path_of(directory, base, LOG)
        self._descriptor = descriptor
        self._identity = _identity(os.fstat(descriptor))

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end of the file. Ask the kernel for the next ones.

        Raises:
            OSError: the file cannot be read.
        """
        data = os.pread(self._descriptor, size, position)
        if len(data) == size and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, position + size, size, os.POSIX_FADV_WILLNEED)
        return data

    def check(self) -> None:
        """Check that the file is still the one of the segment.

        Raises:
            SegmentsChangedError: it was removed or replaced.
        """
        try:
            is_same = _identity(os.stat(self._path)) == self._identity
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise SegmentsChangedError(f"{self._path} was removed or replaced")

    def position_before(self, offset: int) -> int:
        """Return the position of a batch that is not after `offset`, as far as the index knows.

        The index may lack entries, and may be of another segment after a replacement. So its answer
        is only used if a batch is there that begins at or before `offset`.

        Raises:
            OSError: the files cannot be read.
        """
        position = self._indexed(offset)
        head = os.pread(self._descriptor, HEADER_SIZE, position)
        if len(head) == HEADER_SIZE:
            base_offset, _, magic, _ = STEP.unpack_from(head)
            if magic == MAGIC and self.base <= base_offset <= offset:
                return position
        return 0

    def _indexed(self, offset: int) -> int:
        """Return the position in the last index entry that is not above `offset`.

        The index of an active segment of Apache Kafka ends with zeros. No entry has position 0.
        """
        try:
            path = path_of(self._directory, self.base, OFFSET_INDEX)
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            found, low, high = 0, 0, os.fstat(descriptor).st_size // OFFSET_ENTRY.size
            while low < high:
                middle = (low + high) // 2
                entry = os.pread(descriptor, OFFSET_ENTRY.size, middle * OFFSET_ENTRY.size)
                delta, position = (
                    OFFSET_ENTRY.unpack(entry) if len(entry) == OFFSET_ENTRY.size else (0, 0)
                )
                if position <= 0 or self.base + delta > offset:
                    high = middle
                else:
                    found, low = position, middle + 1
            return found
        finally:
            os.close(descriptor)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@contextmanager
def opened(directory: str, base: int) -> Iterator[SegmentFile]:
    """Open the `.log` file of a segment.

    Raises:
        SegmentsChangedError: it does not exist.
        OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path_of(directory, base, LOG), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise SegmentsChangedError(str(error)) from None
    try:
        yield SegmentFile(directory, base, descriptor)
    finally:
        os.close(descriptor)


class AbortedRanges:
    """The offsets of aborted transactions, from transaction indexes."""

    def __init__(
        self, producer_id: Integers, first_offset: Integers, last_offset: Integers
    ) -> None:
        self._ranges: dict[int, tuple[list[int], list[int]]] = {}
        order = np.argsort(first_offset, kind="stable")
        columns = (producer_id[order], first_offset[order], last_offset[order])
        for producer, first, last in zip(*(each.tolist() for each in columns), strict=True):
            firsts, lasts = self._ranges.setdefault(producer, ([], []))
            firsts.append(first)
            lasts.append(last)

    def leave_out(self, batch: RecordBatch) -> bool:
        """Return whether a batch was aborted. The transactions of a producer do not overlap."""
        if batch.is_control or batch.producer_id not in self._ranges:
            return False
        firsts, lasts = self._ranges[batch.producer_id]
        number = bisect.bisect_right(firsts, batch.base_offset) - 1
        return number >= 0 and batch.base_offset <= lasts[number]


def read_aborted(directory: str, listing: Listing, start: int, end: int) -> AbortedRanges:
    """Return the aborted transactions with records in `start <= offset < end`.

    Their markers may be in any later segment.

    Raises:
        SegmentsChangedError: a file was removed or replaced, or has another format.
        OSError: a file cannot be read.
    """
    first = listing.floor(start)
    pieces = [b""]
    for base in sorted(each for each in listing.with_aborted if each >= first):
        try:
            with open(path_of(directory, base, TRANSACTION_INDEX), "rb") as file:
                data = file.read()
        except FileNotFoundError as error:
            raise SegmentsChangedError(str(error)) from None
        pieces.append(data[: whole_length(len(data), ABORTED_ENTRY)])
    entries = np.frombuffer(b"".join(pieces), _ABORTED_COLUMNS)
    if (entries["version"] != ABORTED_VERSION).any():
        raise SegmentsChangedError(f"a {TRANSACTION_INDEX} in {directory} has another version")
    entries = entries[(entries["last_offset"] >= start) & (entries["first_offset"] < end)]
    return AbortedRanges(entries["producer_id"], entries["first_offset"], entries["last_offset"])
