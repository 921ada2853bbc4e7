"""Draws the delays of every hour of the year, and their relation to the weather."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

NEW_YORK = "America/New_York"
FIRST_HOUR = 5
"""The first hour shown. Hardly any flight leaves earlier."""
DELAY_MAX = 90
"""The delay in minutes that has the darkest colour."""
FLIGHTS_MIN = 5
"""Hours with fewer flights are not coloured, because their mean is not significant."""

INK, QUIET, PAPER = "#22223b", "#6c6f85", "#fbfaf7"
COLOURS = LinearSegmentedColormap.from_list(
    "delay", ["#eef1f0", "#f6e3b4", "#f2b35e", "#e0653a", "#a3203b", "#4a0f3a"]
)
AIRPORTS = {"EWR": "#2a6f97", "JFK": "#e07a5f", "LGA": "#81a88d"}
WEATHER = ["fair", "wind", "fog", "rain", "snow and ice"]
NOTES = {
    "2013-02-08": "Winter storm\nNemo",
    "2013-03-08": "March\nsnow",
    "2013-07-10": "Summer of\nthunderstorms",
    "2013-12-09": "December\nsnow and fog",
}
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


def draw(results: pd.DataFrame, path: Path) -> None:
    """Draw the results (columns of `pipeline.DELAYS`) and save the picture at `path`."""
    local = results["hour"].dt.tz_convert(NEW_YORK)
    results = results.assign(
        day=local.dt.tz_localize(None).dt.floor("D"),
        clock=local.dt.hour,
        departed=results["flights"] - results["cancelled"],
    )
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.10, h_pad=0.07)
        figure = Figure(figsize=(15, 8.6), dpi=120, layout=layout)
        grid = figure.add_gridspec(3, 2, width_ratios=[3.4, 1], height_ratios=[0.14, 3, 1.05])
        _title(figure.add_subplot(grid[0, :]), results)
        heat = figure.add_subplot(grid[1, 0])
        _heat_map(figure, heat, results)
        _cancellations(figure.add_subplot(grid[2, 0], sharex=heat), results)
        _weather(figure.add_subplot(grid[1, 1]), results)
        _day(figure.add_subplot(grid[2, 1]), results)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def _title(axes: Axes, results: pd.DataFrame) -> None:
    axes.axis("off")
    flights, late = int(results["flights"].sum()), int(results["late15"].sum())
    axes.text(0, 0.75, "A year of waiting in New York", fontsize=21, weight="bold", va="center")
    axes.text(
        0,
        -1.05,
        f"{flights:,} flights of 2013 from EWR, JFK and LGA, streamed through a broker and "
        f"aggregated by Spark. {late / flights:.0%} left 15 minutes late or more.",
        color=QUIET,
        va="center",
    )


def _heat_map(figure: Figure, axes: Axes, results: pd.DataFrame) -> None:
    """Draw the mean delay by day and hour of the day."""
    cells = results.groupby(["clock", "day"])[["delay_minutes", "departed"]].sum()
    mean = _mean_delay(cells).where(cells["departed"] >= FLIGHTS_MIN)
    days = pd.date_range(results["day"].min(), results["day"].max(), freq="D")
    table = mean.unstack("day").reindex(index=range(24), columns=days)
    edges = [_number(day) for day in (*days, days[-1] + timedelta(days=1))]
    mesh = axes.pcolormesh(
        edges, np.arange(25), table.to_numpy(float), cmap=COLOURS, vmin=0, vmax=DELAY_MAX
    )
    axes.set_ylim(24, FIRST_HOUR)
    axes.set_yticks(range(6, 25, 3), [f"{hour % 24:02d}:00" for hour in range(6, 25, 3)])
    axes.set_ylabel("hour of departure, New York time")
    _months(axes, days)
    axes.tick_params(axis="x", labelbottom=False)
    for day, text in NOTES.items():
        if days[0] <= pd.Timestamp(day) <= days[-1]:
            axes.annotate(
                text,
                (_number(pd.Timestamp(day)), FIRST_HOUR),
                xytext=(0, 10),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
                color=INK,
                arrowprops={
                    "arrowstyle": "-",
                    "color": QUIET,
                    "lw": 0.8,
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
            )
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=38, extend="max")
    bar.set_label("mean delay, minutes")
    bar.outline.set_visible(False)


def _mean_delay(sums: pd.DataFrame) -> pd.Series:
    """Return the mean delay of departed flights in minutes."""
    return sums["delay_minutes"] / sums["departed"].where(sums["departed"] > 0)


def _number(day: pd.Timestamp) -> float:
    """Return a day as a matplotlib date number."""
    return float((day - pd.Timestamp(0)) / timedelta(days=1))


def _months(axes: Axes, days: pd.DatetimeIndex) -> None:
    middles = [day for day in days if day.day == 15]
    axes.set_xticks([_number(day) for day in middles], [f"{day:%b}" for day in middles])
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(_number(days[0]), _number(days[-1]) + 1)


def _cancellations(axes: Axes, results: pd.DataFrame) -> None:
    """Draw the cancelled flights by day, stacked by airport."""
    table = results.pivot_table(
        index="day", columns="origin", values="cancelled", aggfunc="sum", fill_value=0
    )
    bottom: NDArray[np.float64] = np.zeros(len(table))
    for airport, colour in AIRPORTS.items():
        if airport in table:
            axes.bar(table.index, table[airport], 1.0, bottom, color=colour, label=airport)
            bottom = bottom + table[airport].to_numpy(float)
    axes.set_ylabel("cancelled a day")
    axes.tick_params(axis="x", length=0)
    axes.legend(frameon=False, ncols=3, loc="upper center", labelcolor=QUIET)
    axes.grid(axis="y", color="#e6e3dc", linewidth=0.8)
    axes.set_axisbelow(True)


def _weather(axes: Axes, results: pd.DataFrame) -> None:
    """Draw the mean delay by weather: a point for each airport, and a line between the points."""
    sums = results.groupby(["weather", "origin"])[["delay_minutes", "departed"]].sum()
    mean = _mean_delay(sums).unstack("origin")
    totals = results.groupby("weather")["flights"].sum()
    kinds = [kind for kind in WEATHER if kind in mean.index]
    for row, kind in enumerate(kinds):
        values = mean.loc[kind].dropna()
        axes.plot([values.min(), values.max()], [row, row], color="#d5d3cd", lw=5, zorder=1)
        for airport, value in values.items():
            axes.scatter(value, row, s=90, color=AIRPORTS.get(airport, INK), zorder=2)
        axes.text(0.4, row + 0.28, f"{totals[kind]:,} flights", fontsize=8, color=QUIET)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=11)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("mean delay, minutes")
    axes.set_title("By weather at departure", loc="left", fontsize=12, weight="bold")
    axes.grid(axis="x", color="#e6e3dc", linewidth=0.8)
    axes.spines["left"].set_visible(False)


def _day(axes: Axes, results: pd.DataFrame) -> None:
    """Draw the mean delay by hour of the day and airport."""
    sums = results.groupby(["origin", "clock"])[["delay_minutes", "departed"]].sum()
    mean = _mean_delay(sums[sums["departed"] >= 100])
    for airport, colour in AIRPORTS.items():
        if airport in mean.index:
            curve = mean.loc[airport].loc[FIRST_HOUR:22]
            axes.plot(curve.index, curve.to_numpy(), color=colour, lw=2.2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda hour, _: f"{int(hour):02d}"))
    axes.set_xticks([6, 10, 14, 18, 22])
    axes.set_ylim(bottom=0)
    axes.set_ylabel("minutes")
    axes.set_title("By hour of departure", loc="left", fontsize=12, weight="bold")
    axes.grid(axis="y", color="#e6e3dc", linewidth=0.8)
