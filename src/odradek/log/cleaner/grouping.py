"""Groups adjacent segments, so that compaction does not leave more and more small segments.

Compaction replaces each group by one segment. Therefore the total sizes of the `.log` files and of
the indexes in a group are within the limits of one segment. The difference between the first and
the last offset of a group fits into an index entry. (Apache Kafka's `groupSegmentsBySize`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.log.segment import OFFSET_DELTA_MAX


class SegmentSizes(NamedTuple):
    """The base offset of a segment, and the sizes of its files in bytes."""

    base_offset: int
    size: int
    offset_index: int
    time_index: int


def group_segments(
    segments: Sequence[SegmentSizes], size_max: int, index_size_max: int, end_offset: int
) -> list[list[SegmentSizes]]:
    """Divide the segments, which are sorted by offset, into groups.

    `end_offset` is the offset after the last record of the last segment.
    """
    groups: list[list[SegmentSizes]] = []
    size = offset_index = time_index = 0
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        last_offset = (end_offset if is_last else segments[number + 1].base_offset) - 1
        size += segment.size
        offset_index += segment.offset_index
        time_index += segment.time_index
        fits = (
            bool(groups)
            and size <= size_max
            and offset_index <= index_size_max
            and time_index <= index_size_max
            and (segment.size == 0 or last_offset - groups[-1][0].base_offset <= OFFSET_DELTA_MAX)
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            _, size, offset_index, time_index = segment
    return groups
