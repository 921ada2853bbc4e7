"""How the exporter for Prometheus spells MBeans and attributes (`odradek.metrics.names`).

Dashboards for Apache Kafka expect the names that published rules of the JMX exporter make:

- `total`: the rules among the examples of the JMX exporter, and those of Strimzi. A meter has the
  name without `PerSec` and with `_total`, for example `kafka_server_brokertopicmetrics_bytesin_total`.
  Where the two rule sets differ, both names are exported: `kafka_server_raft_metrics_…` and
  `kafka_server_raftmetrics_…`, `…idlepercent` and `…idle_percent`.
- `persec`: the rules of Confluent's monitoring stacks. Names keep `PerSec`, for example
  `kafka_server_brokertopicmetrics_bytesinpersec`, and names of labels are in lower case.
- `jmx`: the JMX exporter without rules, for example
  `kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec"}`. All attributes are exported.

A spelling is a function from a metric to the families in which its attributes are exported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.telemetry.mbeans import PERCENTILES, Kind, MBean, Metric, attributes

_COUNTER, _GAUGE, _SUMMARY, _UNTYPED = "counter", "gauge", "summary", "untyped"
OWN_DOMAIN = "odradek"
_RAFT = ("raft-metrics", "raft-channel-metrics", "broker-metadata-metrics")
_QUOTAS = ("Produce", "Fetch", "Request", "ControllerMutation")
_SOCKETS = "socket-server-metrics"
_STATE = "current-state"
_per_second = re.compile(r"PerSec\w*$")
_percent = re.compile(r"Percent\w*$")
_unsafe = re.compile(r"[^a-zA-Z0-9_]")

SUM = "Sum"
"""Attribute of histograms that Apache Kafka does not have: the sum of all values."""


class Exposed(NamedTuple):
    """One attribute of a metric in one family."""

    family: str
    kind: str
    """The type of the family: counter, gauge, summary or untyped."""
    attribute: str
    labels: tuple[str, ...]
    """The names of the labels, whose values are the tags of the row."""
    suffix: str = ""
    fixed: tuple[tuple[str, str], ...] = ()
    """Labels with the same value in all rows."""
    text_label: str = ""
    """The label that has the value, if the value is text. Then the sample is 1."""
    summed_over: str = ""
    """A key that the labels omit: the values of rows that differ only in it are added."""


Spelling = Callable[[Metric], Iterator[Exposed]]


def _safe(*parts: str) -> str:
    return _unsafe.sub("_", "_".join(parts))


def _lower(*parts: str) -> str:
    return _safe(*parts).lower()


def _labels(mbean: MBean) -> tuple[str, ...]:
    return tuple(map(_safe, mbean.keys))


def _quantile(attribute: str) -> tuple[str, str]:
    return "quantile", "0." + attribute.removesuffix("thPercentile")


def _own(metric: Metric) -> Exposed:
    is_count = metric.kind is Kind.COUNT
    kind = _COUNTER if is_count else _GAUGE
    return Exposed(metric.mbean.type, kind, "", metric.mbean.keys, "_total" if is_count else "")


def total(metric: Metric) -> Iterator[Exposed]:
    """Spell a metric as the examples of the JMX exporter and Strimzi do."""
    mbean, kind = metric.mbean, metric.kind
    if mbean.domain == OWN_DOMAIN:
        yield _own(metric)
        return
    labels, fixed = _labels(mbean), mbean.fixed
    prefix = _lower(mbean.domain, mbean.type)
    if not mbean.name:
        yield from _total_attribute(metric, prefix, labels)
    elif kind is Kind.METER:
        name, found = _per_second.subn("", mbean.name)
        family, suffix = f"{prefix}_{_lower(name)}", "_total" if found else "_count"
        if found:
            yield Exposed(family, _COUNTER, "Count", labels, suffix, fixed)
        else:
            yield Exposed(family + suffix, _COUNTER, "Count", labels, "", fixed)
        if _percent.search(mbean.name):
            name = f"{prefix}_{_lower(_percent.sub('', mbean.name))}_percent"
            yield Exposed(name, _GAUGE, "MeanRate", labels, "", fixed)
    elif kind in {Kind.HISTOGRAM, Kind.TIMER}:
        family = f"{prefix}_{_lower(mbean.name)}"
        for each in PERCENTILES:
            yield Exposed(family, _SUMMARY, each, labels, "", (*fixed, _quantile(each)))
        yield Exposed(family, _SUMMARY, "Count", labels, "_count", fixed)
        yield Exposed(family, _SUMMARY, SUM, labels, "_sum", fixed)
    else:
        family = f"{prefix}_{_lower(mbean.name)}"
        yield Exposed(family, _GAUGE, metric.attribute, labels, "", fixed)
        if _percent.search(mbean.name):
            name = f"{prefix}_{_lower(_percent.sub('', mbean.name))}_percent"
            yield Exposed(name, _GAUGE, metric.attribute, labels, "", fixed)


def _total_attribute(metric: Metric, prefix: str, labels: tuple[str, ...]) -> Iterator[Exposed]:
    """Spell one attribute of an MBean without a name."""
    mbean, name, fixed = metric.mbean, metric.attribute, metric.mbean.fixed
    kind = _COUNTER if metric.kind is Kind.COUNT else _GAUGE
    prefixes = [prefix]
    if mbean.type in _RAFT:
        prefixes.append(_lower(mbean.domain, mbean.type.replace("-", "")))
    if name == _STATE:
        for each, label in zip(prefixes, ("state", "current_state"), strict=False):
            yield Exposed(f"{each}_current_state", _GAUGE, name, labels, "", fixed, label)
        yield Exposed(f"{prefix}_current_state_info", _GAUGE, name, labels, "", fixed, "state")
        return
    for each in prefixes:
        yield _numbered(f"{each}_{_lower(name)}", kind, name, labels, fixed)
    if mbean.type in _QUOTAS and mbean.keys:
        resource = (*fixed, ("resource", mbean.type))
        yield _numbered(f"kafka_server_quota_{_lower(name)}", kind, name, labels, resource)


def _numbered(
    name: str,
    kind: str,
    attribute: str,
    labels: tuple[str, ...],
    fixed: tuple[tuple[str, str], ...],
) -> Exposed:
    """Return an attribute; the family of a counter has its name without `_total`."""
    suffix = "_total" if kind == _COUNTER and name.endswith("_total") else ""
    return Exposed(name.removesuffix(suffix), kind, attribute, labels, suffix, fixed)


_RATED_TOPICS = re.compile(
    r"(MessagesIn|BytesIn|BytesOut|TotalProduceRequests|TotalFetchRequests)PerSec"
)
_RATED_ALL_TOPICS = re.compile(r"(MessagesIn|BytesIn|BytesOut)PerSec")
_WINDOWED = ("OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")


def per_second(metric: Metric) -> Iterator[Exposed]:
    """Spell a metric as Confluent's monitoring stacks do."""
    mbean, kind = metric.mbean, metric.kind
    if mbean.domain == OWN_DOMAIN:
        yield _own(metric)
        return
    labels = tuple(map(_lower, mbean.keys))
    prefix = _lower(mbean.domain, mbean.type)
    if mbean.type == _SOCKETS:
        prefix = "kafka_server_socketservermetrics"
        labels = tuple(
            "network_processor" if each == "networkprocessor" else each for each in labels
        )
    fixed = tuple((_lower(key), value) for key, value in mbean.fixed)
    if not mbean.name:
        name = f"{prefix}_{_lower(metric.attribute)}"
        text = "state" if metric.attribute == _STATE else ""
        yield Exposed(name, _UNTYPED, metric.attribute, labels, "", fixed, text)
        return
    family = f"{prefix}_{_lower(mbean.name)}"
    if kind in {Kind.METER, Kind.HISTOGRAM, Kind.TIMER}:
        yield Exposed(family, _UNTYPED, "Count", labels, "", fixed)
        yield from _rated(mbean, family, labels)
        if kind is not Kind.METER:
            for each in PERCENTILES:
                yield Exposed(family, _UNTYPED, each, labels, "", (*fixed, _quantile(each)))
    else:
        yield Exposed(family, _UNTYPED, metric.attribute, labels, "", fixed)


