"""The tables of results in docs: `python -m bench.tables`.

Each row is computed from one stored result in bench/results, to which the row has a link.
`bench/results/shown.json` maps each benchmark to the result that is shown. `python -m bench.tables
--show FILE...` enters the benchmarks of these files there. A test in tests/tidy compares the tables
with the results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat.lab.toolchain import ROOT

from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.isolation import TIMES
from bench.proofs.table import long_tests_table
from bench.results import RESULTS
from bench.spark_table import spark_table

SHOWN = RESULTS / "shown.json"
"""Maps each benchmark to the name of a file in the same directory. The key of a benchmark that was
measured with `--mode pure` is `pure BENCHMARK`."""
PURE_PREFIX = "pure "
SPARK = "spark"
"""The benchmark that compares Spark's own connector, not Apache Kafka."""
DOCUMENT = ROOT / "docs" / "benchmarks.md"
LONG_TESTS_DOCUMENT = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- {}: made by `python -m bench.tables` -->", "<!-- end of {} -->"
SET_LATER = {("isolation", TIMES.name): TIMES}
"""Figures whose limit was set after results had been stored. The tables show the limit with a
mark if the stored result has no limit."""


@dataclass(frozen=True)
class Row:
    """A row of the first table of docs/benchmarks.md: some figures of one benchmark."""

    bench: str
    title: str
    figures: tuple[str, ...]
    command: str = ""
    """The command that measures the figures. If empty, it is `make bench ARGS=<bench>`."""

    @property
    def shown_command(self) -> str:
        return self.command or f"make bench ARGS={self.bench}"


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENTS = ("Java", "librdkafka", "franz-go")
ROWS = (
    Row(
        "varied",
        "produce, records of 40–160 B, CPU s per GB: none / gzip / snappy / lz4 / zstd",
        tuple(f"CPU, 40–160 B, {codec}" for codec in CODECS),
    ),
    Row(
        "varied",
        "produce, long-tailed sizes to 10 KB, CPU s per GB: none / gzip / snappy / lz4 / zstd",
        tuple(f"CPU, long-tailed to 10 KB, {codec}" for codec in CODECS),
    ),
    Row(
        "produce",
        "produce, records of 100 B / 1 KB / 10 KB, CPU s per GB",
        tuple(f"CPU, {size} B records" for size in (100, 1000, 10_000)),
    ),
    Row(
        "requests",
        "one record per request, CPU s per 100 000 requests",
        ("CPU per 100 000 requests",),
    ),
    Row(
        "clients",
        "produce with Java / librdkafka / franz-go, 6 partitions, CPU s per GB",
        tuple(f"produce with {client}" for client in CLIENTS),
    ),
    Row(
        "clients",
        "consume with Java / librdkafka / franz-go, CPU s per GB",
        tuple(f"consume with {client}" for client in CLIENTS),
    ),
    Row(
        "raw_fetch",
        "raw fetches of 1 MB, just written / after an hour of other work, CPU s per GB",
        ("CPU, just written", "CPU, after other work"),
        'make bench ARGS="raw_fetch --other-work-seconds 3600"',
    ),
    Row("consume", "consume with Java in fetches of 1 MB, CPU s per GB", ("CPU",)),
    Row("tools", "ConsumerPerformance, CPU s per GB", ("ConsumerPerformance, CPU",)),
    Row("tools", "ProducerPerformance, MB/s", ("ProducerPerformance",)),
    Row(
        "mixed_day",
        "mixed load for 20 s, CPU s / acknowledgement p99 in ms",
        ("CPU per 20 s of a mixed day", "acknowledgement, p99"),
    ),
    Row(
        "latency",
        "from send to receipt, one record at a time, p50 / p99 in ms",
        ("one at a time, p50", "one at a time, p99"),
    ),
    Row(
        "latency",
        "from send to receipt, 1 000 records a second, p50 / p99 in ms",
        ("1 000 a second, p50", "1 000 a second, p99"),
    ),
    Row(
        "transactions",
        "transactions a second / commit p99 in ms / CPU s per 1 000",
        ("transactions, unpaced", "commit, p99", "CPU per 1 000 transactions"),
    ),
    Row("memory", "memory after start, MB", ("idle",)),
    Row(
        "first_message",
        "start of the process to first acknowledgement, s",
        ("start to first acknowledgement",),
    ),
    Row(
        "recovery",
        "start with 20 GB in 1 000 partitions, after a crash / after a clean stop, s",
        ("unclean start", "clean start"),
        "python -m bench.recovery",
    ),
    Row(
        "scale",
        "start with 1 000 topics of 10 partitions, s / memory after it, MB",
        ("1000 × 10: start", "1000 × 10: memory, started"),
        "python -m bench.scale",
    ),
    Row(
        "isolation",
        "produce p99 under load (old records are read from disk, a log is compacted), ms / "
        "factor compared with no load",
        ("produce p99, beside", "p99 beside / quiet"),
        "python -m bench.isolation",
    ),
    Row(
        "compaction",
        "compaction of 10 M records with 1 M keys, none / lz4, MB/s",
        ("none, throughput", "lz4, throughput"),
        "python -m bench.compaction",
    ),
    Row(
        "failover",
        "leader of 1 / 5 000 partitions killed, until each has an acknowledged write, s",
        tuple(f"leader killed, {each} partitions" for each in (1, 5000)),
        "python -m bench.failover",
    ),
    Row(
        "failover",
        "controlled shutdown of the leader of 1 / 5 000 partitions, s",
        tuple(f"controlled shutdown, {each} partitions" for each in (1, 5000)),
        "python -m bench.failover",
    ),
    Row(
        "failover",
        "controller of 10 000 partitions killed, until a topic is created, s",
        ("controller killed, 10000 partitions",),
        "python -m bench.failover",
    ),
    Row(
        "replication",
        "three replicas, acks=all, records of 1 KB: CPU of all nodes, s per GB / p99 of acks, ms",
        ("CPU of all nodes", "p99 of acks"),
        "python -m bench.replication",
    ),
)


