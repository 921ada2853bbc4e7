"""The processor time of a tree of processes by kind, with those that have ended.

Spark's Python daemon ignores SIGCHLD, so the system does not add the time of its ended children to
its own. Therefore a thread looks at all processes several times a second.
"""

from __future__ import annotations

import contextlib
import threading
import time
from types import TracebackType
from typing import Self

import psutil

INTERVAL_SECONDS = 0.2
JVM, PYTHON, BROKER = "JVM", "Python", "broker"


class TreeCpu:
    """Counts the processor time of this process and its descendants, without its own thread."""

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self._seen: dict[tuple[int, float], tuple[str, float]] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._own = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def seconds(self) -> dict[str, float]:
        """Return user and system time so far, in seconds, by kind of process."""
        began = time.thread_time()
        with self._lock:
            self._look()
            found = {JVM: 0.0, PYTHON: -self._own, BROKER: 0.0}
            for kind, taken in self._seen.values():
                found[kind] += taken
        self._own += time.thread_time() - began
        return found

    def _watch(self) -> None:
        while not self._ended.wait(INTERVAL_SECONDS):
            began = time.thread_time()
            with self._lock:
                self._look()
            self._own += time.thread_time() - began

    def _look(self) -> None:
        here = psutil.Process()
        broker = psutil.Process(self._broker_pid)
        of_broker = {self._broker_pid, *(each.pid for each in broker.children(recursive=True))}
        for each in (here, *here.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                is_java = each.name().startswith("java")
                kind = BROKER if each.pid in of_broker else JVM if is_java else PYTHON
                self._seen[each.pid, each.create_time()] = kind, times.user + times.system
