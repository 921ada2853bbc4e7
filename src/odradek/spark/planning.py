"""Computes the offsets of a micro-batch, and the split of a read into tasks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import Offsets


@dataclass(frozen=True)
class Split(InputPartition):
    """What one task reads: the offsets `start <= offset < end` of a partition."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets, which is an upper bound of the number of records."""
        return self.end - self.start


def splits(
    ranges: Mapping[TopicPartition, tuple[int, int]],
    min_partitions: int | None,
    max_records_per_partition: int | None,
) -> list[Split]:
    """Return the splits of the given ranges. Empty ranges have no split.

    A range longer than `max_records_per_partition` is divided. If there are then fewer than
    `min_partitions` splits, large splits are divided in proportion to their size.
    """
    whole = [Split(tp, start, end) for tp, (start, end) in sorted(ranges.items()) if end > start]
    if max_records_per_partition is not None:
        limit = max_records_per_partition
        whole = [part for split in whole for part in _cut(split, -(-split.size // limit))]
    if min_partitions is None or len(whole) >= min_partitions or not whole:
        return whole
    return [
        part
        for split, pieces in zip(whole, _shares(whole, min_partitions), strict=True)
        for part in _cut(split, pieces)
    ]


def _shares(whole: Sequence[Split], pieces: int) -> list[int]:
    """Return the number of pieces of each split, at least `pieces` in total.

    The numbers are chosen so that the largest piece is small.
    """
    total = sum(split.size for split in whole)
    shares = [max(1, split.size * pieces // total) for split in whole]
    while sum(shares) < pieces:
        largest = max(range(len(whole)), key=lambda i: whole[i].size / shares[i])
        shares[largest] += 1
    return shares


def _cut(split: Split, pieces: int) -> list[Split]:
    """Divide a split into almost equal, non-empty parts."""
    pieces = min(pieces, split.size)
    bounds = [split.start + split.size * i // pieces for i in range(pieces + 1)]
    return [Split(split.topic_partition, start, end) for start, end in itertools.pairwise(bounds)]


def limited(start: Offsets, end: Offsets, records: int) -> Offsets:
    """Reduce `end` so that at most `records` offsets lie between `start` and `end`.

    Each partition gets a share of the limit in proportion to its size, rounded down. The remainder
    goes to the partitions that lost most by rounding, so that every partition advances eventually.
    """
    backlog = {tp: max(0, end[tp] - start.get(tp, 0)) for tp in sorted(end)}
    total = sum(backlog.values())
    if total <= records:
        return dict(end)
    shares = {tp: size * records // total for tp, size in backlog.items()}
    left = records - sum(shares.values())
    for tp in sorted(backlog, key=lambda tp: shares[tp] - backlog[tp] * records / total):
        extra = min(left, 1, backlog[tp] - shares[tp])
        shares[tp] += extra
        left -= extra
    return {tp: min(end[tp], start.get(tp, 0) + shares[tp]) for tp in end}
