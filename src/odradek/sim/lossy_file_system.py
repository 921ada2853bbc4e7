"""A file system in memory that loses unsynced data at a power loss, and injects failures.

For each file the file system keeps the content at the last fsync, and the later writes and
truncations. For each directory it keeps the names at the last fsync, and the later changes. `crash`
returns a state that a machine may find after a power loss. This state has the content at the last
fsync and some later changes, which a seed determines:

- A file has any subset of its later writes. A write may be torn between sectors of 512 bytes.
- A directory has a prefix of its later changes, as in a journal. A rename is one change.

When a machine or its process stops, its file system is switched off. Then every call raises
`PowerLoss` and has no effect.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from odradek.env.file_system import (
    READ_ONLY,
    Buffer,
    DirectoryEntry,
    FileStatus,
)

SECTOR = 512


class PowerLoss(BaseException):
    """The machine has stopped. No code of a node may catch this exception."""


class File:
    """A file: its current bytes, its bytes at the last fsync, and the changes since then."""

    def __init__(self, synced: bytes = b"", modified_ms: int = 0) -> None:
        self.now = bytearray(synced)
        self.synced = bytearray(synced)
        self.pending: list[tuple[int, bytes | None]] = []
        """The changes since the last fsync.

        A write is (position, data), and a truncation is (length, None).
        """
        self.modified_ms = modified_ms

    def write(self, position: int, data: bytes) -> None:
        """Write without fsync. The modification time does not change."""
        _put(self.now, position, data)
        self.pending.append((position, data))

    def touch(self, modified_ms: int) -> None:
        """Set the modification time."""
        self.modified_ms = modified_ms

    def truncate(self, length: int) -> None:
        """Truncate or extend the file without fsync."""
        _cut(self.now, length)
        self.pending.append((length, None))

    def sync(self) -> None:
        """Apply all changes to the bytes that survive a power loss."""
        for position, data in self.pending:
            if data is None:
                _cut(self.synced, position)
            else:
                _put(self.synced, position, data)
        self.pending.clear()

    def after_crash(self, draw: random.Random) -> File:
        """Return the file as it is after a power loss."""
        content = bytearray(self.synced)
        for position, data in self.pending:
            if data is None:
                if draw.random() < 0.5:
                    _cut(content, position)
                continue
            fate = draw.random()
            if fate < 0.4:
                _put(content, position, data)
            elif fate < 0.8:
                for start in range(0, len(data), SECTOR):
                    if draw.random() < 0.5:
                        _put(content, position + start, data[start : start + SECTOR])
        return File(bytes(content), self.modified_ms)


class Directory:
    """A directory: its current names, its names at the last fsync, and the changes since then."""

    def __init__(self) -> None:
        self.now: Names = {}
        self.synced: Names = {}
        self.pending: list[Callable[[Names], object]] = []

    def change(self, apply: Callable[[Names], object]) -> None:
        """Change the names without fsync."""
        apply(self.now)
        self.pending.append(apply)

    def sync(self) -> None:
        """Apply all changes to the names that survive a power loss."""
        self.synced = dict(self.now)
        self.pending.clear()

    def after_crash(
        self, draw: random.Random, made: dict[File | Directory, File | Directory | None]
    ) -> Directory:
        """Return the directory as it is after a power loss.

        `made` maps files and directories to their state after the power loss, because a file may
        have two names.
        """
        names = dict(self.synced)
        for apply in self.pending[: draw.randint(0, len(self.pending))]:
            apply(names)
        after = Directory()
        for name, node in names.items():
            if node not in made:
                made[node] = None
                made[node] = (
                    node.after_crash(draw)
                    if isinstance(node, File)
                    else node.after_crash(draw, made)
                )
            found = made[node]
            if found is not None:
                after.now[name] = found
        after.sync()
        return after


Names: TypeAlias = "dict[str, File | Directory]"


def _put(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _cut(content: bytearray, length: int) -> None:
    if len(content) < length:
        content.extend(bytes(length - len(content)))
    del content[length:]


class LossyFileSystem:
    """A `FileSystem` in memory. `root` is the directory `/`."""

    def __init__(self, root: Directory | None = None) -> None:
        self.root = root or Directory()
        self.descriptors: dict[int, File] = {}
        self.next_descriptor = 1000
        self.operations = 0
        self.stop_after: int | None = None
        """The number of changes before the power loss; None for no power loss."""
        self.fail: Callable[[str, str], OSError | None] = lambda operation, path: None
        """A test's function that may return an error for an operation and a path."""
        self.now_ms: Callable[[], int] = lambda: 0
        """The clock for the modification times of files."""
        self.on_change: Callable[[str, str], None] = lambda operation, path: None
        """A function that is called before each change with the operation and the path."""
        self.on_power_loss: Callable[[], None] = lambda: None
        """A function that is called when `stop_after` has switched the file system off."""
        self.is_off = False
        self.paths: dict[int, str] = {}
        self.draw = random.Random(0)

    # -- faults -------------------------------------------------------------------------------

    def crash(self, draw: random.Random) -> LossyFileSystem:
        """Return the file system as a machine may find it after a power loss at this moment."""
        return LossyFileSystem(self.root.after_crash(draw, {}))

    def attach(
        self,
        now_ms: Callable[[], int],
        draw: random.Random,
        on_change: Callable[[str, str], None],
    ) -> None:
        """Begin the use of the file system by a process.

        `now_ms` is the clock of the process. `draw` determines the length of torn writes.
        `on_change` is called before each change with the operation and the path.
        """
        self.now_ms = now_ms
        self.draw = draw
        self.on_change = on_change

    def lose_power_after(self, changes: int, on_power_loss: Callable[[], None]) -> None:
        """Lose power during the change after `changes` further changes, and call the callback."""
        self.stop_after = changes
        self.on_power_loss = on_power_loss

    def switch_off(self) -> None:
        """Make every further call raise `PowerLoss`."""
        self.is_off = True

    def _step(self, operation: str, path: str) -> None:
        """Check, report and count a change before it happens."""
        self._check(operation, path)
        self.on_change(operation, path)
        self.operations += 1
        if self.stop_after is not None:
            self.stop_after -= 1
            if self.stop_after < 0:
                self.is_off = True
                self.on_power_loss()
                raise PowerLoss

    def _check(self, operation: str, path: str) -> None:
        if self.is_off:
            raise PowerLoss
        error = self.fail(operation, path)
        if error is not None:
            raise error

    # -- paths --------------------------------------------------------------------------------

    def _node(self, path: str) -> File | Directory | None:
        if self.is_off:
            raise PowerLoss
        node: File | Directory | None = self.root
        for part in path.strip("/").split("/"):
            if not isinstance(node, Directory):
                return None
            if part:
                node = node.now.get(part)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rstrip("/").rpartition("/")
        parent = self._node(above)
        if not isinstance(parent, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", above)
        return parent, name

    # -- files --------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        """See `FileSystem`."""
        parent, name = self._parent(path)
        node = parent.now.get(name)
        self._check("open", path)
        if node is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._step("create", path)
            made = node = File(modified_ms=self.now_ms())
            parent.change(lambda names: names.__setitem__(name, made))
        assert isinstance(node, File), f"{path} is a directory"
        if flags & os.O_TRUNC and node.now:
            self._step("truncate", path)
            node.truncate(0)
        self.next_descriptor += 1
        self.descriptors[self.next_descriptor] = node
        self.paths[self.next_descriptor] = path
        return self.next_descriptor

    def close(self, descriptor: int) -> None:
        """See `FileSystem`. If the file system is switched off, all files are already closed."""
        if not self.is_off:
            del self.descriptors[descriptor]
            del self.paths[descriptor]

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        """See `FileSystem`."""
        self._check("pread", self.paths[descriptor])
        return bytes(self.descriptors[descriptor].now[position : position + length])

    def open_direct(self, path: str, flags: int = READ_ONLY) -> int | None:
        """See `FileSystem`."""
        return self.open(path, flags)

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """See `FileSystem`."""
        data = self.pread(descriptor, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, descriptor: int, data: Buffer, position: int) -> int:
        """See `FileSystem`. During a power loss, only a prefix of the data is written."""
        file = self.descriptors[descriptor]
        was_off = self.is_off
        try:
            self._step("pwrite", self.paths[descriptor])
        except PowerLoss:
            if not was_off:
                file.write(position, bytes(data[: self.draw.randint(0, len(data))]))
            raise
        file.write(position, bytes(data))
        file.touch(self.now_ms())
        return len(data)

    def pwritev(self, descriptor: int, parts: Sequence[Buffer], position: int) -> int:
        """See `FileSystem`."""
        return self.pwrite(descriptor, b"".join(parts), position)

    def fsync(self, descriptor: int) -> None:
        """See `FileSystem`."""
        self._step("fsync", self.paths[descriptor])
        self.descriptors[descriptor].sync()

    def fdatasync(self, descriptor: int) -> None:
        """See `FileSystem`."""
        self.fsync(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        """See `FileSystem`."""
        self._step("truncate", self.paths[descriptor])
        self.descriptors[descriptor].truncate(length)

    def size(self, descriptor: int) -> int:
        """See `FileSystem`."""
        return len(self.descriptors[descriptor].now)

    # -- directories --------------------------------------------------------------------------

    def status(self, path: str) -> FileStatus | None:
        """See `FileSystem`."""
        node = self._node(path)
        if node is None:
            return None
        if isinstance(node, Directory):
            return FileStatus(0, 0, is_directory=True)
        return FileStatus(len(node.now), node.modified_ms, is_directory=False)

    def scan(self, path: str) -> list[DirectoryEntry]:
        """See `FileSystem`."""
        self._check("scan", path)
        node = self._node(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return [
            DirectoryEntry(name, isinstance(each, Directory)) for name, each in node.now.items()
        ]

    def rename(self, source: str, target: str) -> None:
        """See `FileSystem`."""
        parent, name = self._parent(source)
        other_parent, other_name = self._parent(target)
        assert parent is other_parent, "logs rename within a directory"
        if name not in parent.now:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._step("rename", source)

        def apply(names: Names) -> None:
            names[other_name] = names.pop(name)

        parent.change(apply)

    def remove(self, path: str) -> None:
        """See `FileSystem`."""
        parent, name = self._parent(path)
        if not isinstance(parent.now.get(name), File):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._step("remove", path)
        parent.change(lambda names: names.pop(name))

    def make_directory(self, path: str) -> None:
        """See `FileSystem`."""
        node = self.root
        for part in path.strip("/").split("/"):
            below = node.now.get(part)
            if below is None:
                self._step("mkdir", path)
                made = below = Directory()
                name = part
                node.change(lambda names, name=name, made=made: names.__setitem__(name, made))  # type: ignore[misc]
            assert isinstance(below, Directory)
            node = below

    def remove_directory(self, path: str) -> None:
        """See `FileSystem`."""
        parent, name = self._parent(path)
        node = parent.now.get(name)
        assert isinstance(node, Directory)
        if node.now:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self._step("rmdir", path)
        parent.change(lambda names: names.pop(name))

    def set_modified(self, path: str, modified_ms: int) -> None:
        """See `FileSystem`."""
        node = self._node(path)
        assert isinstance(node, File)
        node.touch(modified_ms)

    def sync_directory(self, path: str) -> None:
        """See `FileSystem`."""
        node = self._node(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self._step("sync_directory", path)
        node.sync()

    def lock(self, descriptor: int) -> bool:
        """Return True, because only one process uses the file system at a time."""
        return True

    def space(self, path: str) -> tuple[int, int]:
        """See `FileSystem`."""
        return 1 << 40, 1 << 39

    def non_blocking(self) -> LossyFileSystem:
        """Return this file system, because all data is in memory."""
        return self

    def is_resident(self, descriptor: int, position: int, length: int) -> bool:
        """Return True, because all data is in memory."""
        return True

    def missing_bytes(self, descriptor: int, position: int, length: int) -> int:
        """Return 0, because all data is in memory."""
        return 0

    def load(self, descriptor: int, position: int, length: int) -> None:
        """Do nothing, because all data is in memory."""
