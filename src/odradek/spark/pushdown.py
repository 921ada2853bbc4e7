"""Uses filters of a query on topic, partition, offset and timestamp to read less.

Spark passes the filters of a batch query to `BatchReader.pushFilters` if the setting
`spark.sql.python.filterPushdown.enabled` is true. Conditions on topic, partition and offset select
exactly the records that Spark needs. A lower bound of the timestamp becomes a start offset: with
ListOffsets the broker finds the first record at or after the time. Records behind it may be older,
because producers set timestamps, so Spark checks the condition again. For the same reason an upper
bound of the timestamp does not limit the read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from odradek.model.topic_partition import TopicPartition

Range = tuple[int, int]

COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, values: value in values,
}
LOWER_BOUNDS = (EqualTo, GreaterThan, GreaterThanOrEqual)
UPPER_BOUNDS = (EqualTo, LessThan, LessThanOrEqual)


@dataclass
class Pushed:
    """The conditions that limit the read. All of them must hold."""

    conditions: list[Filter] = field(default_factory=list)
    """Conditions on topic or partition."""
    offset_start: int = 0
    offset_end: int | None = None
    """The offset before which the read ends. None: no limit."""
    timestamp_ms: int | None = None
    """The earliest timestamp that is needed. None: no limit."""

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Use conditions to limit the read. Yield those that Spark must check.

        A lower bound of the timestamp limits the read, and Spark checks it too.
        """
        for each in filters:
            column = getattr(each, "attribute", ())
            comparison = type(each)
            if comparison not in COMPARISONS:
                yield each
            elif column in (("topic",), ("partition",)):
                self.conditions.append(each)
            elif column == ("offset",) and comparison is not In:
                self._limit_offsets(each)
            else:
                if column == ("timestamp",) and comparison in LOWER_BOUNDS:
                    self._limit_timestamps(each)
                yield each

    def _limit_offsets(self, condition: Filter) -> None:
        offset = condition.value  # type: ignore[attr-defined]
        if isinstance(condition, LOWER_BOUNDS):
            start = offset + 1 if isinstance(condition, GreaterThan) else offset
            self.offset_start = max(self.offset_start, start)
        if isinstance(condition, UPPER_BOUNDS):
            end = offset if isinstance(condition, LessThan) else offset + 1
            self.offset_end = end if self.offset_end is None else min(self.offset_end, end)

    def _limit_timestamps(self, condition: Filter) -> None:
        time: datetime = condition.value  # type: ignore[attr-defined]
        if time.tzinfo is not None:
            milliseconds = int(time.timestamp() * 1000 // 1)
            self.timestamp_ms = max(milliseconds, self.timestamp_ms or milliseconds)

    def selects(self, partition: TopicPartition) -> bool:
        """Return whether records of a partition may match the conditions."""
        values = {("topic",): partition.topic, ("partition",): partition.partition}
        return all(
            COMPARISONS[type(each)](values[each.attribute], each.value)  # type: ignore[attr-defined]
            for each in self.conditions
        )

    def limited(self, wanted: Range) -> Range:
        """Return the part of a range of offsets that may match the conditions."""
        start, end = wanted
        start = max(start, self.offset_start)
        return start, end if self.offset_end is None else min(end, self.offset_end)
