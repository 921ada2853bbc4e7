"""Runs pairs of jobs in turn for `bench.spark`, and keeps their figures and their failures."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import touch_memory
from bench.spark_jobs import Job, Rival
from bench.spark_table import CPU, ROWS

BENCH = "spark"
CpuTime = dict[str, float]
"""Processor time in seconds by kind of process."""
JOB_MEMORY_BYTES = 1 << 30
"""A job needs less new memory than this: up to 300 MB of records in a topic of the usual size, and its
processes."""
ERROR_LINES = 3
"""How many lines of the message of a failure are kept."""


class Rounds:
    """The figures so far, and what failed. Nothing that a job raises ends the run."""

    def __init__(
        self, cpu: Callable[[], CpuTime], create: Callable[[str], None], times: int = 1
    ) -> None:
        """`cpu` returns the processor time so far. `create` creates a topic for a job that writes.

        Topics have `times` as many records as usual.
        """
        self.figures: list[Figure] = []
        self.shares: dict[str, dict[str, dict[str, list[float]]]] = {}
        """The processor time by figure, role and kind of process, for each round, in µs per row."""
        self.failures: list[dict[str, object]] = []
        """A line of the stored result for each failure."""
        self.topics: list[str] = []
        """The names of all topics so far."""
        self._cpu = cpu
        self._create = create
        self._job_memory_bytes = JOB_MEMORY_BYTES * times

    def new_topic(self, title: str) -> str:
        """Create a topic, and return its name, which no topic had before.

        Producers of Spark's connector live longer than a job, and have metadata of the topics they
        wrote. So a topic is never created again under a former name.
        """
        name = f"{title}-{len(self.topics)}"
        self.topics.append(name)
        self._create(name)
        return name

    @contextlib.contextmanager
    def cell(self, title: str) -> Iterator[None]:
        """Keep what a `with` statement raises as a failure of a cell (records, and a codec)."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (the other cells can be measured)
            self._fail(title, None, error)

    def play(
        self,
        suffix: str,
        groups: Iterable[Sequence[Rival]],
        topic: str,
        records: int,
        rounds: int,
        *,
        with_figures: bool,
    ) -> None:
        """Run the jobs of each group in turn. A job that several pairs share runs once in a round.

        The figures of a pair have the rounds in which the job did not fail.
        """
        for group in groups:
            figures = [_figures(rival, suffix) for rival in group]
            jobs = list(dict.fromkeys(job for rival in group for job in rival.jobs.values()))
            for number in range(rounds):
                names = {job: _name(group, job) + suffix for job in jobs}
                taken = {
                    job: self._run(job, names[job], topic)
                    for job in jobs[:: 1 if number % 2 == 0 else -1]
                }
                for rival, (rate, cost) in zip(group, figures, strict=True):
                    for role, job in rival.jobs.items():
                        if (found := taken[job]) is None:
                            continue
                        seconds, cpu = found
                        rate.add(role, records / seconds / 1e6)
                        cost.add(role, sum(cpu.values()) / records * 1e6)
                        if with_figures:
                            self._keep(cost.quantity.name, role, cpu, records)
            for pair in figures:
                _say(pair, is_warm_up=not with_figures)
                if with_figures:
                    self.figures += pair

    def _keep(self, name: str, role: str, cpu: CpuTime, records: int) -> None:
        """Keep the processor time of a round by kind of process, in µs per row."""
        by_kind = self.shares.setdefault(name, {}).setdefault(role, {})
        for kind, seconds in cpu.items():
            by_kind.setdefault(kind, []).append(round(seconds / records * 1e6, 3))

    def _run(self, job: Job, name: str, topic: str) -> tuple[float, CpuTime] | None:
        """Run a job, and return its time and its processor time in seconds; None if it fails."""
        try:
            if job.writes:
                topic = self.new_topic("target")
            touch_memory(self._job_memory_bytes)
            began, cpu_began = time.perf_counter(), self._cpu()
            job.run(topic)
            taken, cpu_ended = time.perf_counter() - began, self._cpu()
        except Exception as error:  # noqa: BLE001  (the other jobs can be measured)
            self._fail(name, topic, error)
            return None
        return taken, {kind: cpu_ended[kind] - cpu_began[kind] for kind in cpu_ended}

    def _fail(self, name: str, topic: str | None, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        text = "\n".join(text.splitlines()[:ERROR_LINES])
        self.failures.append({"kind": "failure", "name": name, "topic": topic, "error": text})
        print(f"FAILED {name}: {text}", flush=True)


def _name(group: Sequence[Rival], job: Job) -> str:
    """Return the name of a job: that of its first pair, and whose job it is."""
    for rival in group:
        for role, each in rival.jobs.items():
            if each is job:
                return f"{rival.name} ({role})"
    raise AssertionError("the job is of the group")


def _figures(rival: Rival, suffix: str) -> tuple[Figure, Figure]:
    """Return the figures of a pair of jobs: rows per second, and processor time."""
    rate = Quantity(f"{rival.name}{suffix}{ROWS}", "M/s", rival.limit, higher_is_better=True)
    cost = Quantity(f"{rival.name}{suffix}{CPU}", "µs/row", rival.cpu_limit)
    return Figure(BENCH, rate), Figure(BENCH, cost)


def _say(figures: tuple[Figure, Figure], *, is_warm_up: bool) -> None:
    texts = []
    for figure in figures:
        ours, theirs = figure.median(OURS) or 0, figure.median(THEIRS) or 1
        texts.append(f"{ours:.2f} / {theirs:.2f} {figure.quantity.unit} = {ours / theirs:.2f}")
    title = figures[0].quantity.name.removesuffix(ROWS)
    print(f"{'warm-up ' if is_warm_up else ''}{title:60} {'   '.join(texts)}", flush=True)
