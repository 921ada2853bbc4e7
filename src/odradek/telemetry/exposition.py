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
        """The text of labels, by the names of the labels and their values."""

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
        for tags, value in rows:
            label = known.get(tags)
            if label is None:
                label = self._label(exposed, tags)
            yield f"{name}{label} {value}\n"

    def _computed(
        self, name: str, metric: Metric, exposed: Exposed, rows: Iterator[Row]
    ) -> Iterator[str]:
        for row in rows:
            tags, value = row
            if exposed.attribute == SUM:
                assert isinstance(value, Histogram), "histograms have sums"
                number: int | float | str = value.sum * value.scale
            else:
                number = self._registry.value(metric, exposed.attribute, row)
            if exposed.text_label:
                text = (*exposed.fixed, (exposed.text_label, str(number)))
                yield f"{name}{_label_text(exposed.labels, tags, text)} 1\n"
            else:
                yield f"{name}{self._label(exposed, tags)} {number}\n"

    def _known(self, exposed: Exposed) -> dict[Tags, str]:
        key = (*exposed.labels, "", *(text for pair in exposed.fixed for text in pair))
        known = self._labels.get(key)
        if known is None:
            known = self._labels[key] = {}
        return known

    def _label(self, exposed: Exposed, tags: Tags) -> str:
        known = self._known(exposed)
        label = known.get(tags)
        if label is None:
            label = known[tags] = _label_text(exposed.labels, tags, exposed.fixed)
        return label


def _label_text(names: tuple[str, ...], tags: Tags, fixed: tuple[tuple[str, str], ...]) -> str:
    pairs = [*zip(names, tags, strict=True), *fixed]
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_escapes)}"' for name, value in pairs) + "}"


def _header(exposed: Exposed, documentation: str) -> list[str]:
    name = exposed.family
    if exposed.kind == "counter":
        name += exposed.suffix
    text = documentation.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {name} {text}\n# TYPE {name} {exposed.kind}\n"]
