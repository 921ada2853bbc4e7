"""A measured quantity of both brokers: values by round, medians, their ratio, its limit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

OURS, THEIRS = "ours", "theirs"
Sample = dict[str, float]
"""What one round gave: figure name to value."""


@dataclass(frozen=True)
class Quantity:
    """A quantity: its name, its unit, and the limit of the ratio ours / theirs, if there is one."""

    name: str
    unit: str
    limit: float | None = None
    higher_is_better: bool = False
    primary: bool = True
    """False for a figure that is only information."""
    most: float | None = None
    """The largest value of ours that keeps the limit, whatever the other one needs."""

    def for_pure_build(self) -> Quantity:
        """The same with the limits of a package that is not compiled: no worse than the other."""
        return self if self.limit is None else replace(self, limit=1.0)

    def holds(self, ratio: float) -> bool:
        """Whether a ratio keeps the limit."""
        if self.limit is None:
            return True
        return ratio >= self.limit if self.higher_is_better else ratio <= self.limit

    @property
    def limits(self) -> str:
        """The limits in words; empty if there is none."""
        sign = "≥" if self.higher_is_better else "≤"
        told = [] if self.limit is None else [f"{sign} {self.limit:.3g}"]
        told += [] if self.most is None else [f"≤ {self.most:g} {self.unit}"]
        return ", ".join(told)


@dataclass
class Figure:
    """The values of a quantity: one for each round and broker."""

    bench: str
    quantity: Quantity
    values: dict[str, list[float]] = field(default_factory=dict)

    def median(self, contender: str) -> float | None:
        """The median over the rounds; None where that broker was not measured."""
        values = self.values.get(contender)
        return statistics.median(values) if values else None

    @property
    def ratio(self) -> float | None:
        """Ours to theirs."""
        ours, theirs = self.median(OURS), self.median(THEIRS)
        if ours is None or not theirs:
            return None
        return ours / theirs

    @property
    def verdict(self) -> str:
        """Whether the limits are kept, in a word; empty where there is none."""
        ours, most = self.median(OURS), self.quantity.most
        kept = []
        if self.quantity.limit is not None and self.ratio is not None:
            kept.append(self.quantity.holds(self.ratio))
        if most is not None and ours is not None:
            kept.append(ours <= most)
        return ("kept" if all(kept) else "MISSED") if kept else ""

    def spread(self, contender: str) -> float:
        """The distance of the extremes over the median: the noise of the rounds."""
        values = self.values.get(contender) or [0.0]
        middle = statistics.median(values)
        return (max(values) - min(values)) / middle if middle else 0.0

    def as_json(self) -> dict[str, object]:
        """A line of the stored result."""
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
        }


def table(figures: Sequence[Figure], names: dict[str, str]) -> str:
    """All figures: medians of both, ratio, limit, verdict, spread of the rounds."""
    head = ["bench", "figure", "unit", names[OURS], names[THEIRS], "ratio", "limit", "", "spread"]
    rows = [head]
    for figure in figures:
        quantity = figure.quantity
        rows.append(
            [
                figure.bench,
                quantity.name,
                quantity.unit,
                _shown(figure.median(OURS)),
                _shown(figure.median(THEIRS)),
                _shown(figure.ratio),
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
