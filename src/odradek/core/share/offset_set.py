"""A set of offsets that needs little memory if the offsets are close together.

The set has a number for each block of `BLOCK` consecutive offsets that contains a member. Each
member is one bit of the number.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

_SHIFT: Final = 8
BLOCK: Final = 1 << _SHIFT
_MASK: Final = BLOCK - 1


class OffsetSet:
    """A set of offsets, with the lowest one at hand."""

    __slots__ = ("_blocks", "_count", "_heap")

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        self._heap: list[int] = []
        """The blocks, and blocks that have no members any more."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, offset: int) -> bool:
        return bool(self._blocks.get(offset >> _SHIFT, 0) >> (offset & _MASK) & 1)

    def add(self, offset: int) -> None:
        """Add an offset."""
        block, bit = offset >> _SHIFT, 1 << (offset & _MASK)
        bits = self._blocks.get(block)
        if bits is None:
            heappush(self._heap, block)
            bits = 0
        if not bits & bit:
            self._blocks[block] = bits | bit
            self._count += 1

    def discard(self, offset: int) -> None:
        """Remove an offset, if it is in the set."""
        block, bit = offset >> _SHIFT, 1 << (offset & _MASK)
        bits = self._blocks.get(block, 0)
        if not bits & bit:
            return
        self._count -= 1
        if bits == bit:
            del self._blocks[block]
        else:
            self._blocks[block] = bits ^ bit

    @property
    def first(self) -> int | None:
        """The lowest offset; None if the set is empty."""
        heap = self._heap
        while heap:
            bits = self._blocks.get(heap[0])
            if bits is not None:
                return (heap[0] << _SHIFT) + (bits & -bits).bit_length() - 1
            heappop(heap)
        return None

    def remove_before(self, end: int) -> list[int]:
        """Remove the offsets before `end`, and return them."""
        removed = []
        while (first := self.first) is not None and first < end:
            self.discard(first)
            removed.append(first)
        return removed

    def gaps(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges from `begin` to `end` (exclusive) without members, as first and last."""
        first = begin
        for block in range(begin >> _SHIFT, -(-end >> _SHIFT)):
            bits = self._blocks.get(block)
            if bits is None:
                continue
            base = block << _SHIFT
            while bits:
                low = bits & -bits
                offset = base + low.bit_length() - 1
                bits ^= low
                if offset < begin:
                    continue
                if offset >= end:
                    break
                if offset > first:
                    yield first, offset - 1
                first = offset + 1
        if first < end:
            yield first, end - 1
