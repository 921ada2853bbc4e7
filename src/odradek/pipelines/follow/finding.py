"""Finds out which file is which log, after files were renamed, copied, compressed or truncated.

A file is known by its inode, if it has what was read of it. A file with another inode is a copy of a
log if it has all that was read of it, and a name with the same beginning: so rotation by copy and by
compression, and a file that a program wrote again with more lines, continue a log. Everything else is
a new log.

While a log's file is there, another file with the same content may be a copy that is being made. It
waits until the log's file is truncated or deleted, or for `COPY_S`: then it is a log of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from odradek.pipelines.follow.copies import Copies
from odradek.pipelines.follow.files import (
    TAIL_BYTES,
    Followed,
    Identity,
    LostError,
    identity_of,
    opened,
)
from odradek.pipelines.follow.log import Log
from odradek.pipelines.follow.tracking import Logs, Tracked
from odradek.pipelines.inputs import PROBE_BYTES, DamagedError, files, looks_like_text

COPY_S = 30.0
ROTATED = re.compile(r"([.-][0-9][0-9.:-]*|\.old)(\.(gz|bz2|xz|zst))?")
"""What the name of a rotated file has after that of the log."""


Look = tuple[int, int]
"""The size of a file, and when it was changed."""


def look_of(state: os.stat_result) -> Look:
    """Return what tells a file that is not open from others with its inode."""
    return state.st_size, state.st_mtime_ns


@dataclass(frozen=True, slots=True)
class _Left:
    """A file that is no log, or not yet."""

    since_s: float
    look: Look
    why: str = ""
    is_final: bool = True
    """Whether it is looked at again only when it has changed."""


class Finder:
    """Knows all logs and their files."""

    def __init__(
        self,
        given: Sequence[Path],
        copies: Copies,
        logs: Iterable[Log],
        say: Callable[[str], None],
    ) -> None:
        self.tracked = Logs(logs)
        self._given = given
        self._copies = copies
        self._say = say
        self._known: dict[Identity, tuple[Tracked, Look | None]] = {}
        """The logs of files. A file that is not open must look as before: others may get its inode."""
        self._left: dict[Identity, _Left] = {}
        self._truncated: set[Tracked] = set()

    @property
    def left(self) -> list[str]:
        """What is not read, for people."""
        return sorted(each.why for each in self._left.values() if each.why)

    def find(self, now_s: float, since_ns: int) -> None:
        """Look at all files. `since_ns` is when this was done last, by the clock of files; 0 if never."""
        listed = []
        for path, is_given in self._listed():
            with contextlib.suppress(OSError):  # it was renamed or deleted meanwhile
                listed.append((path, is_given, path.stat()))
        present = {identity_of(state) for _, _, state in listed}
        self._left = {key: each for key, each in self._left.items() if key in present}
        stored = {each.log.identity for each in self.tracked}
        listed.sort(key=lambda each: identity_of(each[2]) not in stored)  # these are found first
        for path, is_given, state in listed:
            is_new = is_given or state.st_mtime_ns >= since_ns > 0
            if not self._is_known(path, state) and state.st_size > 0:
                self._look_at(path, state, now_s, is_new=is_new)

    def _is_known(self, path: Path, state: os.stat_result) -> bool:
        """Return whether a file is one of a log. If it has the next lines, note its name."""
        identity = identity_of(state)
        tracked, look = self._known.get(identity, (None, None))
        if tracked is not None and tracked.file is not None and tracked.file.identity == identity:
            tracked.is_at(path)
            return True
        return look is not None and look == look_of(state)

    def _look_at(self, path: Path, state: os.stat_result, now_s: float, *, is_new: bool) -> None:
        """Find out what a file is, unless this is known."""
        identity, look = identity_of(state), look_of(state)
        before = self._left.get(identity)
        if before is not None and before.is_final and before.look == look:
            return
        try:
            file = opened(path)
        except FileNotFoundError:  # it was renamed or deleted meanwhile
            return
        except OSError as error:  # perhaps too many files are open
            why = f"{path} is not read: {error.strerror}"
            self._leave(identity, _Left(now_s, look, why, is_final=False))
            return
        is_taken = False
        try:
            if file.identity == identity:
                is_taken = self._is_taken(path, file, look, now_s, is_new=is_new)
        except DamagedError as error:  # perhaps it is not whole yet
            why = f"{path} is not read: it is damaged: {error}"
            self._leave(identity, _Left(now_s, look, why), is_said=False)
        finally:
            if not is_taken:
                file.close()

    def truncated(self, tracked: Tracked, path: Path | None) -> None:
        """Note that a file of a log has other content now."""
        if tracked.file is not None:
            self._known.pop(tracked.file.identity, None)
        tracked.lost()
        if tracked not in self._truncated:
            self._truncated.add(tracked)
            if str(path) == tracked.log.file:  # others have the inode of a file that was deleted
                self._say(
                    f"{path} was truncated or written again after line {tracked.log.lines:,}: it is "
                    "read from its beginning"
                )

    def _listed(self) -> list[tuple[Path, bool]]:
        """Return the files, and whether each is given, or only beside one that is."""
        found: dict[Path, bool] = {}
        for given in self._given:
            with contextlib.suppress(OSError):  # a directory was renamed or deleted meanwhile
                if given.is_dir():
                    found |= dict.fromkeys(files([given]), True)
                    continue
                found[given] = True
                for path in given.parent.iterdir():
                    name = path.name
                    if name.startswith(given.name) and ROTATED.fullmatch(name[len(given.name) :]):
                        found.setdefault(path, False)
        return sorted(found.items())

    def _is_taken(
        self, path: Path, file: Followed, look: Look, now_s: float, *, is_new: bool
    ) -> bool:
        """Find out which log a file has, and return whether it will be read."""
        own = [
            each
            for each in self.tracked.of(file.identity)
            if each.file is None and each.log.bytes_read
        ]
        for tracked in own:
            if tracked not in self._truncated and self._has_read(tracked, file):
                self._join(tracked, path, file, look)
                return True
            if not file.is_whole:
                self.truncated(tracked, path)
        replaced = [each for each in own if each in self._truncated]
        others = [
            each
            for each in self.tracked.named_like(path)
            if each not in replaced and each.log.bytes_read
        ]
        original, may_be_copied = self._original(path, file, others)
        if original is not None:
            self._left.pop(file.identity, None)
            if not self._is_lost(original):
                self._known[file.identity] = original, look
                return False
            if original.file is not None and not original.file.is_deleted:
                self.truncated(original, original.path)
            self._join(original, path, file, look)
            return True
        before = self._left.get(file.identity)
        since_s = now_s if before is None or before.is_final else before.since_s
        if may_be_copied and now_s < since_s + COPY_S:
            why = f"{path} is not read yet: it may be a copy in the making"
            self._leave(file.identity, _Left(since_s, look, why, is_final=False), is_said=False)
            return False
        return self._is_new(path, file, look, now_s, is_new=is_new)

    def _is_new(
        self, path: Path, file: Followed, look: Look, now_s: float, *, is_new: bool
    ) -> bool:
        if not is_new:
            self._leave(file.identity, _Left(now_s, look, is_final=file.is_whole))
            return False
        if not looks_like_text(next(file.content(), b"")[:PROBE_BYTES]):
            self._leave(file.identity, _Left(now_s, look, f"{path} is not read: it is not text"))
            return False
        self._left.pop(file.identity, None)
        name = str(path)
        log = Log(name, 1 + self.tracked.last_generation(name), *file.identity)
        self._copies.begin(log)
        tracked = Tracked(log)
        self.tracked.add(tracked)
        self._join(tracked, path, file, look)
        return True

    def _leave(self, identity: Identity, left: _Left, *, is_said: bool = True) -> None:
        before = self._left.get(identity)
        self._left[identity] = left
        if is_said and left.why and (before is None or before.why != left.why):
            self._say(left.why)

    def _join(self, tracked: Tracked, path: Path, file: Followed, look: Look) -> None:
        if tracked.file is not None:
            self._known.pop(tracked.file.identity, None)
        tracked.now_has(path, file)
        self.tracked.joined(tracked)
        self._known[file.identity] = tracked, look if file.is_whole else None
        self._truncated.discard(tracked)

    def _has_read(self, tracked: Tracked, file: Followed) -> bool:
        """Return whether a file with the inode of a log has what was read of it."""
        log = tracked.log
        if file.is_whole:
            return self._is_copy(tracked, file)
        size = min(log.bytes_read, TAIL_BYTES)
        if self._copies.start(log, size) != next(file.content(), b"")[:size]:
            return False
        try:
            file.read(log.bytes_read, self._copies.before(log), 1)
        except LostError:
            return False
        return True

    def _original(
        self, path: Path, file: Followed, others: Sequence[Tracked]
    ) -> tuple[Tracked | None, bool]:
        """Return the log of which a file is a copy, and whether it may become one.

        Raises:
            DamagedError: the file is compressed, and not whole, perhaps not yet.
        """
        if file.is_whole:
            for _ in file.content():  # to its end
                pass
            found = [each for each in others if self._is_copy(each, file)]
            return max(found, key=lambda each: each.log.bytes_read, default=None), False
        agreeing = [each for each in others if self._agrees(each, path, file)]
        lost = [each for each in agreeing if self._is_lost(each)]
        found = [each for each in lost if self._is_copy(each, file)]
        return max(found, key=lambda each: each.log.bytes_read, default=None), agreeing != lost

    def _is_copy(self, tracked: Tracked, file: Followed) -> bool:
        """Return whether a file has all that was read of a log.

        Of a log that is gone, a compressed file may have less: what was written after it was made.
        """
        log = tracked.log
        agrees, compared = self._copies.is_start(log, file.content())
        return agrees and (compared == log.bytes_read or (file.is_whole and self._is_lost(tracked)))

    def _is_lost(self, tracked: Tracked) -> bool:
        """Return whether a log's file was deleted or truncated."""
        file = tracked.file
        if file is None or file.is_deleted:
            return True
        try:
            file.read(tracked.log.bytes_read, self._copies.before(tracked.log), 1)
        except LostError:
            return True
        return False

    def _agrees(self, tracked: Tracked, path: Path, file: Followed) -> bool:
        """Return whether a plain file may be a copy of a log, or the beginning of one."""
        log = tracked.log
        if str(path) == log.file and tracked.path != path and not self._is_lost(tracked):
            return False  # the log was renamed, and the program began a new file
        size = min(file.size_bytes, log.bytes_read, TAIL_BYTES)
        return self._copies.start(log, size) == file.read(0, b"", size)
