"""Asks a node once a second how long its loop paused, and the machine what its host took meanwhile.

A virtual machine whose host takes the processors away stands still, and every pause of ours with it.
Linux counts that time ("steal" in `/proc/stat`). A second in which there was none shows our own.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from compat.lab.odradek_node import metric

METRIC = "odradek_loop_pause_seconds_max"
PERIOD_SECONDS = 1.0
STEAL_FIELD = 8


class Second(NamedTuple):
    """What was seen in one."""

    pause_ms: float
    was_disturbed: bool
    """The host took a hundredth of a second or more."""


class PauseWatch:
    """See the module. A context manager; `seconds` may be read at any time."""

    def __init__(self, metrics_port: int) -> None:
        self._metrics_port = metrics_port
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seconds: list[Second] = []

    def __enter__(self) -> Self:
        metric(self._metrics_port, METRIC)  # measure from now on
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
                self.seconds.append(Second(pause * 1000, stolen_ticks() > before))
                before = asked


def stolen_ticks() -> int:
    """Hundredths of a second that the host took from all processors so far; 0 where that cannot be
    told."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except FileNotFoundError:
        return 0
    return int(first.split()[STEAL_FIELD])
