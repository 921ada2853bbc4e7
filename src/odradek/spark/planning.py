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
    """What one task reads: `start <= offset < end` of a partition.

    `plan` keeps room for other ways to read the same offsets than by Fetch.
    """

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets, which is an upper bound of records."""
        return self.end - self.start


def splits(
    ranges: Mapping[TopicPartition, tuple[int, int]],
    min_partitions: int | None,
    max_records_per_partition: int | None,
) -> list[Split]:
    """The tasks for the given ranges, empty ones left out.

    A range longer than `max_records_per_partition` is cut; then, while there are fewer than
    `min_partitions`, large ranges are cut in proportion to their size.
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
    """At least `pieces` in all, one or more for each split, so that the largest piece is small."""
    total = sum(split.size for split in whole)
    shares = [max(1, split.size * pieces // total) for split in whole]
    while sum(shares) < pieces:
        largest = max(range(len(whole)), key=lambda i: whole[i].size / shares[i])
        shares[largest] += 1
    return shares


def _cut(split: Split, pieces: int) -> list[Split]:
    """Almost equal parts of a split, never empty ones."""
    pieces = min(pieces, split.size)
    bounds = [split.start + split.size * i // pieces for i in range(pieces + 1)]
    return [Split(split.topic_partition, start, end) for start, end in itertools.pairwise(bounds)]


def limited(start: Offsets, end: Offsets, records: int) -> Offsets:
    """`end`, held back so that at most `records` offsets lie between it and `start`.

    Each partition gets its share of the limit in proportion to what it has; what rounding
    leaves over goes to the first that can use it, so that every partition moves on in time.
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
