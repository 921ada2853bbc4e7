"""Does the work of a connector in a thread: steps that the start waits for, and steps at intervals."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from odradek.client.errors import ClientError
from odradek.core.connect.errors import ConnectError

log = logging.getLogger(__name__)

Step = Callable[[], None]
_END_SECONDS = 60.0


class Scheduler:
    """One thread. A step that fails is logged; those at intervals are tried again at the next time."""

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._condition = threading.Condition()
        self._order = itertools.count()
        self._planned: list[tuple[float, int, str, Step, float | None]] = []
        """When, the order, what it is, the step, and the interval in seconds."""
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"scheduler-{name}", daemon=True)
        self._thread.start()

    def execute(self, what: str, step: Step) -> None:
        """Do something now, and wait until it is done, but not for ever."""
        done: Future[None] = Future()

        def finish() -> None:
            try:
                step()
            finally:
                done.set_result(None)

        self._plan(0.0, what, finish, None)
        try:
            done.result(self._timeout_s)
        except TimeoutError:
            log.error("%s: %s takes more than %s s", self._name, what, self._timeout_s)

    def execute_later(self, what: str, step: Step) -> None:
        """Do something as soon as the steps before are done."""
        self._plan(0.0, what, step, None)

    def repeat(self, what: str, step: Step, interval_s: float | None, *, at_once: bool) -> None:
        """Do something at an interval; None means never. The first time is now, or after the interval."""
        if interval_s is not None:
            self._plan(0.0 if at_once else interval_s, what, step, interval_s)

    def _plan(self, delay_s: float, what: str, step: Step, interval_s: float | None) -> None:
        with self._condition:
            entry = (time.monotonic() + delay_s, next(self._order), what, step, interval_s)
            heapq.heappush(self._planned, entry)
            self._condition.notify()

    def close(self) -> None:
        """End the thread after the present step."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_SECONDS)

    def _next(self) -> tuple[float, int, str, Step, float | None] | None:
        with self._condition:
            while not self._is_closed:
                if not self._planned:
                    self._condition.wait()
                    continue
                wait_s = self._planned[0][0] - time.monotonic()
                if wait_s <= 0:
                    return heapq.heappop(self._planned)
                self._condition.wait(wait_s)
            return None

    def _run(self) -> None:
        while True:
            found = self._next()
            if found is None:
                return
            _, _, what, step, interval_s = found
            try:
                step()
            except (ClientError, ConnectError) as error:
                if not self._is_closed:
                    log.error("%s: %s failed: %s", self._name, what, error)
            except Exception:
                log.exception("%s: %s failed", self._name, what)
            if interval_s is not None:
                self._plan(interval_s, what, step, interval_s)
