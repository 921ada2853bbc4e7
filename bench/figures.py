"""Measured quantities of both brokers: values by round, medians, ratios of medians, and limits."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

OURS, THEIRS = "ours", "theirs"
Sample = dict[str, float]
"""The values of one round, by the name of the quantity."""


@dataclass(frozen=True)
class Quantity:
    """A quantity with its name and unit. `limit` is the limit of the ratio ours / theirs."""

    name: str
    unit: str
    limit: float | None = None
    higher_is_better: bool = False
    primary: bool = True
    """False for a quantity that is only additional information."""
    most: float | None = None
    """The maximum value of Odradek. It does not depend on the value of Apache Kafka."""

    def for_pure_build(self) -> Quantity:
        """Return this quantity for a package that is not compiled. The limit of the ratio is 1."""
        return self if self.limit is None else replace(self, limit=1.0)

    def holds(self, ratio: float) -> bool:
        """Return whether a ratio keeps the limit."""
        if self.limit is None:
            return True
        return ratio >= self.limit if self.higher_is_better else ratio <= self.limit

    @property
    def limits(self) -> str:
        """The limits as text; empty if there is no limit."""
        sign = "≥" if self.higher_is_better else "≤"
        limits = [] if self.limit is None else [f"{sign} {self.limit:.3g}"]
        if self.most is not None:
            unit = "(Odradek)" if self.unit in ("", "times") else self.unit
            limits.append(f"≤ {self.most:g} {unit}")
        return ", ".join(limits)


@dataclass
class Figure:
    """The values of a quantity, with one value for each round and broker."""

    bench: str
    quantity: Quantity
    values: dict[str, list[float]] = field(default_factory=dict)
    unfinished: dict[str, list[str]] = field(default_factory=dict)
    """By broker, what was missing in each round that did not end within its time limit. The value of
    such a round is the time limit."""

    def add(self, role: str, value: float, missing: str = "") -> None:
        """Add the value of a round. `missing` is not empty if the round did not end in time."""
        self.values.setdefault(role, []).append(value)
        if missing:
            self.unfinished.setdefault(role, []).append(missing)

    def is_bound(self, role: str) -> bool:
        """Whether the median is only a lower bound, because too many rounds did not end in time."""
        unfinished = len(self.unfinished.get(role, []))
        return unfinished > 0 and unfinished * 2 >= len(self.values[role])

    def median(self, contender: str) -> float | None:
        """Return the median of all rounds; None if the broker was not measured."""
        values = self.values.get(contender)
        return statistics.median(values) if values else None

    @property
    def ratio(self) -> float | None:
        """The median of Odradek divided by the median of Apache Kafka; None if one is missing.

        If the median of Apache Kafka is a lower bound, the ratio is an upper bound. If the median of
        Odradek is a lower bound, there is no ratio.
        """
        ours, theirs = self.median(OURS), self.median(THEIRS)
        if ours is None or not theirs or self.is_bound(OURS):
            return None
        return ours / theirs

    @property
    def verdict(self) -> str:
        """`kept` or `MISSED`; empty if there is no limit."""
        ours, most = self.median(OURS), self.quantity.most
        kept = []
        if self.quantity.limit is not None and self.ratio is not None:
            kept.append(self.quantity.holds(self.ratio))
        if self.quantity.limits and self.is_bound(OURS):
            kept.append(False)
        if most is not None and ours is not None:
            kept.append(ours <= most)
        return ("kept" if all(kept) else "MISSED") if kept else ""

    def spread(self, contender: str) -> float:
        """Return the range of the values divided by the median, which shows the noise."""
        values = self.values.get(contender) or [0.0]
        middle = statistics.median(values)
        return (max(values) - min(values)) / middle if middle else 0.0

    def as_json(self) -> dict[str, object]:
        """Return a line of the stored results."""
        return {
            "kind": "figure",
            "bench": self.bench,
            "name": self.quantity.name,
            "unit": self.quantity.unit,
            "ours": self.median(OURS),
            "theirs": self.median(THEIRS),
            "ratio": self.ratio,
            "limit": self.quantity.limit,
            "most": self.quantity.most,
            "higher_is_better": self.quantity.higher_is_better,
            "primary": self.quantity.primary,
            "rounds": self.values,
            **({"unfinished": self.unfinished} if self.unfinished else {}),
        }

    def shown(self, role: str, number: Callable[[float | None], str]) -> str:
        """Return the median as text, or what was missing at the time limit."""
        text = number(self.median(role))
        if not self.is_bound(role):
            return text
        unit = f" {self.quantity.unit}" if self.quantity.unit else ""
        return f"not within {text}{unit}; {self.unfinished[role][0]}"

    def shown_ratio(self, number: Callable[[float | None], str]) -> str:
        """Return the ratio as text, with a `<` if it is an upper bound."""
        is_bound = self.ratio is not None and self.is_bound(THEIRS)
        return ("< " if is_bound else "") + number(self.ratio)


def table(figures: Sequence[Figure], names: dict[str, str]) -> str:
    """Return a table of the figures: medians, ratio, limit, verdict and spread of the rounds."""
    head = ["bench", "figure", "unit", names[OURS], names[THEIRS], "ratio", "limit", "", "spread"]
    rows = [head]
    for figure in figures:
        quantity = figure.quantity
        rows.append(
            [
                figure.bench,
                quantity.name,
                quantity.unit,
                figure.shown(OURS, _shown),
                figure.shown(THEIRS, _shown),
                figure.shown_ratio(_shown),
                quantity.limits,
                figure.verdict,
                f"{figure.spread(OURS):.0%} {figure.spread(THEIRS):.0%}",
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
