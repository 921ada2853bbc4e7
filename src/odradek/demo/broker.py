"""A broker of the demo's own: a child process, whose data stay with the demo's output.

If the demo is killed, the broker lives on; the next run finds it by a note beside its data.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30
NOTE = "broker.json"
COMMAND = "import sys; from odradek.cli.main import main; sys.argv[0] = 'odradek'; main()"


class BrokerNotStartedError(RuntimeError):
    """The broker ended, or does not answer; the message says what is known of it."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that answers at `servers`; `process_id` is None for one that is not ours."""

    servers: str
    process_id: int | None = None

    def stop(self) -> None:
        """End it, if it is ours, and wait until it is gone."""
        if self.process_id is None:
            return
        deadline = time.monotonic() + STOP_TIMEOUT_S
        try:
            os.kill(self.process_id, signal.SIGTERM)
            while time.monotonic() < deadline:
                _reap(self.process_id)
                os.kill(self.process_id, 0)
                time.sleep(0.05)
            os.kill(self.process_id, signal.SIGKILL)
        except ProcessLookupError:
            return


def _reap(process_id: int) -> None:
    """Let a child that has ended go; one that a run before us started is nobody's child here."""
    try:
        os.waitpid(process_id, os.WNOHANG)
    except ChildProcessError:
        return


def start(directory: Path) -> RunningBroker:
    """The broker over `directory`/data: the one that runs already, or a new one.

    Raises:
        BrokerNotStartedError: it does not come up.
    """
    running = find(directory)
    if running is not None:
        return running
    directory.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    log = directory / "broker.log"
    arguments = ["serve", "--port", str(port), "--data", str(directory / "data")]
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(  # noqa: S603  (ourselves)
            [sys.executable, "-c", COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the demo, which ends the broker in order
        )
    broker = RunningBroker(f"127.0.0.1:{port}", process.pid)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _answers(broker.servers):
        if process.poll() is not None or time.monotonic() > deadline:
            broker.stop()
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            raise BrokerNotStartedError(f"the broker did not start; it said:\n{said[-2000:]}")
        time.sleep(0.02)
    (directory / NOTE).write_text(json.dumps(asdict(broker)), encoding="utf-8")
    return broker


def find(directory: Path) -> RunningBroker | None:
    """The broker over `directory`/data that a run which was killed has left, if it answers."""
    try:
        broker = RunningBroker(**json.loads((directory / NOTE).read_text(encoding="utf-8")))
        assert broker.process_id is not None
        os.kill(broker.process_id, 0)
    except (OSError, ValueError, TypeError):
        return None
    return broker if _answers(broker.servers) else None


def check(servers: str) -> None:
    """Whether a broker that the user names is there.

    Raises:
        BrokerNotStartedError: it is not.
    """
    if not _answers(servers):
        raise BrokerNotStartedError(
            f"no broker answers at {servers}: start one there, or leave --bootstrap-server out"
        )


def _answers(servers: str) -> bool:
    """Whether a broker answers to a client."""
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
