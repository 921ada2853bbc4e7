"""What the members of a Connect group send one another: metadata and assignments (KIP-415).

A member offers the protocols `sessioned`, `compatible` and `default`; their metadata has version 2, 1 and 0.
The versions differ in what follows, and fields that are missing at the end are read as empty.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from odradek.core.connect.assignor import Work
from odradek.core.connect.config_log import TaskId

PROTOCOL_TYPE = "connect"
SESSIONED, COMPATIBLE, EAGER = "sessioned", "compatible", "default"
VERSIONS = {SESSIONED: 2, COMPATIBLE: 1, EAGER: 0}
"""Protocols in order of preference, with the version of their messages."""
NO_ERROR, CONFIG_MISMATCH = 0, 1
_CONNECTOR = -1


class MalformedError(ValueError):
    """Bytes are not what a member of a Connect group sends."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a member gets: `work` to start and `revoked` to stop.

    `config_offset` is the offset up to which the leader has read the configurations.
    """

    error: int
    leader: str
    leader_url: str
    config_offset: int
    work: Work = field(default_factory=Work)
    revoked: Work = field(default_factory=Work)
    delay_ms: int = 0
    version: int = 2


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a member says about itself: its address, what it has read, and what it runs."""

    url: str
    config_offset: int
    current: Assignment | None = None
    version: int = 2


# -- encoding ---------------------------------------------------------------------------------


def encode_metadata(metadata: Metadata) -> bytes:
    """Return the bytes of a member's metadata."""
    head = struct.pack(">h", metadata.version) + _text(metadata.url)
    head += struct.pack(">q", metadata.config_offset)
    if metadata.version == 0:
        return head
    if metadata.current is None:
        return head + struct.pack(">i", -1)
    allocation = encode_assignment(metadata.current)
    return head + struct.pack(">i", len(allocation)) + allocation


def encode_assignment(assignment: Assignment) -> bytes:
    """Return the bytes of an assignment."""
    parts = [
        struct.pack(">hh", assignment.version, assignment.error),
        _text(assignment.leader),
        _text(assignment.leader_url),
        struct.pack(">q", assignment.config_offset),
        _work(assignment.work),
    ]
    if assignment.version > 0:
        revoked = _work(assignment.revoked) if assignment.revoked else struct.pack(">i", -1)
        parts += [revoked, struct.pack(">i", assignment.delay_ms)]
    return b"".join(parts)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _work(work: Work) -> bytes:
    numbers: dict[str, list[int]] = {}
    for name in work.connectors:
        numbers.setdefault(name, []).append(_CONNECTOR)
    for task in work.tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [struct.pack(">i", len(numbers))]
    for name, listed in numbers.items():
        parts += [_text(name), struct.pack(f">i{len(listed)}i", len(listed), *listed)]
    return b"".join(parts)


# -- decoding ---------------------------------------------------------------------------------


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    def _take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise MalformedError("the message is too short")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, code: str) -> int:
        (found,) = struct.unpack(code, self._take(struct.calcsize(code)))
        return int(found)

    def text(self) -> str:
        try:
            return self._take(self.number(">h")).decode()
        except UnicodeDecodeError:
            raise MalformedError("a text is not UTF-8") from None

    def bytes(self) -> bytes | None:
        length = self.number(">i")
        return None if length < 0 else self._take(length)

    def work(self) -> Work:
        found = Work()
        for _ in range(self.number(">i")):
            name = self.text()
            for _ in range(self.number(">i")):
                number = self.number(">i")
                if number == _CONNECTOR:
                    found.connectors.append(name)
                else:
                    found.tasks.append(TaskId(name, number))
        return found


def decode_metadata(data: bytes) -> Metadata:
    """Return the metadata of a member.

    Raises:
        MalformedError: it is something else.
    """
    reader = _Reader(data)
    version = reader.number(">h")
    url, offset = reader.text(), reader.number(">q")
    current = None
    if version > 0 and not reader.is_at_end:
        allocation = reader.bytes()
        current = decode_assignment(allocation) if allocation else None
    return Metadata(url, offset, current, version)


def decode_assignment(data: bytes) -> Assignment:
    """Return an assignment.

    Raises:
        MalformedError: it is something else.
    """
    reader = _Reader(data)
    version, error = reader.number(">h"), reader.number(">h")
    leader, url, offset = reader.text(), reader.text(), reader.number(">q")
    work, revoked, delay_ms = reader.work(), Work(), 0
    if version > 0 and not reader.is_at_end:
        revoked = reader.work()
    if version > 0 and not reader.is_at_end:
        delay_ms = reader.number(">i")
    return Assignment(error, leader, url, offset, work, revoked, delay_ms, version)
