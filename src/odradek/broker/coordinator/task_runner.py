"""Runs the tasks of a state machine in threads (Kafka's CoordinatorExecutor)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.timer_runner import Write
from odradek.core.coordinator.machine import Task
from odradek.env.executor import call
from odradek.model.errors import ApiError

log = logging.getLogger("odradek.coordinator")


class TaskRunner:
    """Runs at most one task per key. A second task with the same key is dropped."""

    __slots__ = ("_context", "_is_running", "_name", "_tasks", "_write")

    def __init__(self, name: str, context: ShardContext, write: Write) -> None:
        self._name = name
        self._context = context
        self._write = write
        self._is_running = True
        self._tasks: dict[Any, Task] = {}
        """The running tasks, by key."""

    def start(self, tasks: Sequence[Task]) -> None:
        """Run tasks. `done` of each task gets the task's result, or the exception it raised."""
        if not self._is_running:
            return
        for task in tasks:
            if task.key not in self._tasks:
                self._tasks[task.key] = task
                future = call(self._context.executor, task.work, loop=self._context.loop)
                future.add_done_callback(partial(self._on_done, task))

    def _on_done(self, task: Task, future: asyncio.Future[Any]) -> None:
        error = future.exception()
        if self._tasks.get(task.key) is not task:
            return
        del self._tasks[task.key]
        outcome = future.result() if error is None else error
        self._write(partial(self._on_failed, task), task.done, (outcome,))

    def _on_failed(self, task: Task, error: ApiError) -> None:
        log.warning("%s: the outcome of task %s was not written: %s", self._name, task.key, error)

    def close(self) -> None:
        """Start no more tasks, and ignore the results of running tasks."""
        self._is_running = False
        self._tasks.clear()
