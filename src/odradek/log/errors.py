"""Errors of logs.

Errors for clients are `ApiError`s, so that a handler can copy them into the response. The others
report damaged files.
"""

from __future__ import annotations

import errno

from odradek.model.errors import ApiError, ErrorCode


class OffsetOutOfRange(ApiError):
    """The offset lies before the log's start or after its end."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class LogDirectoryOffline(ApiError):
    """The log's directory has failed; its other logs are unusable too, but the node continues."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DiskFull(ApiError):
    """The disk is full: nothing was written, and a retry is possible.

    Also raised if a file cannot be opened because too many are open.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class LogDamaged(ApiError):
    """A file of the log contains something other than batches; the message names the position."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class RecordsRefused(ApiError):
    """Nothing of the payload was appended.

    `record_errors` names records at fault: (index in the batch, message), as in a Produce response.
    """

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class InconsistentTopicId(ApiError):
    """The directory of the partition belongs to another topic of the same name."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INCONSISTENT_TOPIC_ID, message)


class DamagedFile(Exception):
    """The content of a file is invalid for its type; the message names the position."""


_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""The volume is full, the user's quota is used up, or the file has its maximum size."""
_NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
"""The process or the machine has its maximum number of open files."""


def is_for_room(error: BaseException) -> bool:
    """Whether the device works, but is full, or too many files are open."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM | _NO_DESCRIPTOR


def is_for_descriptors(error: OSError) -> bool:
    """Whether too many files are open: nothing was done to any of them."""
    return error.errno in _NO_DESCRIPTOR


class DirectoryInUse(Exception):
    """Another process works in the log directory."""
