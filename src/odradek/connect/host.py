"""Runs the code of a connector or a task in a thread of its own.

    owner:  call("poll") ......... the future .................... call("poll")
    host:       poll (may block as long as it likes)

The owner's thread is never blocked by user code. If user code does not return, the owner gives the host
up: its thread lives on, and nothing that it returns is used.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

Call = tuple[Callable[..., Any], tuple[Any, ...], "Future[Any]"]


class Host:
    """A thread that makes calls, one after the other."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Make a call. The future has its result or its exception."""
        future: Future[Any] = Future()
        self._calls.put((function, arguments, future))
        return future

    def end(self) -> None:
        """End the thread after the present calls. This does not wait."""
        self._calls.put(None)

    def _run(self) -> None:
        while True:
            found = self._calls.get()
            if found is None:
                return
            function, arguments, future = found
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # noqa: BLE001 - it is the result
                future.set_exception(error)
