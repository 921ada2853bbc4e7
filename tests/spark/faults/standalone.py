"""A standalone cluster of Spark on this machine: a master and two workers, as processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil
from compat.lab.toolchain import free_port
from tests.support.child import Child

HOSTS = ("127.0.0.1", "127.0.0.1")
"""The hosts of the workers. Each worker has room for the executors of three drivers: the one in use, its zombie, and the next one."""
START_SECONDS_MAX = 120.0
HOMES = """
import os, pyspark
from odradek.spark import java
print(os.path.dirname(pyspark.__file__))
print(java.launchable_home(java.find()))
"""


class StandaloneCluster:
    def __init__(
        self,
        directory: Path,
        hosts: Sequence[str] = HOSTS,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`python` has the packages. `environment` is that of the processes; by default ours."""
        self._directory = directory
        self._python = python
        if environment is None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._environment = dict(environment)
        self._hosts = hosts
        self._port = free_port()
        self._processes: list[Child] = []
        self._workers: dict[int, Child] = {}

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._start("master.Master", HOSTS[0], "--port", str(self._port))
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._listens():
            assert time.monotonic() < deadline, "the master does not start"
            time.sleep(0.1)
        for number in range(len(self._hosts)):
            self.start_worker(number)
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._processes, *self._workers.values()):
            _kill(process)

    def start_worker(self, number: int) -> None:
        """Start a worker, which does not run."""
        directory = str(self._directory / f"worker-{number}")
        words = ["--cores", "4", "--memory", "3g", "--work-dir", directory, self.master]
        self._workers[number] = self._start("worker.Worker", self._hosts[number], *words)

    def kill_worker_of(self, executor: psutil.Process) -> int:
        """Kill the worker of an executor with all its executors, and return its number."""
        parents = {each.pid for each in executor.parents()}
        (number,) = [each for each, process in self._workers.items() if process.pid in parents]
        _kill(self._workers.pop(number))
        return number

    def _start(self, name: str, host: str, *words: str) -> Child:
        home, java_home = self._homes()
        environment = {
            **self._environment,
            "SPARK_HOME": home,
            "JAVA_HOME": java_home,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": self._python,
        }
        command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
        command += ["--host", host, "--webui-port", "0", *words]
        log = self._directory / "cluster.log"
        process = Child(command, output=log, environment=environment)
        if name.startswith("master"):
            self._processes.append(process)
        return process

    def _homes(self) -> list[str]:
        """Return the directories of Spark and of Java."""
        words = [self._python, "-c", HOMES]
        return subprocess.check_output(words, env=self._environment, text=True).splitlines()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True


def _kill(process: Child) -> None:
    """Kill a process and those that it has started."""
    family = [process, *psutil.Process(process.pid).children(recursive=True)]
    for each in family:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    process.close()
