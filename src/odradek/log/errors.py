"""What can go wrong with logs.

What a client has to know is an `ApiError`, so that a handler may put it into the answer as it
is. The rest is damage found in files.
"""

from __future__ import annotations

import errno

from odradek.model.errors import ApiError, ErrorCode


class OffsetOutOfRange(ApiError):
    """The offset lies before the log's start or after its end."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class LogDirectoryOffline(ApiError):
    """The log's directory has failed; its other logs are unusable too, the node is not."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DiskFull(ApiError):
    """There was no room for what was to be written: nothing was, and it may be tried again.

    So it is where too many files are open for one to be read or written.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class LogDamaged(ApiError):
    """A file of the log holds something else than batches; the message names the place."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class RecordsRefused(ApiError):
    """Nothing of the payload was appended.

    `record_errors` names records at fault: (index in the batch, message), as Produce answers do.
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
    """A file does not hold what its name says; the message names the place."""


_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""The volume is full, or the user's share of it, or the file is as large as it may be."""
_NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
"""The process, or the machine, has as many files open as it may."""


def is_for_room(error: BaseException) -> bool:
    """Whether the device works, and only room is lacking: on it, or among the open files."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM | _NO_DESCRIPTOR


def is_for_descriptors(error: OSError) -> bool:
    """Whether too many files are open: nothing was done to any of them."""
    return error.errno in _NO_DESCRIPTOR


class DirectoryInUse(Exception):
    """Another process works in the log directory."""
