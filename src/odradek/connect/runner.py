"""What runners of sources and sinks have in common: a thread that owns clients, and a host for user code."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from odradek.connect.host import Host
from odradek.connect.task_process import RemoteTask
from odradek.core.connect.config_log import TargetState, TaskId

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1


class Listener(Protocol):
    """Hears of the states of tasks. Any thread may call it."""

    def task_state(self, task: TaskId, state: str, trace: str | None = None) -> None:
        """A task is in a state."""
        ...

    def used_topic(self, task: TaskId, topic: str) -> None:
        """A task uses a topic."""
        ...


class Cancelled(Exception):
    """The task was asked to stop while user code was running."""


class Runner(threading.Thread):
    """Runs a task until it is stopped or fails."""

    def __init__(self, task: TaskId, state: TargetState, listener: Listener) -> None:
        super().__init__(name=f"connect-task-{task}", daemon=True)
        self.task = task
        self._listener = listener
        self._host = Host(f"task-thread-{task}")
        self._stopping = threading.Event()
        self._wanted = state
        self._is_cancelled = False
        self._made: object = None
        """The task; a `RemoteTask` if it has a process of its own."""
        self.has_failed = False
        self.started_at = time.monotonic()
        self.record_count = 0

    # -- called by other threads ----------------------------------------------------------------

    def change(self, state: TargetState) -> None:
        """Pause or resume."""
        self._wanted = state

    def stop(self) -> None:
        """Ask the task to stop. This does not wait."""
        self._stopping.set()

    def cancel(self) -> None:
        """Give the task up: it may not write offsets or states any more."""
        self._is_cancelled = True
        self._stopping.set()
        made = self._made
        if isinstance(made, RemoteTask):
            made.kill()

    @property
    def is_paused(self) -> bool:
        """Whether the task shall pause."""
        return self._wanted != TargetState.STARTED

    # -- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        """Run the task."""
        try:
            self._run()
            self._tell("UNASSIGNED")
        except Cancelled:
            pass
        except BaseException as error:
            self.has_failed = True
            if not self._is_cancelled:
                log.exception("task %s has failed", self.task)
                self._listener.task_state(self.task, "FAILED", trace_of(error))
        finally:
            self._host.end()
            if isinstance(self._made, RemoteTask):
                self._made.end()

    def _run(self) -> None:
        raise NotImplementedError

    def _call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        meanwhile: Callable[[], None] | None = None,
    ) -> Any:
        """Make a call of user code and return its result. While it runs, call `meanwhile`.

        Raises:
            Cancelled: the task was given up.
        """
        future = self._host.call(function, *arguments)
        while not _is_done(future, _LOOK_SECONDS):
            if self._is_cancelled:
                raise Cancelled
            if meanwhile is not None:
                meanwhile()
        return future.result()

    def _tell(self, state: str) -> None:
        if not self._is_cancelled:
            self._listener.task_state(self.task, state)


def _is_done(future: Future[Any], timeout_s: float) -> bool:
    try:
        future.exception(timeout_s)
    except TimeoutError:
        return future.done()
    return True


def trace_of(error: BaseException) -> str:
    """Return the trace of an error, as a status shows it."""
    return "".join(traceback.format_exception(error))
