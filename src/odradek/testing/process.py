"""Runs a node in a thread that stands for its process, with an event loop, files and connections.

A `NodeProcess` ends in one of two ways. After `stop`, the node has closed all its parts itself.
After `kill`, nothing of the node runs any more: its connections are closed as by the kernel, its
coroutines are closed without being cancelled, and its files have what was written before. Work that
runs in other threads at that moment is completed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from asyncio import events
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from odradek.config.broker_config import BrokerConfig
from odradek.env.event_loop import new_event_loop
from odradek.env.executor import ThreadExecutor
from odradek.env.process import ChildProcess
from odradek.handlers.entry import Inject
from odradek.node.node import Node
from odradek.testing.files import UnsyncedFileSystem
from odradek.testing.network import NodeNetwork

ResultT = TypeVar("ResultT")


class _Executor(ThreadExecutor):
    """Threads, and child processes that can be killed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._children: list[ChildProcess] = []

    def start_process(self, module: str) -> ChildProcess:
        """See `Executor`."""
        child = super().start_process(module)
        self._children.append(child)
        return child

    def abandon(self) -> None:
        """Kill the child processes, too."""
        for child in self._children:
            child.kill()
        super().abandon()


class NodeProcess:
    """A running node. Its methods are called from the test's thread, unless they say otherwise."""

    def __init__(
        self,
        config: BrokerConfig,
        network: NodeNetwork,
        inject: Inject,
        cluster_id: str | None,
        name: str,
    ) -> None:
        """Begin to start the node. `started` has the result."""
        self.started: Future[None] = Future()
        self._loop, selector = new_event_loop()
        self._files = UnsyncedFileSystem()
        self._network = network
        self._executor = _Executor(self._loop)
        self.node = Node(
            config,
            selector,
            file_system=self._files,
            network=network,
            executor=self._executor,
            cluster_id=cluster_id,
            inject=inject,
        )
        self._is_killed = False
        self._thaw: threading.Event | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_paused(self) -> bool:
        """Whether the process is paused."""
        return self._thaw is not None

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Run a coroutine on the event loop; return a future of its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, function: Callable[[], object]) -> None:
        """Let the event loop call a function soon."""
        self._loop.call_soon_threadsafe(function)

    # -- pauses -----------------------------------------------------------------------------

    def pause(self, timeout_s: float) -> None:
        """Block the event loop until `resume`."""
        if self._thaw is not None:
            return
        thaw = self._thaw = threading.Event()
        stopped = threading.Event()

        def freeze() -> None:
            stopped.set()
            thaw.wait()
            if self._is_killed:
                self._die()

        self._loop.call_soon_threadsafe(freeze)
        stopped.wait(timeout_s)

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._thaw is not None:
            self._thaw.set()
            self._thaw = None

    # -- ends -------------------------------------------------------------------------------

    def stop(self, timeout_s: float) -> None:
        """Stop the node cleanly, and wait for its end. If the node cannot stop, kill it.

        Raises:
            Exception: the node cannot stop.
        """
        self.resume()
        try:
            self.run(self.node.stop()).result(timeout_s)
        except BaseException:
            self.kill(timeout_s)
            raise
        self.call(self._loop.stop)
        self._thread.join(timeout_s)

    def kill(self, timeout_s: float) -> None:
        """End the process at once, whatever it does. No error if it has ended."""
        if not self.started.done() or self.started.exception() is None:
            self._is_killed = True
            self.call(self._die)
        self.resume()
        self._thread.join(timeout_s)

    def _die(self) -> None:
        """On the event loop's thread: send nothing more."""
        self.node.abandon()
        self._network.close_connections()
        self._loop.stop()

    def _serve(self) -> None:
        """Run the event loop in its thread, until the process ends."""
        self._loop.create_task(self.node.start()).add_done_callback(self._on_started)
        self._loop.run_forever()
        if self._is_killed:
            self._drop_coroutines()
            self._executor.abandon()
            self._loop.close()
        else:
            # Cancels the tasks that a failed start has left, and closes the loop.
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.get_loop()
        self._network.close_connections()
        self._files.close_all()
        if not self.started.done():
            self.started.set_exception(RuntimeError("it was killed while it started"))

    def _on_started(self, start: asyncio.Task[None]) -> None:
        error = start.exception()
        if error is None:
            self.started.set_result(None)
        else:
            self.started.set_exception(error)
            self._loop.stop()

    def _drop_coroutines(self) -> None:
        """Close the coroutines, so that none is left to be closed by the garbage collector."""
        self._loop.set_exception_handler(lambda loop, context: None)
        events._set_running_loop(self._loop)
        try:
            for task in asyncio.all_tasks(self._loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                with contextlib.suppress(Exception):  # the process has ended: nobody handles it
                    if coroutine is not None:
                        coroutine.close()
        finally:
            events._set_running_loop(None)
