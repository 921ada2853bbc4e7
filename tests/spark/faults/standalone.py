"""A standalone cluster of Spark on this machine: a master and two workers, as processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psutil
import pyspark
from compat.lab.toolchain import free_port

from odradek.spark import java

HOSTS = ("127.0.0.1", "127.0.0.1")
"""The hosts of the workers. Each worker has room for the executors of three drivers: the one in use, its zombie, and the next one."""
START_SECONDS_MAX = 120.0


class StandaloneCluster:
    def __init__(self, directory: Path, hosts: Sequence[str] = HOSTS) -> None:
        self._directory = directory
        self._hosts = hosts
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._start("master.Master", HOSTS[0], "--port", str(self._port))
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._listens():
            assert time.monotonic() < deadline, "the master does not start"
            time.sleep(0.1)
        for number, host in enumerate(self._hosts):
            directory = str(self._directory / f"worker-{number}")
            words = ["--cores", "4", "--memory", "3g", "--work-dir", directory, self.master]
            self._start("worker.Worker", host, *words)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            family = [process, *psutil.Process(process.pid).children(recursive=True)]
            for each in family:
                try:
                    each.kill()
                except psutil.NoSuchProcess:
                    continue
            process.wait()

    def _start(self, name: str, host: str, *words: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(java.launchable_home(java.find())),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        command += ["--host", host, "--webui-port", "0", *words]
        with (self._directory / "cluster.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self._processes.append(process)

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True
