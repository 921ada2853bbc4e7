"""Open files, and a pool that limits their number.

A file stays open as long as there is a reference to its `OpenFile`: from the segment that it
belongs to, or from a `FileRange` that is being sent. So the pool may drop a file, and a segment may
be deleted, while a part of it is still being sent to a slow reader.

The pool limits the files that segments hold. When there are too many, it checks them in the order
in which they were opened, skips those that were used since its last check, and closes the first
other one. (This is the second-chance algorithm: an access moves nothing; the holder only notes that
it used its file.)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from odradek.env.executor import Lock
from odradek.env.file_system import READ_WRITE, FileSystem

POOL_LIMIT_DEFAULT = 4096


class OpenFile:
    """A descriptor that is closed with the last reference to it."""

    __slots__ = ("_close", "descriptor")

    def __init__(self, descriptor: int, close: Callable[[int], None]) -> None:
        self.descriptor = descriptor
        self._close = close

    def __del__(self) -> None:
        self._close(self.descriptor)


class FileHolder(Protocol):
    """The holder of one file of the pool."""

    @property
    def file(self) -> OpenFile | None:
        """The open file; None while it is closed."""
        ...

    def hold_file(self, file: OpenFile | None) -> None:
        """The pool has opened the file, or drops it (None)."""
        ...

    def take_use(self) -> bool:
        """Return whether the file was used since the previous call."""
        ...


class DescriptorPool:
    """See the module. Thread-safe."""

    def __init__(self, file_system: FileSystem, limit: int = POOL_LIMIT_DEFAULT) -> None:
        self._file_system = file_system
        self._limit = limit
        self._holders: OrderedDict[FileHolder, None] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._holders)

    def open(self, holder: FileHolder, path: str, flags: int = READ_WRITE) -> OpenFile:
        """Open the holder's file if it is closed, and drop others if there are too many.

        Raises:
            OSError: it cannot be opened.
        """
        with self._lock:
            file = holder.file
            if file is None:
                descriptor = self._file_system.open(path, flags)
                file = OpenFile(descriptor, self._file_system.close)
                if len(self._holders) >= self._limit:
                    self._sweep()
                holder.hold_file(file)
                self._holders[holder] = None
            return file

    def _sweep(self) -> None:
        """Drop the first file not used since the last check; if there is none, the oldest."""
        for _ in range(len(self._holders)):
            holder = next(iter(self._holders))
            if holder.file is None or not holder.take_use():
                break
            self._holders.move_to_end(holder)
        holder, _ = self._holders.popitem(last=False)
        holder.hold_file(None)

    def release(self, holder: FileHolder) -> None:
        """The holder does not need its file any more."""
        with self._lock:
            self._holders.pop(holder, None)
            holder.hold_file(None)
