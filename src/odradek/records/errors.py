"""Errors in record batches."""

from __future__ import annotations


class RecordsError(ValueError):
    """The bytes are not a valid record batch."""


class CorruptBatch(RecordsError):
    """The length, checksum or magic number is wrong: the bytes are damaged (CORRUPT_MESSAGE)."""


class InvalidRecords(RecordsError):
    """The batch is intact, but its content does not match its header (INVALID_RECORD)."""


class DecompressionLimit(InvalidRecords):
    """The decompressed records take more bytes than the reader allows."""
