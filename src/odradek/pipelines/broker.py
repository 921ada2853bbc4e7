"""Runs a broker in a child process, for the demo and for pipelines, with its data in their output.

The broker has no authentication, so it listens only on the loopback address, on any free port.

The broker always ends with the process that started it. This process keeps the broker's standard
input open. When the process ends for any reason, the operating system closes this input, and the
broker shuts down. The next run waits until the broker has released its data.
"""

from __future__ import annotations

import re
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
_ADDRESS = re.compile(r"listening +(127\.0\.0\.1:\d+)")
"""In the output of the broker."""
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
    """Start a broker, with its data in `directory`/data.

    Raises:
        BrokerNotStartedError: the broker does not start.
    """
    wait_until_free(directory)
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "broker.log"
    arguments = ["serve", "--host", "127.0.0.1", "--port", "0", "--data", str(directory / "data")]
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(  # noqa: S603  (ourselves)
            [sys.executable, "-c", COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C goes only to this process
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        has_ended = process.poll() is not None  # then the output is complete
        said = log.read_text(encoding="utf-8", errors="replace").strip()
        address = _ADDRESS.search(said)
        if not has_ended and address is not None and _answers(address[1]):
            return RunningBroker(address[1], process)
        if has_ended or time.monotonic() > deadline:
            RunningBroker("", process).stop()
            reason = said.splitlines()[-1].removeprefix("Error: ") if said else "it said nothing"
            raise BrokerNotStartedError(f"the broker did not start: {reason} (see {log})")
        time.sleep(0.02)


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
