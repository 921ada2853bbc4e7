"""The table of `bench.spark` in docs/benchmarks.md.

A row has a job and a distribution of sizes, and its values are for the codecs none, lz4 and zstd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench.figures import OURS, THEIRS, Figure

ROWS, CPU = ", rows", ", CPU"
HEAD = (
    "job",
    "sizes",
    "M rows/s",
    "Spark's",
    "ratio",
    "limit",
    "CPU, µs/row",
    "Spark's",
    "ratio",
    "limit",
)


def spark_table(figures: Sequence[Figure], link: str) -> str:
    """Return the table of a result. `link` is a link to the result."""
    rows: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures:
        job, sizes = _named(figure)
        rows.setdefault((job, sizes), []).append(figure)
    lines = [f"| {' | '.join(HEAD)} |", "| --- " * len(HEAD) + "|"]
    for (job, sizes), several in rows.items():
        cells = [job, sizes]
        for kind in (ROWS, CPU):
            cells += _cells([each for each in several if each.quantity.name.endswith(kind)])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\nResult: {link}\n"


def _named(figure: Figure) -> tuple[str, str]:
    """Return the job and the sizes in the name of a figure."""
    job, *sizes_and_codec = figure.quantity.name.removesuffix(ROWS).removesuffix(CPU).split(", ")
    return job, sizes_and_codec[0] if sizes_and_codec else "–"


def _cells(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the values of both, their ratios, and the limit. A ratio that misses it is bold."""
    for role in (OURS, THEIRS):
        yield _joined(figures, lambda each, role=role: _number(each.median(role)))  # type: ignore[misc]
    yield _joined(figures, _ratio)
    yield figures[0].quantity.limits or "–"


def _joined(figures: Sequence[Figure], text: Callable[[Figure], str]) -> str:
    return " / ".join(text(each) for each in figures)


def _ratio(figure: Figure) -> str:
    text = "–" if figure.ratio is None else f"{figure.ratio:.2f}"
    return f"**{text}**" if figure.verdict == "MISSED" else text


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
