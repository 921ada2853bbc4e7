"""Runs a broker in a child process, for the demo and for pipelines, with its data in their output.

The broker always ends with the process that started it. This process keeps the broker's standard
input open. When the process ends for any reason, the operating system closes this input, and the
broker shuts down. The next run waits until the broker has released its data.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.security import PLAINTEXT, Security
from odradek.env.file_system import READ_WRITE, OsFileSystem

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30
FREE_TIMEOUT_S = 10
ANSWER_TIMEOUT_MS = 5_000
COMMAND = """
import os, signal, sys, threading
from odradek.cli.main import main

def end_with_the_parent():
    os.read(0, 1)  # The parent writes nothing, so this returns when the parent has ended.
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_the_parent, daemon=True).start()
sys.argv[0] = "odradek"
main()
"""


class BrokerNotStartedError(RuntimeError):
    """The broker ended or does not respond. The message gives details."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that responds at `servers`. `process` is None if the user started the broker."""

    servers: str
    process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """Stop the broker, if `start` started it, and wait until it has ended."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(directory: Path) -> RunningBroker:
    """Start a broker on a free port, with its data in `directory`/data.

    Raises:
        BrokerNotStartedError: the broker does not start.
    """
    wait_until_free(directory)
    directory.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    log = directory / "broker.log"
    arguments = ["serve", "--port", str(port), "--data", str(directory / "data")]
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(  # noqa: S603  (ourselves)
            [sys.executable, "-c", COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C goes only to this process
        )
    broker = RunningBroker(f"127.0.0.1:{port}", process)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _answers(broker.servers):
        if process.poll() is not None or time.monotonic() > deadline:
            broker.stop()
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            raise BrokerNotStartedError(f"the broker did not start; it said:\n{said[-2000:]}")
        time.sleep(0.02)
    return broker


def wait_until_free(directory: Path) -> None:
    """Wait until the broker of a killed run has released `directory`/data.

    Raises:
        BrokerNotStartedError: another process still uses the directory.
    """
    data = directory / "data"
    deadline = time.monotonic() + FREE_TIMEOUT_S
    while not _is_free(str(data / ".lock")):
        if time.monotonic() > deadline:
            raise BrokerNotStartedError(f"another process uses {data}: stop it")
        time.sleep(0.05)


def _is_free(lock: str) -> bool:
    files = OsFileSystem()
    try:
        descriptor = files.open(lock, READ_WRITE)
    except FileNotFoundError:
        return True
    try:
        return files.lock(descriptor)
    finally:
        files.close(descriptor)


def check(servers: str, security: Security = PLAINTEXT) -> None:
    """Check that a broker responds at the address that the user gave.

    Raises:
        BrokerNotStartedError: the address is malformed, or no broker responds.
    """
    try:
        answers = _answers(servers, security)
    except ValueError as error:
        raise BrokerNotStartedError(f"--bootstrap-server: {error}") from error
    if not answers:
        raise BrokerNotStartedError(
            f"no broker responds at {servers}: start one there, or omit --bootstrap-server"
        )


def _answers(servers: str, security: Security = PLAINTEXT) -> bool:
    """Return whether a broker responds to a client.

    Raises:
        ValueError: the address is malformed.
    """
    with Cluster(servers, timeout_ms=ANSWER_TIMEOUT_MS, security=security) as cluster:
        try:
            cluster.refresh([])
        except ClientError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
