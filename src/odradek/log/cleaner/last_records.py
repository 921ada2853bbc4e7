"""Selects the records of a batch that are the last ones of their keys, for `DictOffsetMap`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from odradek.log.cleaner.offset_map import Survivors
from odradek.log.cleaner.walk import walk

_TOMBSTONE = 1
"""The length -1 as a varint."""


def last_records(
    data: bytes, count: int, last_keys: Sequence[bytes], drop_tombstones: bool
) -> Survivors:
    """Return the last record in the batch for each key in `last_keys`.

    The keys have the form in which the offset map stores them. `data` is the decompressed payload
    of the batch. With `drop_tombstones`, tombstones are left out.

    Raises:
        DamagedFile: `data` does not hold `count` records.
    """
    keys, starts, tails, _ = walk(data, count)
    wanted = frozenset(last_keys)
    # The later of two equal keys replaces the earlier one.
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
