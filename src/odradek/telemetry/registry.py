"""The metrics of a node, by MBean and attribute.

Everything that reads metrics reads them here: the exporter for Prometheus, commands, and products
that watch a node. A registry consists of sections, which are functions that yield metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from odradek.telemetry.histogram import Histogram
from odradek.telemetry.mbeans import PERCENTILES, Kind, Metric, Row, Tags, Value, attributes
from odradek.telemetry.rates import WINDOWED, Rates

Section = Callable[[], Iterable[Metric]]

READS_MAX = 10
"""Maximum number of attempts to read a section."""


class Reading(NamedTuple):
    """One value."""

    object_name: str
    attribute: str
    value: int | float | str


class Registry:
    """The metrics of a node. Its methods may be called on any thread."""

    def __init__(
        self, sections: Callable[[], Iterable[Section]], now_ns: Callable[[], int]
    ) -> None:
        """`sections` returns the sections that the node has now. `now_ns` is a monotonic clock."""
        self._sections = sections
        self._rates = Rates(now_ns)

    def metrics(self) -> Iterator[Metric]:
        """Yield all metrics, and compute them while they are yielded."""
        for section in self._sections():
            yield from _read(section)

    def value(self, metric: Metric, attribute: str, row: Row) -> int | float | str:
        """Return the value of an attribute of a row."""
        tags, value = row
        if isinstance(value, Histogram):
            if metric.kind is Kind.HISTOGRAM or not attribute.endswith("Rate"):
                return value.attribute(attribute, PERCENTILES)
            value = value.count
        if metric.kind is Kind.RATE:
            assert not isinstance(value, str), "events are counted"
            return self._rates.averages((metric.mbean, attribute, tags), value)[0]
        if metric.kind in {Kind.METER, Kind.TIMER} and attribute != "Count":
            assert not isinstance(value, str), "events are counted"
            return self._rate(metric, attribute, tags, value) / metric.per_second
        return value

    def _rate(self, metric: Metric, attribute: str, tags: Tags, count: float) -> float:
        if attribute == "MeanRate":
            return self._rates.mean(count)
        averages = self._rates.averages((metric.mbean, tags), count)
        return averages[WINDOWED.index(attribute)]

    def values(self, pattern: str | None = None) -> Iterator[Reading]:
        """Yield all values, or those of the MBeans of one pattern (`MBean.pattern`)."""
        for metric in self.metrics():
            if pattern is None or metric.mbean.pattern == pattern:
                names = list(attributes(metric))
                for row in metric.rows:
                    object_name = metric.mbean.object_name(row[0])
                    for name in names:
                        yield Reading(object_name, name, self.value(metric, name, row))


def _read(section: Section) -> list[Metric]:
    """Return the metrics of a section.

    Another thread may change the data at the same time. If a dictionary grows during the iteration,
    Python raises a RuntimeError. Then the section is read again.
    """
    for _ in range(READS_MAX - 1):
        try:
            return [metric._replace(rows=list(metric.rows)) for metric in section()]
        except RuntimeError:
            continue
    return [metric._replace(rows=list(metric.rows)) for metric in section()]


__all__ = ["Reading", "Registry", "Section", "Value"]
