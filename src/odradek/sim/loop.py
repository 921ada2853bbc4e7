"""An asyncio event loop on virtual time, for one process of a simulated machine.

Callbacks are events of the simulation. A stopped event loop drops all scheduled callbacks, as in a
killed process.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVarTuple

from odradek.sim.lossy_file_system import PowerLoss
from odradek.sim.simulation import Simulation

ArgsT = TypeVarTuple("ArgsT")
_SECOND_NS = 1_000_000_000


class SimLoop(asyncio.AbstractEventLoop):
    """An event loop whose callbacks are events of a `Simulation`."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.is_stopped = False
        self._is_paused = False
        self._held: list[asyncio.Handle] = []
        """The callbacks that were due while the process was paused."""
        self._tasks: dict[asyncio.Task[Any], None] = {}

    # -- asyncio ------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.simulation.now_ns / _SECOND_NS

    def call_soon(
        self,
        callback: Callable[[*ArgsT], object],
        *args: *ArgsT,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """See `asyncio`."""
        handle = asyncio.Handle(callback, args, self, context)
        self._schedule(self.simulation.now_ns, handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*ArgsT], object],
        *args: *ArgsT,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """See `asyncio`."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*ArgsT], object],
        *args: *ArgsT,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See `asyncio`."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*ArgsT], object],
        *args: *ArgsT,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See `asyncio`."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._schedule(round(when * _SECOND_NS), handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing, because the event skips cancelled timers."""

    def create_future(self) -> asyncio.Future[Any]:
        """See `asyncio`."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """See `asyncio`."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def get_debug(self) -> bool:
        """See `asyncio`."""
        return False

    def is_running(self) -> bool:
        """See `asyncio`."""
        return not self.is_stopped

    def is_closed(self) -> bool:
        """See `asyncio`."""
        return self.is_stopped

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an unhandled exception of a callback or task as a defect."""
        error = context.get("exception")
        if not self.is_stopped and not isinstance(error, PowerLoss):
            self.simulation.failures.append(f"{self.name}: {context.get('message')}: {error!r}")

    # -- the process --------------------------------------------------------------------------

    def _schedule(self, when_ns: int, handle: asyncio.Handle) -> None:
        if not self.is_stopped:
            self.simulation.at(when_ns, lambda: self._run(handle))

    def _run(self, handle: asyncio.Handle) -> None:
        if self.is_stopped or handle.cancelled():
            return
        if self._is_paused:
            self._held.append(handle)
            return
        events._set_running_loop(self)
        try:
            handle._run()
        finally:
            events._set_running_loop(None)

    def pause(self) -> None:
        """Stop the process until `resume`, as with SIGSTOP. Its connections still receive."""
        self._is_paused = True

    def resume(self) -> None:
        """Let a paused process go on."""
        self._is_paused = False
        held, self._held = self._held, []
        for handle in held:
            self._schedule(self.simulation.now_ns, handle)

    def stop(self) -> None:
        """End the process. No callback runs afterwards."""
        self.is_stopped = True

    def close(self) -> None:
        """Close the remaining coroutines, so that the garbage collector finds no open coroutine.

        Call this method when no callback runs. The coroutines cannot have effects any more. Their
        disk is switched off, their connections are closed, and callbacks that they schedule are
        dropped.
        """
        self.is_stopped = True
        running = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while self._tasks:
                task, _ = self._tasks.popitem()
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                try:
                    task.get_coro().close()
                except (Exception, PowerLoss):  # noqa: BLE001, S110  the process has ended
                    pass
        finally:
            events._set_running_loop(running)


def new_loop(simulation: Simulation, name: str) -> SimLoop:
    """Return an event loop for a process. It has the part of asyncio's interface that nodes use."""
    return SimLoop(simulation, name)  # type: ignore[abstract]
