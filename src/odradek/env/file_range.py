"""A range of an open file, as a part of a response."""

from __future__ import annotations


class FileRange:
    """`length` bytes of an open file from `position` on. They are sent without a copy.

    `owner` keeps the descriptor open until the range has been sent or dropped, even if the segment
    is deleted before.
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
        """Remove the first `count` bytes, which were sent, from the range."""
        self.position += count
        self.length -= count

    def __repr__(self) -> str:
        return f"FileRange({self.descriptor}, {self.position}, {self.length})"


class BufferedRange(FileRange):
    """A range whose bytes were already read into `memory`.

    `position` is a position in `memory`. `owner` keeps the memory from being reused until the range
    has been sent or dropped.
    """

    __slots__ = ("memory",)

    def __init__(self, memory: memoryview, position: int, length: int, owner: object) -> None:
        super().__init__(-1, position, length, owner)
        self.memory = memory
