"""Reads once a second how long a node's loop paused, and how long the machine delayed every process.

When the host of a virtual machine takes the processors away, the machine stops, and the loop with it.
Linux counts most of that time ("steal" in `/proc/stat`), and a bare timer is late. The pauses that the
loop itself causes are those of the seconds in which neither was the case.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from compat.lab.odradek_node import metric

METRIC = "odradek_loop_pause_seconds_max"
PERIOD_SECONDS = 1.0
STEAL_FIELD = 8
LATE_MS = 5.0
"""A timer that is later than this did not get a processor."""


class Second(NamedTuple):
    """What was seen in one."""

    pause_ms: float
    timer_late_ms: float
    was_stolen_from: bool
    """The host took a hundredth of a second or more."""

    @property
    def was_disturbed(self) -> bool:
        """Whether the pause may be the machine's."""
        return self.was_stolen_from or self.timer_late_ms > LATE_MS


class PauseWatch:
    """See the module. A context manager; `seconds` may be read at any time."""

    def __init__(self, metrics_port: int, timer_late_ms: Callable[[], float]) -> None:
        """`timer_late_ms` gives the longest delay of a bare timer since the last call."""
        self._metrics_port = metrics_port
        self._timer_late_ms = timer_late_ms
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seconds: list[Second] = []

    def __enter__(self) -> Self:
        metric(self._metrics_port, METRIC)  # measure from now on
        self._timer_late_ms()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        before = stolen_ticks()
        while not self._is_over.wait(PERIOD_SECONDS):
            asked = stolen_ticks()
            with suppress(OSError):  # the node is late or gone: the next answer covers it
                pause = metric(self._metrics_port, METRIC)
                assert pause is not None, f"the node has no metric {METRIC}"
                # What the host took while the node answered counts for both seconds.
                was_stolen_from = stolen_ticks() > before
                self.seconds.append(Second(pause * 1000, self._timer_late_ms(), was_stolen_from))
                before = asked


def stolen_ticks() -> int:
    """Hundredths of a second that the host took from all processors so far; 0 where that cannot be
    told."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except FileNotFoundError:
        return 0
    return int(first.split()[STEAL_FIELD])
