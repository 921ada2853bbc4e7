"""Errors of logs.

Errors for clients are `ApiError`s, so that a handler can copy them into the response. The other
errors report a damaged file, or a log directory that another process uses.
"""

from __future__ import annotations

import errno
from enum import Enum

from odradek.model.errors import ApiError, ErrorCode


class OffsetOutOfRange(ApiError):
    """The offset is before the log start offset or after the log end offset."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class LogDirectoryOffline(ApiError):
    """The log directory has failed. All logs in this directory are unusable. The node continues."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DiskFull(ApiError):
    """The disk is full. Nothing was written, and a retry is possible.

    This error is also raised if a file cannot be opened because too many files are open.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class LogDamaged(ApiError):
    """A file of the log does not consist of valid batches. The message names the position."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class Rejection(Enum):
    """Why a batch is invalid, as far as metrics tell the reasons apart."""

    OTHER = "other"
    NO_KEY = "no key"
    """Records of a compacted topic have no key."""
    FORMAT = "format"
    """The batch has a format that is no longer supported."""
    CHECKSUM = "checksum"
    OFFSET_OR_SEQUENCE = "offset or sequence"
    """The offsets or the sequence number of the batch are impossible."""


class RecordsRefused(ApiError):
    """A batch was rejected and not appended.

    `record_errors` are the invalid records, as (index in the batch, message), for the Produce
    response.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_errors: tuple[tuple[int, str], ...] = (),
        rejection: Rejection = Rejection.OTHER,
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
        self.rejection = rejection


class LongValidation(Exception):
    """A batch was not appended, because its validation would occupy the event loop for too long.

    Validate it on another thread first (`odradek.log.validation.validate`).
    """


class InconsistentTopicId(ApiError):
    """The directory of the partition belongs to another topic of the same name."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INCONSISTENT_TOPIC_ID, message)


class DamagedFile(Exception):
    """A file has invalid content for its type. The message names the position."""


_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""The volume is full, the user's quota is used up, or the file has its maximum size."""
_NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
"""The process or the system has reached the maximum number of open files."""


def is_for_room(error: BaseException) -> bool:
    """Return whether the error means that the device is full or that too many files are open."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM | _NO_DESCRIPTOR


def is_for_descriptors(error: OSError) -> bool:
    """Return whether the error means that a file was not opened because too many are open."""
    return error.errno in _NO_DESCRIPTOR


class DirectoryInUse(Exception):
    """Another process uses the log directory."""