class Result:
    """A stored result."""

    def __init__(self, name: str) -> None:
        """Read a file in bench/results.

        Raises:
            FileNotFoundError: there is no such file.
        """
        self.name = name
        lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
        objects = [json.loads(line) for line in lines]
        self.machine: dict[str, Any] = objects[0]
        self.setup: dict[str, Any] = objects[1]
        self.figures = [_figure(each) for each in objects if each["kind"] == "figure"]

    @property
    def build(self) -> str:
        """`compiled` or `pure`."""
        build: str = self.setup.get("ours", {}).get("build", "pure")
        return build

    @property
    def link(self) -> str:
        """The commit, as a link to the result, relative to docs."""
        return f"[{self.machine['commit']}](../bench/results/{self.name})"

    def benches(self) -> list[str]:
        """Return the names of the benchmarks."""
        return list(dict.fromkeys(figure.bench for figure in self.figures))

    def of(self, bench: str) -> list[Figure]:
        """Return the figures of a benchmark."""
        return [figure for figure in self.figures if figure.bench == bench]

    def find(self, bench: str, name: str) -> Figure:
        """Return one figure.

        Raises:
            KeyError: there is no such figure.
        """
        for figure in self.of(bench):
            if figure.quantity.name == name:
                return figure
        raise KeyError(f"{self.name} has no figure {name!r} of {bench}")


def _figure(line: Mapping[str, Any]) -> Figure:
    quantity = Quantity(
        line["name"],
        line["unit"],
        line["limit"],
        higher_is_better=line["higher_is_better"],
        primary=line.get("primary", True),
        most=line.get("most"),
    )
    return Figure(line["bench"], quantity, line["rounds"], line.get("unfinished", {}))


def shown() -> dict[str, str]:
    """Return the content of `SHOWN`."""
    found: dict[str, str] = json.loads(SHOWN.read_text(encoding="utf-8"))
    return found


def show(names: Iterable[str]) -> None:
    """Enter these results in `SHOWN`, for all benchmarks that they contain."""
    mapping = shown() if SHOWN.exists() else {}
    for name in names:
        result = Result(name)
        prefix = PURE_PREFIX if result.setup.get("ours", {}).get("mode") == "pure" else ""
        mapping |= {prefix + bench: name for bench in result.benches()}
    text = json.dumps(dict(sorted(mapping.items())), indent=2)
    SHOWN.write_text(text + "\n", encoding="utf-8")


