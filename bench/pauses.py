"""Reads every second the longest pause of a node's event loop, and the delays of the machine.

When the host of a virtual machine takes the processors away, all processes of the machine stop, and
also the event loop. Linux counts most of this time ("steal" in `/proc/stat`), and a bare timer is
late. In a second without stolen time and without a late timer, the event loop itself caused the
pause.
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
"""If the timer is later than this, its process did not get a processor."""


class Second(NamedTuple):
    """The measurements of one second."""

    pause_ms: float
    timer_late_ms: float
    was_stolen_from: bool
    """Whether the host took 10 ms or more of processor time."""

    @property
    def was_disturbed(self) -> bool:
        """Whether the machine may have caused the pause."""
        return self.was_stolen_from or self.timer_late_ms > LATE_MS


class PauseWatch:
    """Measures in a thread while a `with` statement runs. `seconds` may be read at any time."""

    def __init__(self, metrics_port: int, timer_late_ms: Callable[[], float]) -> None:
        """`timer_late_ms` returns the longest delay of a bare timer since its last call."""
        self._metrics_port = metrics_port
        self._timer_late_ms = timer_late_ms
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seconds: list[Second] = []

    def __enter__(self) -> Self:
        metric(self._metrics_port, METRIC)  # a request resets the maximum
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
            with suppress(OSError):  # No response: the next response covers this second too.
                pause = metric(self._metrics_port, METRIC)
                assert pause is not None, f"the node has no metric {METRIC}"
                # Time that the host took while the node responded counts for both seconds.
                was_stolen_from = stolen_ticks() > before
                self.seconds.append(Second(pause * 1000, self._timer_late_ms(), was_stolen_from))
                before = asked


def stolen_ticks() -> int:
    """Return the time that the host took from all processors so far, in hundredths of a second.

    Return 0 if the system does not report this time.
    """
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except FileNotFoundError:
        return 0
    return int(first.split()[STEAL_FIELD])
