"""A broker as a process on loopback.

`start` returns once the broker answers Metadata with a registered broker in it. `cpu_seconds` counts
the broker's process and its children, `rss_bytes` only the former. `stop` sends SIGTERM, `kill`
SIGKILL.
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
"""Linux: the number of a process's CPU clock is the complement of its id, shifted, and this."""


class BrokerFailed(Exception):
    """The broker ended, or did not become ready in time; the message has the end of its output."""


class Broker(abc.ABC):
    """One broker on a loopback port with its own data directory.

    `settings` are given to the broker under Apache Kafka's names. Without `directory` the data
    lives in a temporary one, which `close` removes.
    """

    name: str
    """What tables call it."""
    start_seconds_max = 60.0

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        port: int | None = None,
    ) -> None:
        self.settings = dict(settings or {})
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="odradek-lab-"))
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        """When the process was started, on the monotonic clock."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Prepare the first start; not included in measured times."""

    @abc.abstractmethod
    def command(self) -> Sequence[str]:
        """The words that start the broker."""

    @abc.abstractmethod
    def described(self) -> dict[str, object]:
        """How it is run, for stored results: version, flags, settings; no paths."""

    @property
    def bootstrap(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Where the logs are."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The output of the process."""
        return self.directory / "broker.log"

    @property
    def process(self) -> psutil.Process:
        """The running process."""
        assert self._process is not None, "not started"
        return psutil.Process(self._process.pid)

    def start(self) -> Self:
        """Start and wait until it serves; raises `BrokerFailed`."""
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start the process without waiting."""
        assert self._process is None, "already started"
        self.prepare()
        command = list(self.command())
        # As installed: with bytecode, whatever the shell of a developer says.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
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
        """Wait until Metadata names a broker."""
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
        """Send SIGTERM and wait; kill it after a timeout. Returns the exit code."""
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
        """End it at once, as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop it and remove its temporary files."""
        self.stop(patience=5.0)
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def cpu_seconds(self) -> float:
        """Processor time used so far, user and system, by the process and by its children.

        Children that have ended count once the broker has waited for them.
        """
        total = 0.0
        for process in (self.process, *self.process.children(recursive=True)):
            try:
                times = process.cpu_times()
                total += _own_seconds(process.pid, times.user + times.system)
            except psutil.NoSuchProcess:  # it ended in this moment
                continue
            total += times.children_user + times.children_system
        return total

    def rss_bytes(self) -> int:
        """Resident memory now."""
        return int(self.process.memory_info().rss)

    def last_words(self, lines: int = 5) -> str:
        """The end of the process's output."""
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
    """Processor time of a process: exact on Linux, else `in_ticks`, which counts in steps of 10 ms.

    A gigabyte of fetches costs less than half a second: ticks are too coarse for short measures.
    """
    if sys.platform != "linux":
        return in_ticks
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:  # it ended in this moment
        return in_ticks
