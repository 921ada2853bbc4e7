"""The files of a segment, the same as in Apache Kafka: their names, and the entries of its indexes.

    <base offset in 20 digits>.log        record batches, one after the other
    <base offset in 20 digits>.index      relative last offset of a batch int32
                                          | position of this batch in the .log int32
    <base offset in 20 digits>.timeindex  timestamp int64
                                          | relative last offset of the first batch that has it int32
    <base offset in 20 digits>.txnindex   version int16 (0) | producer id int64 | first offset int64
                                          | last offset int64
                                          | last stable offset after the marker int64

Relative offsets are relative to the base offset. The entries have a fixed size and no checksum. At the
end of an `.index` or `.timeindex` of its active segment, Apache Kafka has reserved space: zeros. A
`.txnindex` exists only if the segment has the marker of an aborted transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"

DELETED: Final = ".deleted"
"""Suffix of files that are removed after a delay."""
CLEANED: Final = ".cleaned"
"""Suffix of an incomplete replacement, which is removed after a crash."""
SWAP: Final = ".swap"
"""Suffix of a complete replacement, which replaces the old files after a crash."""

_DIGITS: Final = 20

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
ABORTED_FIELDS: Final = (
    ("version", "h"),
    ("producer_id", "q"),
    ("first_offset", "q"),
    ("last_offset", "q"),
    ("last_stable_offset", "q"),
)
"""The fields of an entry of a `.txnindex` with their types, as in `struct`, all big-endian."""
ABORTED_ENTRY: Final = Struct(">" + "".join(code for _, code in ABORTED_FIELDS))
ABORTED_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction. The range of offsets includes the marker.

    Consumers skip all records of the producer in this range.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    """The last stable offset of the log after the marker was written."""


def file_name(offset: int, kind: str) -> str:
    """Return the name of a file, such as `00000000000000000042.log`."""
    return f"{offset:020d}{kind}"


def offset_of(name: str) -> int | None:
    """Return the offset in the name of a file; None if the name has no offset."""
    digits = name.partition(".")[0]
    has_offset = len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if has_offset else None


def whole_length(size: int, entry: Struct) -> int:
    """Return the size in bytes of the whole entries of a file. A crash may leave a part of one."""
    return size - size % entry.size


def encode_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    """Return the entries of aborted transactions."""
    return b"".join(ABORTED_ENTRY.pack(ABORTED_VERSION, *each) for each in transactions)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """Return the aborted transactions of whole entries.

    Raises:
        ValueError: an entry has another version.
    """
    found = []
    whole = data[: whole_length(len(data), ABORTED_ENTRY)]
    for version, *fields in ABORTED_ENTRY.iter_unpack(whole):
        if version != ABORTED_VERSION:
            raise ValueError(f"an entry has version {version}")
        found.append(AbortedTransaction(*fields))
    return found
