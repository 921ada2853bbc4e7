"""Writes metrics in the text format of Prometheus (version 0.0.4).

A node with ten thousand partitions has hundreds of thousands of samples. Therefore the text is
written directly, without an object for each sample, and the text of the labels of a partition is
made once for all its metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import islice

from odradek.telemetry.histogram import Histogram
from odradek.telemetry.mbeans import Kind, Metric, Row, Tags
from odradek.telemetry.names import SUM, Exposed, Spelling
from odradek.telemetry.registry import Registry

ROWS_AT_ONCE = 500
"""After so many rows, other threads may run."""

_escapes = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def _nothing() -> None:
    """Let nobody else run."""


class Exposition:
    """The text of all metrics of a registry."""

    def __init__(
        self,
        registry: Registry,
        spelling: Spelling,
        names: Container[str] | None = None,
        breathe: Callable[[], None] = _nothing,
    ) -> None:
        """`names` are the names of the samples to write; None writes all.

        `breathe` is called now and then, so that other threads can run.
        """
        self._registry = registry
        self._spelling = spelling
        self._names = names
        self._breathe = breathe
        self._families: dict[str, list[str]] = {}
        """The lines of each family. Metrics with different tags may have the same family."""
        self._labels: dict[tuple[str, ...], dict[Tags, str]] = {}
        """The texts of labels, by the names of the labels and then by their values."""

    def text(self) -> str:
        """Return the lines of all families."""
        for metric in self._registry.metrics():
            for exposed in self._spelling(metric):
                name = exposed.family + exposed.suffix
                if self._names is None or name in self._names:
                    self._write(metric, exposed, name)
        return "".join(line for lines in self._families.values() for line in lines)

    def _write(self, metric: Metric, exposed: Exposed, name: str) -> None:
        lines = self._families.get(exposed.family)
        if lines is None:
            lines = self._families[exposed.family] = _header(exposed, metric.documentation)
        rows = iter(self._rows(metric, exposed))
        if metric.kind in {Kind.VALUE, Kind.COUNT} and not exposed.text_label:
            samples = self._numbers(name, exposed, rows)
        else:
            samples = self._computed(name, metric, exposed, rows)
        while part := list(islice(samples, ROWS_AT_ONCE)):
            lines += part
            if len(part) == ROWS_AT_ONCE:
                self._breathe()

    def _rows(self, metric: Metric, exposed: Exposed) -> Iterator[Row]:
        """Yield the rows of a metric, without a key that the labels omit."""
        if not exposed.summed_over:
            yield from metric.rows
            return
        at = metric.mbean.keys.index(exposed.summed_over)
        sums: dict[Tags, float] = {}
        for tags, value in metric.rows:
            assert isinstance(value, int | float), "counts are added"
            rest = tags[:at] + tags[at + 1 :]
            sums[rest] = sums.get(rest, 0) + value
        yield from sums.items()

    def _numbers(self, name: str, exposed: Exposed, rows: Iterator[Row]) -> Iterator[str]:
        known = self._known(exposed)
        start, end = _around(name, exposed)
        for tags, value in rows:
            pairs = known.get(tags)
            if pairs is None:
                pairs = known[tags] = _pairs(exposed.labels, tags)
            yield f"{start}{pairs}{end}{value}\n"

    def _computed(
        self, name: str, metric: Metric, exposed: Exposed, rows: Iterator[Row]
    ) -> Iterator[str]:
        known = self._known(exposed)
        for row in rows:
            tags, value = row
            if exposed.attribute == SUM:
                assert isinstance(value, Histogram), "histograms have sums"
                number: int | float | str = value.sum * value.scale
            else:
                number = self._registry.value(metric, exposed.attribute, row)
            pairs = known.get(tags)
            if pairs is None:
                pairs = known[tags] = _pairs(exposed.labels, tags)
            if exposed.text_label:
                text = (*exposed.fixed, (exposed.text_label, str(number)))
                start, end = _around(name, exposed._replace(fixed=text))
                number = 1
            else:
                start, end = _around(name, exposed)
            yield f"{start}{pairs}{end}{number}\n"

    def _known(self, exposed: Exposed) -> dict[Tags, str]:
        """Return the texts of the labels with these names, by their values."""
        known = self._labels.get(exposed.labels)
        if known is None:
            known = self._labels[exposed.labels] = {}
        return known


def _around(name: str, exposed: Exposed) -> tuple[str, str]:
    """Return what stands before and after the labels whose values differ."""
    fixed = ",".join(_pair(*each) for each in exposed.fixed)
    if not fixed and not exposed.labels:
        return name, " "
    comma = "," if fixed and exposed.labels else ""
    return name + "{", f"{comma}{fixed}}} "


def _pairs(names: tuple[str, ...], tags: Tags) -> str:
    return ",".join(map(_pair, names, tags))


def _pair(name: str, value: str) -> str:
    return f'{name}="{value.translate(_escapes)}"'


def _header(exposed: Exposed, documentation: str) -> list[str]:
    name = exposed.family
    if exposed.kind == "counter":
        name += exposed.suffix
    text = documentation.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {name} {text}\n# TYPE {name} {exposed.kind}\n"]
