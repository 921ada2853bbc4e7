"""Runs the timers of a state machine on the event loop (Kafka's EventBasedCoordinatorTimer)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from odradek.broker.coordinator.context import ShardContext
from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.coordinator.timers import Timer, TimerTable
from odradek.model.errors import ApiError

TIMERS_PER_TURN = 100
"""Maximum number of timers that run in one iteration of the event loop."""

log = logging.getLogger("odradek.coordinator")

OnError = Callable[[ApiError], None]
Write = Callable[[OnError, Callable[..., CoordinatorResult[Any]], tuple[Any, ...]], None]
"""A function (on_error, operation, arguments) that performs an operation and writes its records. No
client waits for the response."""


class TimerRunner:
    """Runs the operations of a timer table at their deadlines, from `start` to `close`."""

    __slots__ = ("_alarm", "_alarm_ms", "_context", "_is_running", "_name", "_timers", "_write")

    def __init__(self, name: str, timers: TimerTable, context: ShardContext, write: Write) -> None:
        self._name = name
        self._timers = timers
        self._context = context
        self._write = write
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._is_running = False

    def start(self) -> None:
        """Begin to run timers."""
        self._is_running = True
        self._timers.listen(self._arm)
        self._arm()

    def close(self) -> None:
        """Stop, and remove all timers."""
        self._is_running = False
        self._timers.listen(None)
        self._timers.cancel_all()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _arm(self) -> None:
        deadline_ms = self._timers.next_deadline_ms()
        if deadline_ms is None or not self._is_running:
            return
        if self._alarm is not None:
            if self._alarm_ms <= deadline_ms:
                return
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._context.clock.monotonic_ms())
        self._alarm = self._context.loop.call_later(delay_ms / 1000, self._run_due)

    def _run_due(self) -> None:
        self._alarm = None
        try:
            for _ in range(TIMERS_PER_TURN):
                timer = self._timers.take_due()
                if timer is None:
                    break
                self._write(partial(self._on_failed, timer), timer.operation, timer.arguments)
        finally:
            self._arm()

    def _on_failed(self, timer: Timer, error: ApiError) -> None:
        log.warning("%s: timer %s failed: %s", self._name, timer.key, error)
        if timer.retry_ms is not None and self._is_running:
            self._timers.schedule(
                timer.key,
                timer.retry_ms,
                timer.operation,
                *timer.arguments,
                retry_ms=timer.retry_ms,
            )
