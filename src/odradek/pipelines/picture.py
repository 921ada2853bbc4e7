"""Draws the results of a pipeline as a picture: bars, and lines over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from odradek.config import extras
from odradek.pipelines.places import Places

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

INK, QUIET, PAPER, RULE = "#22223b", "#6c6f85", "#fbfaf7", "#e6e3dc"
COLOURS = ("#2a6f97", "#e07a5f", "#81a88d", "#f2b35e", "#7d5ba6", "#6c6f85")
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": "#d5d3cd",
    "axes.facecolor": PAPER,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "figure.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
LABEL_LETTERS_MAX = 60


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each label, from the top to the bottom."""

    title: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over time, one for each name."""

    title: str
    series: Mapping[str, Sequence[tuple[datetime, float]]]


def draw(
    console: Console, places: Places, name: str, title: str, panels: Sequence[Bars | Lines]
) -> None:
    """Save the picture NAME.png in the output of the pipeline, and print its path."""
    if not panels:
        console.print("No picture: there are no results")
        return
    if extras.missing(["matplotlib"]):
        console.print(f"No picture: matplotlib is not installed ({extras.install(extras.DEMO)})")
        return
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 1.2 + 3.4 * len(panels)), dpi=110, layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=16, fontweight="bold")
        grid = figure.subplots(len(panels), 1, squeeze=False)
        for (axes,), panel in zip(grid, panels, strict=True):
            axes.set_title(_plain(panel.title), loc="left", fontsize=12)
            axes.set_axisbelow(True)
            if isinstance(panel, Bars):
                _bars(axes, panel)
            else:
                _lines(axes, panel)
        path = places.output / f"{name}.png"
        figure.savefig(path)
    console.print(f"Picture: {path}", highlight=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Return a text that is shortened, and that matplotlib takes for no formula."""
    return text[:LABEL_LETTERS_MAX].replace("$", r"\$")


def _bars(axes: Axes, panel: Bars) -> None:
    labels = [_plain(each) for each in panel.values]
    numbers = range(len(labels))
    axes.barh(numbers, list(panel.values.values()), color=COLOURS[0])
    axes.set_yticks(numbers, labels)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(axis="x", color=RULE, linewidth=0.8)


def _lines(axes: Axes, panel: Lines) -> None:
    for number, (name, points) in enumerate(panel.series.items()):
        times: Any = [at for at, _ in points]
        colour = COLOURS[number % len(COLOURS)]
        values = [value for _, value in points]
        axes.plot(times, values, color=colour, lw=1.6, label=_plain(name))
    if panel.series:
        axes.legend(frameon=False, loc="upper left", labelcolor=QUIET)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