def _rated(mbean: MBean, family: str, labels: tuple[str, ...]) -> Iterator[Exposed]:
    """Yield the moving averages of a meter that these rules export."""
    if mbean.type == "BrokerTopicMetrics":
        if mbean.keys == ("topic",) and _RATED_TOPICS.fullmatch(mbean.name):
            for each in _WINDOWED:
                yield Exposed(f"{family}_{each.lower()}", _GAUGE, each, labels)
        elif not mbean.keys and _RATED_ALL_TOPICS.fullmatch(mbean.name):
            for each in _WINDOWED:
                yield Exposed(f"{family}_{each.lower()}_alltopics", _GAUGE, each, labels)
    elif mbean.name == "RequestHandlerAvgIdlePercent":
        yield Exposed(f"{family}_oneminuterate", _GAUGE, "OneMinuteRate", labels)
    elif mbean.name == "RequestsPerSec":
        for each in _WINDOWED:
            yield Exposed(
                f"{family}_{each.lower()}", _GAUGE, each, ("request",), summed_over="version"
            )


def jmx(metric: Metric) -> Iterator[Exposed]:
    """Spell a metric as the JMX exporter does without rules."""
    mbean = metric.mbean
    if mbean.domain == OWN_DOMAIN:
        yield _own(metric)
        return
    labels = _labels(mbean)
    fixed = tuple((_safe(key), value) for key, value in mbean.fixed)
    if mbean.name:
        fixed = (("name", mbean.name), *fixed)
    for each in attributes(metric):
        # Newer versions of the exporter reserve the ending for counters, which have a rule.
        name = _safe(mbean.domain, mbean.type, each).removesuffix("_total")
        text = "state" if each == _STATE else ""
        yield Exposed(name, _UNTYPED, each, labels, "", fixed, text)


SPELLINGS: dict[str, Spelling] = {"total": total, "persec": per_second, "jmx": jmx}
"""The spellings by the values of `odradek.metrics.names`."""
