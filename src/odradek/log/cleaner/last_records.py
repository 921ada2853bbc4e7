"""Which records of a batch are kept, when the keys whose last record it has are known.

A look into the map of all keys misses the processor's caches; a look into the few keys of one
batch does not. So the map is turned around once (`OffsetMap.last_keys`), and the batches of the
uncleaned part are filtered by what it says of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from odradek.log.cleaner.walk import Survivors, walk

_TOMBSTONE = 1
"""The length -1 as a varint."""


def last_records(
    data: bytes, count: int, last_keys: Sequence[bytes], drop_tombstones: bool
) -> Survivors:
    """The last record of each of `last_keys`, which are keys as the offset map has them.

    Raises:
        DamagedFile: `data` does not hold `count` records.
    """
    keys, starts, tails = walk(data, count)
    wanted = frozenset(last_keys)
    # Of equal keys the later one takes the place of the earlier one.
    last = {
        keys[number]: number for number in compress(range(count), map(wanted.__contains__, keys))
    }
    numbers = sorted(last.values())
    tombstones = {number for number in numbers if data[tails[number]] == _TOMBSTONE}
    if tombstones and drop_tombstones:
        numbers = [number for number in numbers if number not in tombstones]
        tombstones.clear()
    starts.append(len(data))
    return Survivors([(starts[number], starts[number + 1]) for number in numbers], bool(tombstones))
