"""Runs several nodes of one machine, with one process for each node.

Each node has a configuration file and a file for its output, in a directory of its own. When all
nodes are ready, a process that ends is started again, the first time at once. If it ends again
within `STEADY_SECONDS` after its start, there is a pause before the next start. The pause doubles
each time, up to `PAUSE_SECONDS_MAX`. If a process ends before all nodes are ready, the command
fails and stops all nodes. Ctrl-C and SIGTERM stop all nodes.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import click

from odradek.cli.output import note, warn

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1
STEADY_SECONDS = 30.0
"""A process that has run for this long is started again at once when it ends."""
PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 30.0


class Backoff:
    """Decides how long to wait before a process that has ended is started again."""

    def __init__(self) -> None:
        self._started = 0.0
        self._pause = 0.0

    def on_start(self, now: float) -> None:
        """Note that the process was started."""
        self._started = now

    def pause(self, now: float) -> float:
        """Return the pause before the next start, in seconds. The process has ended now."""
        if now - self._started >= STEADY_SECONDS:
            self._pause = 0.0
        pause = self._pause
        self._pause = min(PAUSE_SECONDS_MAX, max(PAUSE_SECONDS, 2 * pause))
        return pause


class NodeProcess:
    """The process of one node."""

    def __init__(
        self, node_id: int, directory: Path, address: tuple[str, int], is_controller: bool
    ) -> None:
        """`address` is where the node listens for clients."""
        self.node_id = node_id
        self.directory = directory
        self.address = address
        self.is_controller = is_controller
        self.backoff = Backoff()
        self._process: subprocess.Popen[bytes] | None = None
        self._next_start: float | None = None

    @property
    def properties(self) -> Path:
        """The configuration file."""
        return self.directory / "server.properties"

    @property
    def output(self) -> Path:
        """The file with the output of the process."""
        return self.directory / "output"

    def start(self) -> None:
        """Start the process. It ignores the terminal's Ctrl-C, so that this command stops it."""
        self._next_start = None
        self.backoff.on_start(time.monotonic())
        command = [sys.executable, "-m", "odradek", "serve", "--config", str(self.properties)]
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  the command is our own
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code, or None if the process runs."""
        assert self._process is not None
        return self._process.poll()

    def revive(self, now: float) -> str | None:
        """Restart a process that has ended, now or after a pause. Return a warning, if any."""
        code = self.exit_code()
        if code is None:
            return None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if self._next_start is None:
            pause = self.backoff.pause(now)
            self._next_start = now + pause
            if pause:
                return (
                    f"node {self.node_id} ended ({how}); it is started again in {pause:g} s. Its "
                    f"output is {self.output}"
                )
        if now < self._next_start:
            return None
        self.start()
        return f"node {self.node_id} ended ({how}); started again as process {self.pid}"

    def terminate(self) -> None:
        """Ask the process to stop, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float) -> bool:
        """Return whether the process ended in time. If not, kill it."""
        if self._process is None:
            return True  # it was not started
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True

    def is_listening(self) -> bool:
        """Return whether the node, or another process, listens on its address."""
        try:
            socket.create_connection(self.address, timeout=1.0).close()
        except OSError:
            return False
        return True


class Supervisor:
    """Starts the processes, starts them again when they end, and stops them."""

    def __init__(self, processes: Sequence[NodeProcess], greet: Callable[[], None]) -> None:
        """`greet` is called when all nodes accept clients."""
        self._processes = processes
        self._greet = greet
        self._is_stopping = False

    def run(self) -> int:
        """Run until a signal comes. Return the exit code.

        Raises:
            ClickException: another process listens on a port, a process has ended at its start, or
                the nodes are not ready in time.
        """
        busy = [each.address[1] for each in self._processes if each.is_listening()]
        if busy:
            raise click.ClickException(
                f"another process listens on port {busy[0]}. Stop it, or choose other ports with "
                "--port. (A cluster that exists already keeps its ports.)"
            )
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        try:
            for each in self._processes:
                each.start()
            if self._wait_until_ready():
                self._greet()
            while not self._is_stopping:
                self._watch()
                time.sleep(POLL_SECONDS)
        finally:
            is_clean = self._stop()
        return 0 if is_clean else 1

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True

    def _wait_until_ready(self) -> bool:
        """Wait until all nodes accept clients. Return False if a signal has come."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        waiting = list(self._processes)
        note(f"Starting {len(waiting)} nodes …")
        while waiting and not self._is_stopping:
            for each in waiting:
                if each.exit_code() is not None:
                    raise click.ClickException(
                        f"node {each.node_id} has ended at its start. Its output is {each.output}"
                    )
            if time.monotonic() > deadline:
                raise click.ClickException(
                    f"node {waiting[0].node_id} is not ready after {READY_SECONDS_MAX:g} s. "
                    f"Its output is {waiting[0].output}"
                )
            waiting = [each for each in waiting if not each.is_listening()]
            time.sleep(POLL_SECONDS)
        return not self._is_stopping

    def _watch(self) -> None:
        """Start processes again that have ended."""
        for each in self._processes:
            told = None if self._is_stopping else each.revive(time.monotonic())
            if told is not None:
                warn(told)

    def _stop(self) -> bool:
        """Stop all processes. Return whether all ended in time.

        The nodes that are only brokers stop first, because a broker that stops asks a controller to
        move its leaders.
        """
        note("Stopping …")
        deadline = time.monotonic() + STOP_SECONDS_MAX
        is_clean = True
        for is_controller in (False, True):
            stopping = [each for each in self._processes if each.is_controller is is_controller]
            for each in stopping:
                each.terminate()
            for each in stopping:
                is_clean &= each.wait(deadline - time.monotonic())
        return is_clean
