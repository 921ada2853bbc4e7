"""Metrics whose keys are Apache Kafka's MBeans and attributes.

An MBean has an object name such as `kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=x`,
and attributes such as `Count` and `OneMinuteRate`. A `Metric` has the values of one attribute, or of
all attributes of a meter or histogram, for all MBeans of one pattern: the pattern
`kafka.log:type=Log,name=Size,topic=*,partition=*` has one row for each partition.

A metric is made when it is read. Nothing is pushed: a section of metrics reads the parts of the node
(`odradek.node.metrics`), and rates and percentiles are computed when somebody asks for them
(`Registry.values`).

Metrics that Apache Kafka does not have are MBeans of the domain `odradek`. Their names are the same
in all spellings (`odradek.telemetry.names`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from odradek.telemetry.histogram import Histogram

Tags = tuple[str, ...]
"""The values of a pattern's keys, in order."""
Value = int | float | str | Histogram
"""A histogram or timer has a `Histogram`, the text of a state a str, everything else a number."""
Row = tuple[Tags, Value]


class Kind(Enum):
    """The attributes of an MBean."""

    VALUE = "value"
    """One attribute, which goes up and down."""
    COUNT = "count"
    """One attribute, which only grows."""
    RATE = "rate"
    """One attribute: the rate of events, averaged over a minute. The values of the rows are counts."""
    METER = "meter"
    """`Count` of events, and their rates."""
    HISTOGRAM = "histogram"
    """`Count`, `Mean`, `Max` and percentiles of values."""
    TIMER = "timer"
    """A meter and the histogram of the durations in ms."""


class MBean(NamedTuple):
    """The object name of an MBean, or a pattern of it."""

    domain: str
    """For example `kafka.server`."""
    type: str
    name: str
    """Empty if the MBean has no name: then the attributes have the names of the metrics."""
    fixed: tuple[tuple[str, str], ...]
    """Further properties that have a value in the pattern."""
    keys: tuple[str, ...]
    """Keys whose values differ between the MBeans of the pattern."""

    def object_name(self, tags: Tags = ()) -> str:
        """Return the object name, with the values of the keys."""
        properties = [("type", self.type)]
        if self.name:
            properties.append(("name", self.name))
        properties += [*self.fixed, *zip(self.keys, tags, strict=True)]
        return f"{self.domain}:{','.join(f'{key}={value}' for key, value in properties)}"

    @property
    def pattern(self) -> str:
        """The pattern with `*` for each key."""
        return self.object_name(("*",) * len(self.keys))


@lru_cache(maxsize=1024)
def parse(pattern: str) -> MBean:
    """Return the MBean of a pattern, for example `kafka.log:type=Log,name=Size,topic=*`.

    Raises:
        ValueError: it is no pattern of object names.
    """
    domain, colon, rest = pattern.partition(":")
    pairs = [tuple(each.split("=", 1)) for each in rest.split(",")]
    if not colon or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{pattern} is no object name, such as kafka.server:type=Log,name=Size")
    properties: dict[str, str] = dict(pairs)  # type: ignore[arg-type]
    kind, name = properties.pop("type", ""), properties.pop("name", "")
    fixed = tuple(each for each in properties.items() if each[1] != "*")
    keys = tuple(key for key, value in properties.items() if value == "*")
    return MBean(domain, kind, name, fixed, keys)


class Metric(NamedTuple):
    """The values of all MBeans of one pattern."""

    mbean: MBean
    kind: Kind
    attribute: str
    """The attribute of a VALUE or COUNT; empty for the others, which have several."""
    documentation: str
    rows: Iterable[Row]
    per_second: float = 1.0
    """Rates of a meter are divided by this number. Apache Kafka counts idle time in nanoseconds, and
    its rate is the share of the time that was idle."""


def gauge(pattern: str, text: str, rows: Iterable[Row]) -> Metric:
    """Return the attribute `Value` of the MBeans of a pattern."""
    return Metric(parse(pattern), Kind.VALUE, "Value", text, rows)


def meter(pattern: str, text: str, rows: Iterable[Row], per_second: float = 1.0) -> Metric:
    """Return meters. The values of the rows are the counts."""
    return Metric(parse(pattern), Kind.METER, "", text, rows, per_second)


def histogram(pattern: str, text: str, rows: Iterable[Row]) -> Metric:
    """Return histograms."""
    return Metric(parse(pattern), Kind.HISTOGRAM, "", text, rows)


def timer(pattern: str, text: str, rows: Iterable[Row]) -> Metric:
    """Return timers: histograms of durations in ms."""
    return Metric(parse(pattern), Kind.TIMER, "", text, rows)


def attribute(pattern: str, name: str, text: str, rows: Iterable[Row]) -> Metric:
    """Return one attribute of MBeans without a name, such as `raft-metrics`.

    An attribute whose name ends with `-total` only grows.
    """
    kind = Kind.COUNT if name.endswith("-total") else Kind.VALUE
    return Metric(parse(pattern), kind, name, text, rows)


def rate(pattern: str, name: str, text: str, rows: Iterable[Row]) -> Metric:
    """Return an attribute that is the rate of events per second. The rows have the counts."""
    return Metric(parse(pattern), Kind.RATE, name, text, rows)


def own(name: str, text: str, rows: Iterable[Row], *keys: str) -> Metric:
    """Return a metric that Apache Kafka does not have, with its full name. It goes up and down."""
    return Metric(MBean("odradek", name, "", (), keys), Kind.VALUE, "", text, rows)


def own_count(name: str, text: str, rows: Iterable[Row], *keys: str) -> Metric:
    """Return a metric that Apache Kafka does not have, with its full name. It only grows."""
    return Metric(MBean("odradek", name, "", (), keys), Kind.COUNT, "", text, rows)


def one(value: Value) -> list[Row]:
    """Return the only row of a pattern without keys."""
    return [((), value)]


METER_ATTRIBUTES = ("Count", "MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")
PERCENTILES = {
    "50thPercentile": 0.5,
    "75thPercentile": 0.75,
    "95thPercentile": 0.95,
    "98thPercentile": 0.98,
    "99thPercentile": 0.99,
    "999thPercentile": 0.999,
}
HISTOGRAM_ATTRIBUTES = ("Count", "Min", "Max", "Mean", "StdDev", *PERCENTILES)


def attributes(metric: Metric) -> Iterator[str]:
    """Yield the names of the attributes that the MBeans of a metric have."""
    match metric.kind:
        case Kind.METER:
            yield from METER_ATTRIBUTES
        case Kind.HISTOGRAM:
            yield from HISTOGRAM_ATTRIBUTES
        case Kind.TIMER:
            yield from METER_ATTRIBUTES
            yield from HISTOGRAM_ATTRIBUTES[1:]
        case _:
            yield metric.attribute
