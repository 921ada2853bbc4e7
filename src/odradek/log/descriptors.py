"""Open files, and a pool that limits their number.

A file stays open as long as there is a reference to its `OpenFile`. The segment of the file may
have a reference, and each `FileRange` that is being sent has a reference. Therefore the pool may
drop a file while a part of the file is sent to a slow reader. A segment may also be deleted during
this time.

The pool limits the number of files that segments hold. When there are too many, the pool drops a
file with the second-chance algorithm. It checks the files in the order in which they were opened,
skips files that were used since the last check, and drops the first other file. The use of a file
costs little in this algorithm: the segment only sets a flag.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from odradek.env.executor import Lock
from odradek.env.file_system import READ_WRITE, FileSystem

POOL_LIMIT_DEFAULT = 4096


class OpenFile:
    """A descriptor that is closed when the last reference to this object is gone."""

    __slots__ = ("_close", "descriptor")

    def __init__(self, descriptor: int, close: Callable[[int], None]) -> None:
        self.descriptor = descriptor
        self._close = close

    def __del__(self) -> None:
        self._close(self.descriptor)


class FileHolder(Protocol):
    """An object, such as a segment, that holds one file of the pool."""

    @property
    def file(self) -> OpenFile | None:
        """The open file; None while it is closed."""
        ...

    def hold_file(self, file: OpenFile | None) -> None:
        """Set the file that the pool has opened; None if the pool drops the file."""
        ...

    def take_use(self) -> bool:
        """Return whether the file was used since the previous call."""
        ...


class DescriptorPool:
    """The pool of open files. It is thread-safe."""

    def __init__(self, file_system: FileSystem, limit: int = POOL_LIMIT_DEFAULT) -> None:
        self._file_system = file_system
        self._limit = limit
        self._holders: OrderedDict[FileHolder, None] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._holders)

    def open(self, holder: FileHolder, path: str, flags: int = READ_WRITE) -> OpenFile:
        """Open the holder's file if it is closed. Drop another file if too many are open.

        Raises:
            OSError: the file cannot be opened.
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
        """Drop the first file that was not used since the last check, or else the oldest file."""
        for _ in range(len(self._holders)):
            holder = next(iter(self._holders))
            if holder.file is None or not holder.take_use():
                break
            self._holders.move_to_end(holder)
        holder, _ = self._holders.popitem(last=False)
        holder.hold_file(None)

    def release(self, holder: FileHolder) -> None:
        """Drop the holder's file, because the holder does not need it any more."""
        with self._lock:
            self._holders.pop(holder, None)
            holder.hold_file(None)
