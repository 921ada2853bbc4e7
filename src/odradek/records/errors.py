"""What can be wrong with record batches."""

from __future__ import annotations


class RecordsError(ValueError):
    """The bytes are not what a record batch has to be."""


class CorruptBatch(RecordsError):
    """Length, checksum or magic number are wrong: the bytes were damaged (CORRUPT_MESSAGE)."""


class InvalidRecords(RecordsError):
    """The batch arrived as it was sent, but does not hold what it claims (INVALID_RECORD)."""


class DecompressionLimit(InvalidRecords):
    """The records take more bytes, decompressed, than the reader allows."""
