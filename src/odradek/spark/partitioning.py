"""Chooses the partition of rows as Kafka's clients do, for whole columns at once.

The murmur2 hash of the key determines the partition, as in Kafka's Java client
(`org.apache.kafka.clients.producer.internals.BuiltInPartitioner`). So rows go to the same partition
as records with the same key that other clients write. Rows without a key go to one partition, to
fill batches. If the column `partition` of a row is set, `writers` uses this partition instead.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Integers = NDArray[np.int64]

SEED = 0x9747B28C
MIX = np.uint32(0x5BD1E995)
SHIFT = np.uint32(24)


def partitions_of_keys(keys: pa.BinaryArray, partition_count: int, keyless: int) -> Integers:
    """Return the partition of each row by its key; `keyless` if the key is null."""
    hashes = murmur2(keys)
    chosen = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partition_count
    if keys.null_count:
        chosen[keys.is_null().to_numpy(zero_copy_only=False)] = keyless
    return chosen


def murmur2(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """Return Kafka's 32-bit hash of each key (`org.apache.kafka.common.utils.Utils.murmur2`).

    Each step processes four bytes of all keys that are long enough. The longest key determines the
    number of steps.
    """
    _, bounds, data = keys.buffers()
    offsets = np.frombuffer(bounds, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    start, length = offsets[:-1].astype(np.int64), np.diff(offsets)
    octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    hashes = np.uint32(SEED) ^ length.astype(np.uint32)
    words = length // 4
    for step in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > step)
        word = np.zeros(len(rows), np.uint32)
        for byte in range(4):
            word |= octets[start[rows] + 4 * step + byte].astype(np.uint32) << np.uint32(8 * byte)
        word *= MIX
        word ^= word >> SHIFT
        hashes[rows] = (hashes[rows] * MIX) ^ (word * MIX)
    return _finish(hashes, octets, start + 4 * words, length % 4)


def _finish(
    hashes: NDArray[np.uint32], octets: NDArray[np.uint8], tail: Integers, rest: NDArray[np.int32]
) -> NDArray[np.uint32]:
    """Mix the last one to three bytes of each key into its hash, and finish the hash."""
    for byte in (2, 1, 0):
        rows = np.flatnonzero(rest > byte)
        hashes[rows] ^= octets[tail[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    rows = np.flatnonzero(rest > 0)
    hashes[rows] *= MIX
    hashes ^= hashes >> np.uint32(13)
    hashes *= MIX
    hashes ^= hashes >> np.uint32(15)
    return hashes
