"""What runners of sources and sinks have in common: a thread that does what the machine of a task wants.

    stop, pause, answers ----> inbox ----> machine ----> effects ----> done here, or by the host of user code
                                 ^                                       |
                                 +---------------------------------------+

The thread owns the clients of the task. User code runs in a host, so it never blocks the thread.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import traceback
from concurrent.futures import Future
from typing import Any, Protocol

from odradek.connect.host import Host
from odradek.connect.task_process import RemoteTask
from odradek.core.connect import task_messages as m
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.task_machine import TaskMachine

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Hears of the states of tasks. Any thread may call it."""

    def task_state(self, task: TaskId, state: str, trace: str | None = None) -> None:
        """A task is in a state."""
        ...

    def used_topic(self, task: TaskId, topic: str) -> None:
        """A task uses a topic."""
        ...


class Runner(threading.Thread):
    """Runs a task until it is stopped or fails."""

    machine: TaskMachine

    def __init__(self, task: TaskId, listener: Listener) -> None:
        super().__init__(name=f"connect-task-{task}", daemon=True)
        self.task = task
        self._listener = listener
        self._host = Host(f"task-thread-{task}")
        self._inbox: queue.SimpleQueue[m.Event] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._is_cancelled = False
        self._made: object = None
        """The task; a `RemoteTask` if it has a process of its own."""
        self._failure: Exception | None = None
        self.started_at = time.monotonic()
        self.record_count = 0

    # -- called by other threads ----------------------------------------------------------------

    def change(self, state: TargetState) -> None:
        """Pause or resume."""
        self._inbox.put(m.ChangeState(state))

    def stop(self) -> None:
        """Ask the task to stop. This does not wait."""
        self._stopping.set()
        self._inbox.put(m.Stop())

    def cancel(self) -> None:
        """Give the task up: it may not write offsets or states any more."""
        self._is_cancelled = True
        self._stopping.set()
        self._inbox.put(m.Cancel())
        made = self._made
        if isinstance(made, RemoteTask):
            made.kill()

    # -- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        """Run the task."""
        try:
            try:
                self.feed(m.Begin())
                self.work_until_over()
            finally:
                self._close()
            if self._failure is not None:
                raise self._failure
            self._tell("UNASSIGNED")
        except BaseException as error:
            if not self._is_cancelled:
                log.exception("task %s has failed", self.task)
                self._listener.task_state(self.task, "FAILED", trace_of(error))
        finally:
            self._host.end()
            if isinstance(self._made, RemoteTask):
                self._made.end()

    def work_until_over(self) -> None:
        """Give the machine what comes."""
        while not self.machine.is_over:
            self.feed(self.next_event())

    def next_event(self) -> m.Event:
        """Wait for the next event; a `Tick` if it is time for one."""
        due_ms = self.machine.next_deadline_ms
        wait_s = None if due_ms is None else max(due_ms - now_ms(), 0) / 1000
        try:
            return self._inbox.get(timeout=wait_s)
        except queue.Empty:
            return m.Tick()

    def feed(self, event: m.Event) -> None:
        """Give an event to the machine, and do what it wants."""
        for each in self.machine.handle(now_ms(), event):
            self._perform(each)

    def _perform(self, effect: m.Effect) -> None:
        match effect:
            case m.Tell(state):
                self._tell(state)
            case m.Warn(text, error):
                log.warning("task %s: %s", self.task, text, exc_info=error)
            case m.Ended(error):
                self._failure = error
            case m.Release():
                self._release()
            case _:
                self._answer(effect)

    def _answer(self, wanted: m.Asking) -> None:
        """Do what is wanted, and tell the machine. User code does it later."""
        try:
            found = self._do(wanted)
        except Exception as error:  # noqa: BLE001 - the machine hears of it
            self._inbox.put(m.Done(wanted.token, error=error))
            return
        if isinstance(found, Future):
            found.add_done_callback(lambda done: self._inbox.put(_done(wanted.token, done)))
        else:
            self._inbox.put(m.Done(wanted.token, found))

    def _do(self, wanted: m.Asking) -> Any:
        """Do what is wanted. Return the answer, or the future of a call of user code."""
        raise NotImplementedError

    def _release(self) -> None:
        """Call `stop` of a source that is in `poll`."""

    def _close(self) -> None:
        """Close what the task has used."""
        raise NotImplementedError

    def _tell(self, state: str) -> None:
        if not self._is_cancelled:
            self._listener.task_state(self.task, state)


def _done(token: int, found: Future[Any]) -> m.Done:
    error = found.exception()
    return m.Done(token, None if error is not None else found.result(), error)


def now_ms() -> int:
    """Return the time of the monotonic clock."""
    return round(time.monotonic() * 1000)


def trace_of(error: BaseException) -> str:
    """Return the trace of an error, as a status shows it."""
    return "".join(traceback.format_exception(error))
