"""Keeps what was read of followed logs, because the files may be gone when it is needed.

The copy tells whether a file is one that was read before, and the check of the results reads it. A log
has two files: its content, and the times at which the file of its lines was changed. They may have
more than what is in the topic, if the process was killed: `keep` cuts them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from odradek.pipelines.follow.files import TAIL_BYTES
from odradek.pipelines.follow.log import Log

BLOCK_BYTES = 1 << 20


class Copies:
    """The copies in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def path(self, log: Log) -> Path:
        """Return the file with the content of a log."""
        digest = hashlib.sha256(log.file.encode("utf-8", "surrogateescape")).hexdigest()[:12]
        return self._directory / f"{Path(log.file).name}-{digest}.{log.generation}"

    def _times(self, log: Log) -> Path:
        path = self.path(log)
        return path.with_name(f"{path.name}.times")

    def keep(self, log: Log) -> bool:
        """Cut the copy to what is in the topic. Return whether the copy has all of it."""
        path = self.path(log)
        if not path.exists() or path.stat().st_size < log.bytes_read:
            return False
        with path.open("r+b") as file:
            file.truncate(log.bytes_read)
        times = [each for each in self.times(log) if each[0] <= log.lines]
        self._times(log).write_text("".join(f"{json.dumps(each)}\n" for each in times))
        return True

    def begin(self, log: Log) -> None:
        """Remove what a run that was killed has left of a log that is not in the topic."""
        self.path(log).unlink(missing_ok=True)
        self._times(log).unlink(missing_ok=True)

    def add(self, log: Log, content: bytes) -> None:
        """Add what was read after a log's position."""
        with self.path(log).open("ab") as file:
            file.write(content)

    def add_time(self, log: Log) -> None:
        """Note that the lines up to the position have the time `Log.modified_ms`."""
        with self._times(log).open("a") as file:
            file.write(f"{json.dumps([log.lines, log.modified_ms])}\n")

    def times(self, log: Log) -> list[tuple[int, int]]:
        """Return the last line and the time of each part of a log."""
        try:
            texts = self._times(log).read_text().splitlines()
        except FileNotFoundError:
            return []
        return [tuple(json.loads(each)) for each in texts if each.endswith("]")]

    def before(self, log: Log) -> bytes:
        """Return the last bytes before the position of a log."""
        with self.path(log).open("rb") as file:
            file.seek(max(0, log.bytes_read - TAIL_BYTES))
            return file.read(min(log.bytes_read, TAIL_BYTES))

    def start(self, log: Log, size_bytes: int) -> bytes:
        """Return the beginning of a log."""
        with self.path(log).open("rb") as file:
            return file.read(min(size_bytes, log.bytes_read))

    def is_start(self, log: Log, content: Iterator[bytes]) -> tuple[bool, int]:
        """Compare a content with that of a log, as far as both go.

        Returns whether they agree, and how many bytes were compared: fewer than the log has, if the
        content ends before.
        """
        compared = 0
        with self.path(log).open("rb") as file:
            for block in content:
                expected = file.read(min(len(block), log.bytes_read - compared))
                if block[: len(expected)] != expected:
                    return False, compared
                compared += len(expected)
                if compared == log.bytes_read:
                    break
        return True, compared
