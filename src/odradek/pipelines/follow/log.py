"""A log that is followed, and how far it is in the topic."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from odradek.pipelines.follow.files import Identity


@dataclass(frozen=True, slots=True)
class Log:
    """What is in the topic. It is stored in the transaction of the lines."""

    file: str
    """The name of the file when it was first seen. It stays when the file is renamed."""
    generation: int
    """1 for the first content of a file of this name, 2 if the file was truncated or replaced, …"""
    device: int
    inode: int
    bytes_read: int = 0
    """How much was read. After it a line begins, except if `is_inside`."""
    lines: int = 0
    sent: int = 0
    skipped: int = 0
    """Lines that are too long."""
    is_inside: bool = False
    """Whether the position is inside a line that is too long."""
    modified_ms: int = 0
    """When the file was changed last, before the last lines were read; at most an hour too old."""

    @property
    def identity(self) -> Identity:
        """The file that had the last lines."""
        return self.device, self.inode

    @property
    def key(self) -> bytes:
        """The key of the record with the position."""
        return json.dumps([self.file, self.generation]).encode()

    def as_json(self) -> bytes:
        """Return the value of the record with the position."""
        return json.dumps(asdict(self)).encode()


def stem_of(path: Path) -> str:
    """Return the beginning of the name of a log. The names of its copies begin with it, too."""
    return path.name.lstrip(".").partition(".")[0]


def log_of(value: bytes) -> Log:
    """Return the log of a stored position."""
    return Log(**json.loads(value))
