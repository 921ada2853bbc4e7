"""Keys in the order of their bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

_BLOCK = 512


class SortedKeys:
    """A sorted set of keys in blocks, so that adding one moves few others."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        ordered = sorted(keys)
        self._blocks = [ordered[at : at + _BLOCK] for at in range(0, len(ordered), _BLOCK)]
        self._last = [block[-1] for block in self._blocks]

    def add(self, key: bytes) -> None:
        """Add a key that is not in the set."""
        if not self._blocks:
            self._blocks.append([key])
            self._last.append(key)
            return
        at = min(bisect_left(self._last, key), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, key)
        if len(block) > 2 * _BLOCK:
            self._blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._last[at : at + 1] = [block[_BLOCK - 1], block[-1]]
        else:
            self._last[at] = block[-1]

    def remove(self, key: bytes) -> None:
        """Remove a key that is in the set."""
        at = bisect_left(self._last, key)
        block = self._blocks[at]
        del block[bisect_left(block, key)]
        if block:
            self._last[at] = block[-1]
        else:
            del self._blocks[at]
            del self._last[at]

    def between(self, first: bytes | None, last: bytes | None) -> Iterator[bytes]:
        """Yield the keys from `first` to `last`, both included; None is no limit."""
        at = 0 if first is None else bisect_left(self._last, first)
        begin = 0
        if first is not None and at < len(self._blocks):
            begin = bisect_left(self._blocks[at], first)
        while at < len(self._blocks):
            block = self._blocks[at]
            if last is not None and block[-1] > last:
                yield from block[begin : bisect_right(block, last)]
                return
            yield from block[begin:]
            begin = 0
            at += 1
