"""A range of an open file, as a part of a response."""

from __future__ import annotations


class FileRange:
    """`length` bytes of an open file from `position` on, sent without a copy.

    `owner` keeps the descriptor open until the range has been sent or dropped: a segment may be
    deleted meanwhile.
    """

    __slots__ = ("descriptor", "length", "owner", "position")

    def __init__(self, descriptor: int, position: int, length: int, owner: object) -> None:
        self.descriptor = descriptor
        self.position = position
        self.length = length
        self.owner = owner

    def __len__(self) -> int:
        return self.length

    def advance(self, count: int) -> None:
        """Drop the first `count` bytes, because they were sent."""
        self.position += count
        self.length -= count

    def __repr__(self) -> str:
        return f"FileRange({self.descriptor}, {self.position}, {self.length})"


class BufferedRange(FileRange):
    """A range that was already read: `memory` holds it from `position` on.

    `owner` prevents reuse of the memory until the range is sent or dropped.
    """

    __slots__ = ("memory",)

    def __init__(self, memory: memoryview, position: int, length: int, owner: object) -> None:
        super().__init__(-1, position, length, owner)
        self.memory = memory
