"""The logs that are known, found by the inode of a file or by the beginning of its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from odradek.pipelines.follow.files import Followed, Identity
from odradek.pipelines.follow.log import Log, stem_of


class Tracked:
    """A log, and the file that has its next lines, if there is one."""

    def __init__(self, log: Log, path: Path | None = None, file: Followed | None = None) -> None:
        self.log = log
        self.path = path
        self.file = file

    def now_has(self, path: Path, file: Followed) -> None:
        """Note the file that has the next lines."""
        if self.file is not None:
            self.file.close()
        self.path, self.file = path, file
        device, inode = file.identity
        self.log = replace(self.log, device=device, inode=inode)

    def is_at(self, path: Path) -> None:
        """Note the present name of the file."""
        self.path = path

    def moved_to(self, log: Log) -> None:
        """Note how far the log is in the topic."""
        self.log = log

    def lost(self) -> None:
        """Note that there is no file any more."""
        if self.file is not None:
            self.file.close()
        self.file = None


class Logs:
    """All logs, in the order in which they were found. No search looks at all of them."""

    def __init__(self, logs: Iterable[Log]) -> None:
        self._numbers: dict[Tracked, int] = {}
        self._by_identity: dict[Identity, dict[Tracked, None]] = {}
        """Also logs that had a file earlier."""
        self._by_stem: dict[str, list[Tracked]] = {}
        self._generations: dict[str, int] = {}
        for each in logs:
            self.add(Tracked(each))

    def __iter__(self) -> Iterator[Tracked]:
        return iter(self._numbers)

    def add(self, tracked: Tracked) -> None:
        """Add a log."""
        log = tracked.log
        self._numbers[tracked] = len(self._numbers)
        self._by_stem.setdefault(stem_of(Path(log.file)), []).append(tracked)
        self._generations[log.file] = max(log.generation, self._generations.get(log.file, 0))
        self.joined(tracked)

    def joined(self, tracked: Tracked) -> None:
        """Note that a log has another file."""
        self._by_identity.setdefault(tracked.log.identity, {})[tracked] = None

    def of(self, identity: Identity) -> list[Tracked]:
        """Return the logs whose last lines were in a file with this inode."""
        known = self._by_identity.get(identity, {})
        for each in [each for each in known if each.log.identity != identity]:
            del known[each]
        return self._in_order(known)

    def named_like(self, path: Path) -> list[Tracked]:
        """Return the logs that a file may be, by its name."""
        name = path.name.lstrip(".")
        beginnings = (name[:size] for size in range(len(name) + 1))
        return self._in_order(each for stem in beginnings for each in self._by_stem.get(stem, ()))

    def last_generation(self, file: str) -> int:
        """Return the last generation of a file of this name; 0 if there is none."""
        return self._generations.get(file, 0)

    def _in_order(self, found: Iterable[Tracked]) -> list[Tracked]:
        return sorted(found, key=self._numbers.__getitem__)
