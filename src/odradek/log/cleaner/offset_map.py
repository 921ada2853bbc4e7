"""Maps each key of the uncompacted part of a log to the last batch that has it.

The value is the base offset of the batch, one object for all keys of the batch: this takes a third
less memory than an offset for each key, and adds whole batches in one call. Of two records with the
same key in one batch, the later one is kept; the caller that iterates over the batch handles this.

Keys of up to 32 bytes are stored unchanged, longer ones as a digest of 33 bytes (so that a key
never equals a digest). The map is bounded by an estimate of its memory; when it is full, the round
of cleaning ends at that offset, and the next round continues there.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

KEY_SIZE_MAX: Final = 32
_DIGEST_SIZE: Final = KEY_SIZE_MAX + 1

_ENTRY_BYTES: Final = 48 + 16
"""Bytes of an entry: a dict slot, averaged over its growth, and an item in `OffsetMap.last_keys`.
"""
_OBJECT_BYTES: Final = 33
"""Size of a bytes object without its content."""
_INTEGER_BYTES: Final = 32
_ENTRY_BYTES_MAX: Final = _ENTRY_BYTES + _OBJECT_BYTES + _DIGEST_SIZE + _INTEGER_BYTES


def digest(key: bytes) -> bytes:
    """Return the digest that replaces a key of more than `KEY_SIZE_MAX` bytes."""
    return blake2b(key, digest_size=_DIGEST_SIZE).digest()


class OffsetMap:
    """See the module.

    `entries_max` bounds the number of keys as well; it is for tests, and for comparing with
    Apache Kafka, whose map is bounded that way.
    """

    __slots__ = ("_bytes", "_bytes_max", "_entries_max", "bases", "latest_offset")

    def __init__(self, bytes_max: float, entries_max: int | None = None) -> None:
        self._bytes_max = bytes_max
        self._entries_max = 2**63 if entries_max is None else entries_max
        self._bytes = 0
        self.bases: dict[bytes, int] = {}
        """Key or digest -> base offset of the last batch that has it."""
        self.latest_offset = -1
        """All keyed records up to this offset are in the map, or aborted."""

    def __len__(self) -> int:
        return len(self.bases)

    @property
    def utilization(self) -> float:
        """The used fraction of the map, from 0 to 1."""
        return min(1.0, self._bytes / self._bytes_max)

    @property
    def base_of(self) -> Callable[[bytes | None], int | None]:
        """The fastest function that maps a key to its value."""
        return self.bases.get  # type: ignore[return-value]

    def add_batch(self, keys: list[bytes], base_offset: int) -> bool:
        """Add the keys of a whole batch; return False, and change nothing, if they may not fit."""
        count = len(self.bases)
        if (
            count + len(keys) > self._entries_max
            or self._bytes + len(keys) * _ENTRY_BYTES_MAX > self._bytes_max
        ):
            return False
        self.bases.update(dict.fromkeys(keys, base_offset))
        added = len(self.bases) - count
        if added:
            size = len(keys[0]) if added < len(keys) else sum(map(len, keys)) // added
            self._bytes += added * (size + _ENTRY_BYTES + _OBJECT_BYTES) + _INTEGER_BYTES
        return True

    def advance_to(self, offset: int) -> None:
        """Set `latest_offset`."""
        self.latest_offset = offset

    def last_keys(self) -> dict[int, list[bytes]] | None:
        """Base offset of a batch -> the keys whose last record it has.

        Batches without such a key are left out. None if there are so many batches that the result
        would need much memory compared to the map.
        """
        found: dict[int, list[bytes]] = {}
        batches_max = len(self.bases) // 8
        for key, base in self.bases.items():
            keys = found.get(base)
            if keys is not None:
                keys.append(key)
            elif len(found) < batches_max:
                found[base] = [key]
            else:
                return None
        return found

    def add(self, key: bytes, base_offset: int) -> bool:
        """Add one key; return False, and change nothing, if the map is full."""
        if len(self.bases) >= self._entries_max or self._bytes >= self._bytes_max:
            return False
        if key not in self.bases:
            self._bytes += len(key) + _ENTRY_BYTES + _OBJECT_BYTES
        self.bases[key] = base_offset
        return True
