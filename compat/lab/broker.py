"""A broker as a process on loopback.

`start` returns when a Metadata response of the broker contains a registered broker. `cpu_seconds`
counts the broker's process and its children. `rss_bytes` counts only the broker's process. `stop`
sends SIGTERM. `kill` sends SIGKILL.
"""

from __future__ import annotations

import abc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from compat.lab.toolchain import free_port
from compat.lab.wire_client import WireClient

READY_POLL_SECONDS = 0.02
_CPUCLOCK_SCHED = 2
"""On Linux, the id of a process's CPU clock is `(~pid << 3) | _CPUCLOCK_SCHED`."""


class BrokerFailed(Exception):
    """The broker ended, or did not become ready in time. The message has the end of its output."""


class Broker(abc.ABC):
    """A broker on a loopback port with a data directory.

    `settings` are settings with Apache Kafka's names. `listeners` are listeners besides PLAINTEXT,
    in the form NAME://HOST:PORT; their protocols and users are in `settings`. Without `directory` the data is in a
    temporary directory, which `close` removes.
    """

    name: str
    """The name of the broker in tables."""
    start_seconds_max = 180.0
    variables_removed: frozenset[str] = frozenset({"PYTHONDONTWRITEBYTECODE"})
    """Environment variables that the broker does not get. It uses bytecode files, as after an
    installation, even if the shell forbids them."""

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        port: int | None = None,
        listeners: Sequence[str] = (),
    ) -> None:
        self.settings = dict(settings or {})
        self.listeners = tuple(listeners)
        self.variables_added: dict[str, str] = {}
        """Environment variables that only the broker gets."""
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="odradek-lab-"))
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        """When the process was started, on the monotonic clock."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Prepare the first start. Measured times do not include this preparation."""

    @abc.abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command that starts the broker."""

    @abc.abstractmethod
    def described(self) -> dict[str, object]:
        """Return version, flags and settings for stored results. The result has no paths."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The path of the file with the output of the process."""
        return self.directory / "broker.log"

    @property
    def process(self) -> psutil.Process:
        """The running process."""
        assert self._process is not None, "not started"
        return psutil.Process(self._process.pid)

    def start(self) -> Self:
        """Start the broker, and wait until it serves requests.

        Raises:
            BrokerFailed: the broker ended, or is not ready in time.
        """
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start the process without waiting."""
        assert self._process is None, "already started"
        self.prepare()
        command = list(self.command())
        environment = {k: v for k, v in os.environ.items() if k not in self.variables_removed}
        environment |= self.variables_added
        with self.log.open("ab") as log:
            self.started_at = time.monotonic()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=environment,
            )

    def wait_until_ready(self) -> None:
        """Wait until a Metadata response contains a broker.

        Raises:
            BrokerFailed: the broker ended, or is not ready in time.
        """
        deadline = time.monotonic() + self.start_seconds_max
        while not self._serves():
            if not self.alive():
                raise BrokerFailed(f"{self.name} ended at its start: {self.last_words()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(
                    f"{self.name} was not ready in {self.start_seconds_max:g} s: "
                    f"{self.last_words()}"
                )
            time.sleep(READY_POLL_SECONDS)

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self, patience: float = 30.0) -> int:
        """Send SIGTERM, and SIGKILL after `patience` seconds. Return the exit code."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process = None
        return code

    def kill(self) -> None:
        """End the process at once, as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop the execution of the process, as `kill -STOP` does."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the broker, and remove the temporary directory if there is one."""
        self.stop(patience=5.0)
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def cpu_seconds(self) -> float:
        """Return the processor time (user and system) of the process and its children so far.

        Children that have ended are counted after the broker has waited for them.
        """
        total = 0.0
        for process in (self.process, *self.process.children(recursive=True)):
            try:
                times = process.cpu_times()
                total += _own_seconds(process.pid, times.user + times.system)
            except psutil.NoSuchProcess:  # the process has just ended
                continue
            total += times.children_user + times.children_system
        return total

    def rss_bytes(self) -> int:
        """Return the current resident memory of the process in bytes."""
        return int(self.process.memory_info().rss)

    def last_words(self, lines: int = 5) -> str:
        """Return the last lines of the process's output."""
        if not self.log.exists():
            return "it said nothing"
        text = self.log.read_text(encoding="utf-8", errors="replace").strip()
        return " | ".join(text.splitlines()[-lines:]) or "it said nothing"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _serves(self) -> bool:
        try:
            with WireClient(self.port, timeout=5.0) as client:
                return bool(client.metadata().brokers)
        except OSError:
            return False


def _own_seconds(pid: int, in_ticks: float) -> float:
    """Return the processor time of a process in seconds.

    On Linux, return the exact time. On other systems return `in_ticks`, which has steps of 10 ms.
    These steps are too coarse for short measurements. For example, a gigabyte of fetches takes less
    than half a second.
    """
    if sys.platform != "linux":
        return in_ticks
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:  # the process has just ended
        return in_ticks
