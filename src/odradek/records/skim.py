"""Reads the records of a batch one by one without keeping any of them.

`structure` only tells whether a batch has the usual form. This module checks batches of any form
and reports what is wrong. Compressed records are decompressed in pieces and skipped. So the memory
does not depend on the length that a record claims (`DefaultRecordBatch.skipKeyValueIterator` in
Kafka).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.records.batch import RecordBatch
from odradek.records.compression import decompress_pieces
from odradek.records.errors import DecompressionLimit, InvalidRecords
from odradek.records.varint import VARLONG_SIZE_MAX, read_varint, read_varlong

if TYPE_CHECKING:
    from mypy_extensions import i64

TIMESTAMP_MAX: Final = 2**63 - 1
RECORD_BYTES_MAX: Final = 2**31 - 1
"""The maximum size of a record in the format, which is no limit."""
_CUT: Final = "the batch ends inside a record"


class Skimmed(NamedTuple):
    """The facts about a record that a leader checks."""

    offset_delta: int
    timestamp: int
    has_key: bool


def skim_records(
    batch: RecordBatch, limit_bytes: int, record_bytes_max: int = RECORD_BYTES_MAX
) -> Iterator[Skimmed]:
    """Yield the facts about the records of a batch, in order.

    Raises:
        InvalidRecords: the payload cannot be decompressed, does not consist of records, does not
            hold as many records as the header says, or has a record of more than `record_bytes_max`.
        DecompressionLimit: the records take more than `limit_bytes`.
    """
    stream = _Stream(decompress_pieces(batch.codec, batch.payload), limit_bytes)
    shared_time = batch.max_timestamp if batch.is_log_append_time else None
    for _ in range(batch.count):
        length = stream.varint()
        if length < 0:
            raise InvalidRecords(f"a record says that it has {length} bytes")
        if length > record_bytes_max:
            raise InvalidRecords(
                f"a record of {length} bytes is above max.decompressed.message.bytes, "
                f"{record_bytes_max}"
            )
        end = stream.position + length
        stream.skip(1)  # attributes; none are defined
        timestamp_delta: int = stream.varlong()
        timestamp = batch.base_timestamp + timestamp_delta  # may need more than 64 bits
        offset_delta = stream.varint()
        has_key = stream.skip_field()
        stream.skip_field()
        stream.skip_headers(length)
        if stream.position != end:
            raise InvalidRecords(
                f"a record of {length} bytes has fields of {length + stream.position - end}"
            )
        if not -TIMESTAMP_MAX <= timestamp <= TIMESTAMP_MAX:
            raise InvalidRecords(f"{timestamp} is not a valid timestamp")
        yield Skimmed(offset_delta, timestamp if shared_time is None else shared_time, has_key)
    if not stream.is_at_end:
        raise InvalidRecords(f"the batch holds more than the {batch.count} records it counts")


class _Stream:
    """A stream of bytes in pieces. It keeps little more than one piece in memory."""

    __slots__ = ("_at", "_before", "_data", "_limit_bytes", "_pieces")

    def __init__(self, pieces: Iterator[bytes], limit_bytes: int) -> None:
        self._pieces = pieces
        self._limit_bytes = limit_bytes
        self._data = b""
        self._at: i64 = 0
        self._before: i64 = 0
        """Number of bytes of the stream before `_data`."""

    @property
    def position(self) -> i64:
        """Number of bytes read so far."""
        return self._before + self._at

    @property
    def is_at_end(self) -> bool:
        """Whether there are no more bytes."""
        return self._at == len(self._data) and not self._more()

    def varint(self) -> i64:
        """Read a signed number of 32 bits."""
        self._hold_number()
        try:
            value, self._at = read_varint(self._data, self._at)
        except IndexError:
            raise InvalidRecords(_CUT) from None
        return value

    def varlong(self) -> i64:
        """Read a signed number of 64 bits."""
        self._hold_number()
        try:
            value, self._at = read_varlong(self._data, self._at)
        except IndexError:
            raise InvalidRecords(_CUT) from None
        return value

    def skip_field(self) -> bool:
        """Skip a length and as many bytes. Return False if the length is negative, for null."""
        length = self.varint()
        self.skip(length)
        return length >= 0

    def skip_headers(self, count_max: i64) -> None:
        """Skip the number of headers, which may be at most `count_max`, and the headers."""
        count = self.varint()
        if not 0 <= count <= count_max:
            raise InvalidRecords(f"a record cannot have {count} headers")
        while count > 0:
            count -= 1
            if not self.skip_field():
                raise InvalidRecords("a header has no key")
            self.skip_field()

    def skip(self, length: i64) -> None:
        """Skip `length` bytes; skip none if `length` is negative."""
        if length > 0:
            self._at += length
        while self._at > len(self._data):
            if not self._more():
                raise InvalidRecords(_CUT)

    def _hold_number(self) -> None:
        """Take pieces until `_data` holds a number of any length, or all remaining bytes."""
        while len(self._data) - self._at < VARLONG_SIZE_MAX and self._more():
            pass

    def _more(self) -> bool:
        """Drop the bytes read so far, and take the next piece. Return False if there is none."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        passed: i64 = min(self._at, len(self._data))
        self._data = self._data[passed:] + piece
        self._at -= passed
        self._before += passed
        if self._before + len(self._data) > self._limit_bytes:
            raise DecompressionLimit(f"the records take more than {self._limit_bytes} bytes")
        return True
