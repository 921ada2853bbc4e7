"""The drivers: processes that run the queries, one after another.

To start a Spark session takes much longer than a micro-batch. So a driver runs the queries of many
runs until it is killed, and while it does, the next driver starts (`Drivers`). An archive of Spark's
classes (`class_archive`) makes each start cheaper.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import psutil
from compat.lab.toolchain import ROOT
from tests.spark.faults.forks import ForkServer
from tests.spark.faults.job import ENDED, Query
from tests.support.child import PYTHON, Child

LOCAL = "local[2]"
SILENCE_SECONDS = 600.0
"""A driver that is not ready, or a query that makes no progress for this time, has failed."""
CACHE = ROOT / ".cache" / "spark-faults"
"""The directory with the archive of classes."""
LAST_WORDS = 2000


class Driver:
    """A process with a Spark session."""

    def __init__(
        self,
        directory: Path,
        number: int,
        master: str,
        guarantee: str,
        fork_server: ForkServer | None = None,
        *archive: str,
    ) -> None:
        self._fork_server = fork_server
        self.log = directory / f"driver-{number}.log"
        self._ready = directory / f"driver-{number}.ready"
        self._done = Path()
        words = (*PYTHON, "tests.spark.faults.job", master, self._ready, guarantee)
        scratch = directory / "scratch"
        scratch.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONPYCACHEPREFIX": str(CACHE / "bytecode"),  # workers import all modules
            "SPARK_LOCAL_DIRS": str(scratch),
            "XDG_CACHE_HOME": str(CACHE),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if fork_server is not None:
            environment["PYSPARK_PYTHON"] = str(fork_server.program)
        self._process = Child(
            [*words, *archive],
            output=self.log,
            hears=True,
            environment=environment,
            own_session=True,
        )

    def wait_until_ready(self) -> None:
        self._process.until(self._ready.exists, SILENCE_SECONDS)

    @property
    def application_id(self) -> str:
        """The id of the Spark application."""
        return self._ready.read_text()

    def start(self, query: Query) -> None:
        self._done = Path(query.done)
        self._process.stdin.write(query.line().encode())
        self._process.stdin.flush()

    def has_ended(self) -> bool:
        """Whether the query has ended well.

        Raises:
            AssertionError: the query failed too often, or the driver has ended.
        """
        if self._done.exists():
            assert self._done.read_text() == ENDED, f"the query failed: {self.last_words()}"
            return True
        self._process.check()
        return False

    def wait_for_end(self) -> None:
        deadline = time.monotonic() + SILENCE_SECONDS
        while not self.has_ended():
            assert time.monotonic() < deadline, f"the query does not end: {self.last_words()}"
            time.sleep(0.02)

    def is_done(self) -> bool:
        """Whether the query has ended or failed for good, or the driver has ended."""
        return self._done.exists() or not self._process.runs

    def kill(self) -> None:
        """Kill the driver, its JVM and its workers."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = self._family()
            for each in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            psutil.wait_procs(family[1:])
        self._process.close()

    def pause(self) -> None:
        """Stop the execution of the driver, its JVM and its workers."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def kill_a_worker(self, choices: random.Random) -> bool:
        """Kill one of the Python workers of the JVM. Return False if there is none."""
        processes = psutil.Process(self._process.pid).children(recursive=True)
        if self._fork_server is not None:
            workers = self._fork_server.forks(processes)
        else:
            workers = [each for each in processes if is_worker(each)]
        if not workers:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            choices.choice(sorted(workers, key=lambda each: each.pid)).kill()
        return True

    def end(self) -> None:
        """Let the driver end by itself, and wait for all its processes."""
        family = self._family()
        self._process.finish(SILENCE_SECONDS)
        psutil.wait_procs(family[1:], SILENCE_SECONDS)

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-LAST_WORDS:]

    def _family(self) -> list[psutil.Process]:
        root = psutil.Process(self._process.pid)
        children = root.children(recursive=True)
        forks = self._fork_server.forks(children) if self._fork_server is not None else []
        return [root, *children, *forks]

    def _send(self, number: int) -> None:
        for each in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(number)


def is_worker(process: psutil.Process) -> bool:
    """Whether a process runs Python for Spark."""
    with contextlib.suppress(psutil.NoSuchProcess):
        words = process.cmdline()
        return "-m" in words and any(word.startswith("pyspark.") for word in words[2:])
    return False


class Drivers:
    """The driver in use, and the next one, which starts meanwhile."""

    def __init__(
        self, directory: Path, master: str, guarantee: str, fork_server: ForkServer | None
    ) -> None:
        self._directory = directory
        self._fork_server = fork_server
        self._master = master
        self._guarantee = guarantee
        self._started = 0
        self.used = 1
        self.current = self._new()
        self.current.wait_until_ready()
        self._next = self._new()

    def replace(self) -> Driver:
        """Use the next driver, and start another one. Return the one that was used before."""
        before, self.current = self.current, self._next
        self._next = self._new()
        self.used += 1
        self.current.wait_until_ready()
        return before

    def close(self) -> None:
        self.current.kill()
        self._next.kill()

    def _new(self) -> Driver:
        self._started += 1
        return Driver(
            self._directory, self._started, self._master, self._guarantee, self._fork_server
        )


def has_archive() -> bool:
    """Whether an archive of classes exists. A JVM with other flags does not use it."""
    return any((CACHE / "odradek" / "classes").glob("*.jsa"))


def make_archive(
    directory: Path, query: Query, guarantee: str, fork_server: ForkServer | None
) -> None:
    """Run a query in a session that writes the archive of classes when it ends."""
    driver = Driver(directory, 0, LOCAL, guarantee, fork_server, "--archive")
    try:
        driver.wait_until_ready()
        driver.start(query)
        driver.wait_for_end()
        driver.end()
    finally:
        driver.kill()
