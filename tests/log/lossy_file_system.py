"""A file system in memory that forgets what was not synced, and fails when it is told to.

Of a file it keeps the content that was last synced, and the writes and truncations since; of a
directory likewise the names. `crash` makes of this what a machine may find after a power cut:
the synced content, and of the rest a part, chosen by a seed:

- Of a file, any subset of its later writes, in any order of blocks: a write may be torn between
  sectors of 512 bytes.
- Of a directory, the first so many of its later changes, as a journal keeps them; a rename is
  one change.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable

from odradek.env.file_system import DirectoryEntry, FileStatus

SECTOR = 512


class PowerLoss(BaseException):
    """The machine stops. No code of ours may catch this."""


class File:
    """A file's bytes: as seen now, as synced, and what happened in between."""

    def __init__(self, synced: bytes = b"") -> None:
        self.now = bytearray(synced)
        self.synced = bytes(synced)
        self.pending: list[tuple[int, bytes | None]] = []  # (position, data) or (length, None)

    def write(self, position: int, data: bytes) -> None:
        _put(self.now, position, data)
        self.pending.append((position, data))

    def truncate(self, length: int) -> None:
        _cut(self.now, length)
        self.pending.append((length, None))

    def sync(self) -> None:
        self.synced = bytes(self.now)
        self.pending.clear()

    def after_crash(self, draw: random.Random) -> File:
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
        return File(bytes(content))


class Directory:
    """A directory's names: as seen now, as synced, and the changes in between."""

    def __init__(self) -> None:
        self.now: dict[str, File | Directory] = {}
        self.synced: dict[str, File | Directory] = {}
        self.pending: list[Callable[[dict], None]] = []

    def change(self, apply: Callable[[dict], None]) -> None:
        apply(self.now)
        self.pending.append(apply)

    def sync(self) -> None:
        self.synced = dict(self.now)
        self.pending.clear()

    def after_crash(self, draw: random.Random, made: dict) -> Directory:
        """`made` maps nodes to what became of them: a file may have two names."""
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
            if made[node] is not None:
                after.now[name] = made[node]
        after.sync()
        return after


def _put(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _cut(content: bytearray, length: int) -> None:
    if len(content) < length:
        content.extend(bytes(length - len(content)))
    del content[length:]


class LossyFileSystem:
    """See the module. `root` is `/`."""

    def __init__(self, root: Directory | None = None) -> None:
        self.root = root or Directory()
        self.descriptors: dict[int, File] = {}
        self.next_descriptor = 1000
        self.operations = 0
        self.stop_after: int | None = None
        """Lose power in this many changes."""
        self.fail: Callable[[str, str], OSError | None] = lambda operation, path: None
        """May return an error for (operation, path or name of the descriptor)."""
        self.paths: dict[int, str] = {}
        self.draw = random.Random(0)

    # -- faults -------------------------------------------------------------------------------

    def crash(self, draw: random.Random) -> LossyFileSystem:
        """The file system as the machine finds it after a power cut now."""
        return LossyFileSystem(self.root.after_crash(draw, {}))

    def _step(self, operation: str, path: str) -> None:
        error = self.fail(operation, path)
        if error is not None:
            raise error
        self.operations += 1
        if self.stop_after is not None:
            self.stop_after -= 1
            if self.stop_after < 0:
                raise PowerLoss

    # -- paths --------------------------------------------------------------------------------

    def _node(self, path: str) -> File | Directory | None:
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
        parent, name = self._parent(path)
        node = parent.now.get(name)
        error = self.fail("open", path)
        if error is not None:
            raise error
        if node is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._step("create", path)
            node = File()
            parent.change(lambda names, file=node: names.__setitem__(name, file))
        assert isinstance(node, File), f"{path} is a directory"
        if flags & os.O_TRUNC and node.now:
            self._step("truncate", path)
            node.truncate(0)
        self.next_descriptor += 1
        self.descriptors[self.next_descriptor] = node
        self.paths[self.next_descriptor] = path
        return self.next_descriptor

    def close(self, descriptor: int) -> None:
        del self.descriptors[descriptor]
        del self.paths[descriptor]

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        error = self.fail("pread", self.paths[descriptor])
        if error is not None:
            raise error
        return bytes(self.descriptors[descriptor].now[position : position + length])

    def open_direct(self, path: str, flags: int = os.O_RDONLY) -> int | None:
        return self.open(path, flags)

    def read_into(self, descriptor: int, buffer, position: int) -> int:
        data = self.pread(descriptor, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, descriptor: int, data, position: int) -> int:
        file = self.descriptors[descriptor]
        try:
            self._step("pwrite", self.paths[descriptor])
        except PowerLoss:
            file.write(position, bytes(data[: self.draw.randint(0, len(data))]))
            raise
        file.write(position, bytes(data))
        return len(data)

    def pwritev(self, descriptor: int, parts, position: int) -> int:
        return self.pwrite(descriptor, b"".join(parts), position)

    def fsync(self, descriptor: int) -> None:
        self._step("fsync", self.paths[descriptor])
        self.descriptors[descriptor].sync()

    fdatasync = fsync

    def truncate(self, descriptor: int, length: int) -> None:
        self._step("truncate", self.paths[descriptor])
        self.descriptors[descriptor].truncate(length)

    def size(self, descriptor: int) -> int:
        return len(self.descriptors[descriptor].now)

    # -- directories --------------------------------------------------------------------------

    def status(self, path: str) -> FileStatus | None:
        node = self._node(path)
        if node is None:
            return None
        is_directory = isinstance(node, Directory)
        return FileStatus(0 if is_directory else len(node.now), 0, is_directory)

    def scan(self, path: str) -> list[DirectoryEntry]:
        error = self.fail("scan", path)
        if error is not None:
            raise error
        node = self._node(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return [
            DirectoryEntry(name, isinstance(each, Directory)) for name, each in node.now.items()
        ]

    def rename(self, source: str, target: str) -> None:
        parent, name = self._parent(source)
        other_parent, other_name = self._parent(target)
        assert parent is other_parent, "logs rename within a directory"
        if name not in parent.now:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._step("rename", source)

        def apply(names: dict) -> None:
            names[other_name] = names.pop(name)

        parent.change(apply)

    def remove(self, path: str) -> None:
        parent, name = self._parent(path)
        if not isinstance(parent.now.get(name), File):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._step("remove", path)
        parent.change(lambda names: names.pop(name))

    def make_directory(self, path: str) -> None:
        node = self.root
        for part in path.strip("/").split("/"):
            below = node.now.get(part)
            if below is None:
                self._step("mkdir", path)
                below = Directory()
                node.change(lambda names, part=part, new=below: names.__setitem__(part, new))
            assert isinstance(below, Directory)
            node = below

    def remove_directory(self, path: str) -> None:
        parent, name = self._parent(path)
        node = parent.now.get(name)
        assert isinstance(node, Directory)
        if node.now:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self._step("rmdir", path)
        parent.change(lambda names: names.pop(name))

    def set_modified(self, path: str, modified_ms: int) -> None:
        assert self._node(path) is not None

    def sync_directory(self, path: str) -> None:
        node = self._node(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self._step("sync_directory", path)
        node.sync()

    def lock(self, descriptor: int) -> bool:
        return True

    def space(self, path: str) -> tuple[int, int]:
        return 1 << 40, 1 << 39

    def impatient(self) -> LossyFileSystem:
        """See `odradek.env.file_system.FileSystem`: everything is in memory."""
        return self

    def is_resident(self, descriptor: int, position: int, length: int) -> bool:
        return True
