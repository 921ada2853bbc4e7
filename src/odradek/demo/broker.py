"""Runs the demo's broker in a child process, with its data in the demo's output directory.

The broker always ends with the demo. The demo keeps the broker's standard input open. When the demo
ends for any reason, the operating system closes this input, and the broker shuts down. The next run
waits until the broker has released its data.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from odradek.env.file_system import READ_WRITE, OsFileSystem

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30
FREE_TIMEOUT_S = 10
COMMAND = """
import os, signal, sys, threading
from odradek.cli.main import main

def end_with_the_demo():
    os.read(0, 1)  # The demo writes nothing, so this returns when the demo has ended.
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_the_demo, daemon=True).start()
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
        """Stop the broker, if the demo started it, and wait until it has ended."""
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
            start_new_session=True,  # Ctrl-C goes only to the demo, which stops the broker
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


def check(servers: str) -> None:
    """Check that a broker responds at the address that the user gave.

    Raises:
        BrokerNotStartedError: no broker responds.
    """
    if not _answers(servers):
        raise BrokerNotStartedError(
            f"no broker responds at {servers}: start one there, or omit --bootstrap-server"
        )


def _answers(servers: str) -> bool:
    """Return whether a broker responds to a client."""
    host, _, port = servers.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except (OSError, ValueError):
        return False
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    try:
        client.list_topics(timeout=5)
    except KafkaException:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