def costs(mapping: Mapping[str, str]) -> str:
    """Return the first table of docs/benchmarks.md."""
    lines = [
        "| what | command | Odradek | Apache Kafka | ratio | limit | rounds | result |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in ROWS:
        if row.bench not in mapping:
            continue
        result = Result(mapping[row.bench])
        try:
            figures = [result.find(row.bench, name) for name in row.figures]
        except KeyError:
            continue  # the stored result is older than this row
        cells = [row.title, f"`{row.shown_command}`", *_values(figures)]
        cells += [_limits(figures), str(_rounds(figures)), f"{result.link}, {result.build}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def everything(mapping: Mapping[str, str]) -> str:
    """Return the tables of docs/benchmarks.md, with all figures of all shown results."""
    parts = []
    for is_pure in (False, True):
        chosen = {
            bench.removeprefix(PURE_PREFIX): name
            for bench, name in mapping.items()
            if bench.startswith(PURE_PREFIX) == is_pure and bench != SPARK
        }
        if chosen:
            parts.append(
                "### The checkout, not compiled\n"
                if is_pure
                else "### What is measured by default\n"
            )
            parts.append("\n".join(_full_table(chosen)) + "\n")
    return "\n".join(parts)


def _full_table(mapping: Mapping[str, str]) -> Iterator[str]:
    yield "| bench | figure | Odradek | Apache Kafka | ratio | limit | spread | result |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for bench, name in mapping.items():
        result = Result(name)
        for figure in result.of(bench):
            unit = f", {figure.quantity.unit}" if figure.quantity.unit else ""
            spread = " / ".join(f"{figure.spread(role):.0%}" for role in (OURS, THEIRS))
            cells = [bench, figure.quantity.name + unit, *_values([figure]), _limits([figure])]
            cells += [spread, f"[{result.machine['commit']}](../bench/results/{name})"]
            yield f"| {' | '.join(cells)} |"


def _values(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield three cells: Odradek, Apache Kafka, ratio. A ratio that misses its limit is bold."""
    for role in (OURS, THEIRS):
        yield " / ".join(figure.shown(role, _number) for figure in figures)
    ratios = []
    for figure in figures:
        ratio = figure.shown_ratio(lambda each: "–" if each is None else f"{each:.2f}")
        ratios.append(f"**{ratio}**" if figure.verdict == "MISSED" else ratio)
    yield " / ".join(ratios)


def _limits(figures: Sequence[Figure]) -> str:
    limits = [_limit(figure) for figure in figures]
    text = " / ".join(limits if len(set(limits)) > 1 else limits[:1])
    missed = sum(figure.verdict == "MISSED" for figure in figures)
    if not missed:
        return text
    return f"{text}, **missed**" + (f" by {missed} of {len(figures)}" if len(figures) > 1 else "")


def _limit(figure: Figure) -> str:
    """Return the limits that are stored, or a limit that was set later."""
    later = SET_LATER.get((figure.bench, figure.quantity.name))
    if figure.quantity.limits or later is None:
        return figure.quantity.limits or "–"
    return f"{later.limits}, set later"


def _rounds(figures: Sequence[Figure]) -> int:
    return min(len(values) for figure in figures for values in figure.values.values())


def _number(value: float | None) -> str:
    """Return a number with three digits, or an integer from 100 on, with spaces for thousands."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def replaced(text: str, name: str, table: str) -> str:
    """Replace the table between its two markers in `text`.

    Raises:
        ValueError: a marker is missing.
    """
    begin, end = BEGIN.format(name), END.format(name)
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the markers of the table {name!r} are missing")
    return f"{before}{begin}\n\n{table}\n{end}{after}"


def beside_spark(mapping: Mapping[str, str]) -> str:
    """Return the table of the comparison with Spark's own connector."""
    if SPARK not in mapping:
        return "No result is stored.\n"
    result = Result(mapping[SPARK])
    return spark_table(
        result.of(SPARK), f"[{result.machine['commit']}](../bench/results/{result.name})"
    )


def documents() -> dict[Path, str]:
    """Return the documents with tables, as computed from the stored results."""
    mapping = shown()
    benchmarks = replaced(DOCUMENT.read_text(encoding="utf-8"), "costs", costs(mapping))
    benchmarks = replaced(benchmarks, "results", everything(mapping))
    return {
        DOCUMENT: replaced(benchmarks, SPARK, beside_spark(mapping)),
        LONG_TESTS_DOCUMENT: replaced(
            LONG_TESTS_DOCUMENT.read_text(encoding="utf-8"), "long-tests", long_tests_table()
        ),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Write the tables into the documents."""
    parser = argparse.ArgumentParser(prog="python -m bench.tables", description=__doc__)
    parser.add_argument("--show", nargs="+", default=[], metavar="FILE", help="results to show")
    options = parser.parse_args(words)
    if options.show:
        show(Path(name).name for name in options.show)
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
