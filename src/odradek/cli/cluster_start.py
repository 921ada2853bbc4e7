"""`odradek cluster start`: runs a cluster on this machine, with one process for each node.

Each node has a directory in the cluster's directory:

    DIR/1/server.properties    the configuration; it is written once, so a user may change it
    DIR/1/data                 the log directory
    DIR/1/output               what the process has written to stdout and stderr

The first nodes, at most three, are brokers and controllers. The others are only brokers. The module
`supervisor` runs the processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from odradek.cli.output import note, styled, warn
from odradek.cli.secret_files import write_secret
from odradek.cli.supervisor import NodeProcess, Supervisor

HOST = "127.0.0.1"
DEFAULT_PORT = 9092
CONTROLLER_PORTS_AFTER = 100
"""The controller's port of a node is its port for clients plus this number."""
CONTROLLERS_MAX = 3
REPLICAS_MAX = 3


@click.command("start")
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Number of nodes of a new cluster. Later starts run the nodes in the directory.",
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
    is started again, so you can try `kill -9`. If it ends again within 30 seconds, there is a pause
    before the next start, of half a second at first and of at most 30 seconds.

    \b
    Examples:
      odradek cluster start
      odradek cluster start --nodes 5 --port 29092 --data /tmp/cluster
    """
    directory = (data or _default_directory()).absolute()
    processes = _existing(directory) or _create(directory, nodes, port)
    if len(processes) != nodes:
        warn(f"{directory} has {len(processes)} nodes; --nodes {nodes} has no effect")
    return Supervisor(processes, lambda: _greet(processes)).run()


def _default_directory() -> Path:
    from odradek.config.load import default_data_directory

    path = Path(default_data_directory(os.environ))
    return path.with_name(f"{path.name}-cluster")


def _existing(directory: Path) -> list[NodeProcess]:
    """Return the nodes of an existing cluster, in the order of their ids."""
    from odradek.config.load import read_file

    found = []
    for path in directory.glob("*/server.properties"):
        settings = read_file(path)
        listener = settings["listeners"].split(",")[0]
        port = int(listener.rpartition(":")[2])
        is_controller = "controller" in settings["process.roles"]
        node_id = int(settings["node.id"])
        found.append(NodeProcess(node_id, path.parent, (HOST, port), is_controller))
    return sorted(found, key=lambda each: each.node_id)


def _create(directory: Path, nodes: int, port: int) -> list[NodeProcess]:
    """Write the configuration files of a new cluster, and format its directories."""
    ids = range(1, nodes + 1)
    settings = {each: _settings(each, nodes, port, directory / str(each)) for each in ids}
    prepare(directory, settings)
    return [
        NodeProcess(each, directory / str(each), (HOST, port + each - 1), each <= CONTROLLERS_MAX)
        for each in settings
    ]


def prepare(
    directory: Path, settings: Mapping[int, Mapping[str, str]], cluster_id: str | None = None
) -> None:
    """Write the configuration files of nodes, and format those directories that are not formatted.

    `settings` has the settings of each node by its id. If `cluster_id` is None, it is that of the
    formatted directories, or random.

    Raises:
        ClickException: a directory belongs to another cluster or node.
    """
    from odradek.cli.values import now_ms
    from odradek.config.load import load
    from odradek.env.file_system import OsFileSystem
    from odradek.env.randomness import system_random_bytes
    from odradek.model import uuids
    from odradek.node.format import FormatError, Formatter

    formatters = {
        node_id: Formatter(
            load(each, {}, environment=os.environ).config,
            OsFileSystem(),
            system_random_bytes,
            now_ms(),
        )
        for node_id, each in settings.items()
    }
    try:
        known = {node_id: each.read() for node_id, each in formatters.items()}
        ids = {each.cluster_id for each in known.values() if each is not None}
        if len(ids) > 1:
            raise FormatError(f"{directory} has data of several clusters: {', '.join(sorted(ids))}")
        if cluster_id is not None and not ids <= {cluster_id}:
            raise FormatError(f"{directory} has data of the cluster {', '.join(ids)}")
        if cluster_id is None:
            cluster_id = ids.pop() if ids else uuids.to_text(uuids.make(system_random_bytes(16)))
        for node_id, each in settings.items():
            home = directory / str(node_id)
            home.mkdir(parents=True, exist_ok=True)
            if known[node_id] is None:
                formatters[node_id].format(cluster_id, False)
            write_properties(home / "server.properties", each)
    except FormatError as error:
        raise click.ClickException(str(error)) from error


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a configuration file. Only its owner can read it, because it may have passwords."""
    from odradek.config.properties import format_properties

    write_secret(path, format_properties(settings))


def internal_replication(nodes: int) -> dict[str, str]:
    """Return the settings of the internal topics: three replicas, or one on each node if fewer."""
    replicas = min(nodes, REPLICAS_MAX)
    in_sync = max(1, replicas - 1)
    return {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


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
        **internal_replication(nodes),
    }


def _greet(processes: list[NodeProcess]) -> None:
    note(styled(f"A cluster of {len(processes)} nodes", bold=True))
    for each in processes:
        where = styled("{}:{}".format(*each.address), fg="green")
        note(f"  node {each.node_id:<4} {where}   process {each.pid}   {each.directory}")
    bootstrap = "{}:{}".format(*processes[0].address)
    note(f"  look at it  odradek cluster status -b {bootstrap}")
    note(f"  say hello   odradek produce -b {bootstrap} greetings hello")
    note("Ctrl-C stops all nodes.")
