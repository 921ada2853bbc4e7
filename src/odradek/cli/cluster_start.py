"""`odradek cluster start`: runs a cluster on this machine, with one process for each node.

Each node has a directory in the cluster's directory:

    DIR/1/server.properties    the configuration; it is written once, so a user may change it
    DIR/1/data                 the log directory
    DIR/1/output               what the process has written to stdout and stderr

The first nodes, at most three, are brokers and controllers. The others are only brokers. If a
process ends before all nodes are ready, the command fails and stops all nodes. Later, a process
that ends is started again, unless it has ended three times in 30 seconds. Ctrl-C and SIGTERM stop
all nodes.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from types import FrameType

import click

from odradek.cli.output import note, styled, warn

HOST = "127.0.0.1"
DEFAULT_PORT = 9092
CONTROLLER_PORTS_AFTER = 100
"""The controller's port of a node is its port for clients plus this number."""
CONTROLLERS_MAX = 3
REPLICAS_MAX = 3
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1
RESTARTS_MAX = 3
"""A process that has ended this often in `RESTARTS_SECONDS` is not started again."""
RESTARTS_SECONDS = 30.0


class _Process:
    """The process of one node."""

    def __init__(self, node_id: int, directory: Path, port: int) -> None:
        self.node_id = node_id
        self.directory = directory
        self.port = port
        self.is_given_up = False
        self._process: subprocess.Popen[bytes] | None = None
        self._ends: deque[float] = deque(maxlen=RESTARTS_MAX)

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def start(self) -> None:
        """Start the process. It ignores the terminal's Ctrl-C, so that this command stops it."""
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
        assert self._process is not None
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code, or None if the process runs."""
        assert self._process is not None
        return self._process.poll()

    def should_restart(self, now: float) -> bool:
        """Note that the process has ended; return whether to start it again."""
        self._ends.append(now)
        is_often = len(self._ends) == RESTARTS_MAX and now - self._ends[0] < RESTARTS_SECONDS
        self.is_given_up = is_often
        return not is_often

    def terminate(self) -> None:
        if self.exit_code() is None:
            assert self._process is not None
            self._process.terminate()

    def wait(self, seconds: float) -> bool:
        """Return whether the process ended in time. If not, kill it."""
        assert self._process is not None
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True

    def is_listening(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=1.0).close()
        except OSError:
            return False
        return True


@click.command("start")
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Number of nodes. The directory's configuration files determine it on later starts.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65000),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the first node. The other nodes use the following ports.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the cluster.  [default: ~/.local/share/odradek-cluster]",
)
def start(nodes: int, port: int, data: Path | None) -> int:
    """Run a cluster on this machine, with one process for each node.

    The nodes listen on 127.0.0.1. Ctrl-C stops all nodes, and keeps their data. A process that ends
    is started again, so you can try `kill -9`. A process that ends three times in 30 seconds is not
    started again.

    \b
    Examples:
      odradek cluster start
      odradek cluster start --nodes 5 --port 29092 --data /tmp/cluster
    """
    directory = (data or _default_directory()).absolute()
    processes = _existing(directory) or _create(directory, nodes, port)
    if len(processes) != nodes:
        warn(f"{directory} has {len(processes)} nodes; --nodes {nodes} has no effect")
    busy = [each.port for each in processes if each.is_listening()]
    if busy:
        raise click.ClickException(
            f"another process listens on port {busy[0]}. Stop it, or choose other ports for a new "
            "cluster with --port and --data."
        )
    return _Supervisor(processes, directory).run()


def _default_directory() -> Path:
    from odradek.config.load import default_data_directory

    path = Path(default_data_directory(os.environ))
    return path.with_name(f"{path.name}-cluster")


def _existing(directory: Path) -> list[_Process]:
    """Return the nodes of an existing cluster, in the order of their ids."""
    from odradek.config.load import read_file

    found = []
    for path in directory.glob("*/server.properties"):
        settings = read_file(path)
        listener = settings["listeners"].split(",")[0]
        port = int(listener.rpartition(":")[2])
        found.append(_Process(int(settings["node.id"]), path.parent, port))
    return sorted(found, key=lambda each: each.node_id)


def _create(directory: Path, nodes: int, port: int) -> list[_Process]:
    """Write the configuration files of a new cluster, and format its directories."""
    from odradek.cli.values import now_ms
    from odradek.config.load import load
    from odradek.env.file_system import OsFileSystem
    from odradek.env.randomness import system_random_bytes
    from odradek.model import uuids
    from odradek.node.format import Formatter

    cluster_id = uuids.to_text(uuids.make(system_random_bytes(16)))
    made = []
    for node_id in range(1, nodes + 1):
        home = directory / str(node_id)
        process = _Process(node_id, home, port + node_id - 1)
        settings = _settings(node_id, nodes, port, home)
        config = load(settings, {}).config
        home.mkdir(parents=True, exist_ok=True)
        Formatter(config, OsFileSystem(), system_random_bytes, now_ms()).format(cluster_id, False)
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        process.properties.write_text(lines, encoding="utf-8")
        made.append(process)
    return made


def _settings(node_id: int, nodes: int, port: int, home: Path) -> dict[str, str]:
    controllers = range(1, 1 + min(nodes, CONTROLLERS_MAX))
    controller_port = port + CONTROLLER_PORTS_AFTER - 1
    replicas = min(nodes, REPLICAS_MAX)
    listeners = [f"PLAINTEXT://{HOST}:{port + node_id - 1}"]
    if node_id in controllers:
        listeners.append(f"CONTROLLER://{HOST}:{controller_port + node_id}")
    return {
        "process.roles": "broker,controller" if node_id in controllers else "broker",
        "node.id": str(node_id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(
            f"{each}@{HOST}:{controller_port + each}" for each in controllers
        ),
        "log.dirs": str(home / "data"),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(max(1, replicas - 1)),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
    }


class _Supervisor:
    """Starts the processes, starts them again when they end, and stops them."""

    def __init__(self, processes: list[_Process], directory: Path) -> None:
        self._processes = processes
        self._directory = directory
        self._is_stopping = False

    def run(self) -> int:
        """Run until a signal comes. Return the exit code."""
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        for each in self._processes:
            each.start()
        try:
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
        """Wait until all nodes accept clients. Return False if a signal has come.

        Raises:
            ClickException: a process has ended, or the nodes are not ready in time.
        """
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

    def _greet(self) -> None:
        note(styled(f"A cluster of {len(self._processes)} nodes", bold=True))
        for each in self._processes:
            where = styled(f"{HOST}:{each.port}", fg="green")
            note(f"  node {each.node_id:<4} {where}   process {each.pid}   {each.directory}")
        bootstrap = f"{HOST}:{self._processes[0].port}"
        note(f"  look at it  odradek cluster describe -b {bootstrap}")
        note(f"  say hello   odradek produce -b {bootstrap} greetings hello")
        note("Ctrl-C stops all nodes.")

    def _watch(self) -> None:
        """Start processes again that have ended."""
        for each in self._processes:
            code = None if each.is_given_up else each.exit_code()
            if code is None or self._is_stopping:
                continue
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            if each.should_restart(time.monotonic()):
                each.start()
                warn(f"node {each.node_id} ended ({how}); started again as process {each.pid}")
            else:
                warn(
                    f"node {each.node_id} has ended {RESTARTS_MAX} times ({how}) and is not started "
                    f"again. Its output is {each.output}"
                )

    def _stop(self) -> bool:
        """Stop all processes. Return whether all ended in time."""
        note("Stopping …")
        for each in self._processes:
            each.terminate()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        ended = [each.wait(deadline - time.monotonic()) for each in self._processes]
        return all(ended)
