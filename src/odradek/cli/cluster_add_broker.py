"""`odradek cluster add-broker`: prepares a new broker of a cluster that runs.

The command asks the cluster for its id, its voters, and the settings that all brokers share. It
writes these files, as `odradek cluster start` does for each of its nodes:

    DIR/server.properties    the configuration
    DIR/data                 the log directory, formatted for the cluster
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from odradek.cli.broker_template import PLAIN, Template, read_template, with_own_keys
from odradek.cli.cluster_start import write_properties
from odradek.cli.options import cluster_options, connected
from odradek.cli.output import note
from odradek.cli.values import now_ms
from odradek.client.admin.cluster import (
    ClusterInfo,
    Quorum,
    VoterAddress,
    describe_cluster,
    describe_quorum,
)
from odradek.client.admin.configs import Resource, describe_configs
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.config.listeners import Listener
from odradek.env.network import SocketNetwork
from odradek.model.config_resource import ResourceType

SHARED = (
    "default.replication.factor",
    "min.insync.replicas",
    "num.partitions",
    "auto.create.topics.enable",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
    "replica.lag.time.max.ms",
)
"""Settings that should be equal on all brokers. Those that a running broker has set are copied."""
CONNECT_SECONDS = 5.0
_LOOPBACK = ("localhost", "127.", "::1")


@click.command("add-broker")
@click.option(
    "--node-id",
    type=click.IntRange(0),
    metavar="N",
    help="The id of the new broker.  [default: the highest id of the cluster plus 1]",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port for clients.  [default: 9092, or that of the other broker, or the next free port]",
)
@click.option(
    "--host",
    metavar="HOST",
    help="Address to listen on, which other nodes and clients use.  [default: 127.0.0.1 if the "
    "cluster is on this machine, else all addresses of this machine]",
)
@click.option("--rack", metavar="NAME", help="The rack of the broker (broker.rack).")
@click.option(
    "--directory",
    "-d",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the new broker.  [default: ~/.local/share/odradek-broker-N]",
)
@click.option(
    "--like",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The server.properties of another broker. The new one gets its listeners (with free "
    "ports) and its settings of TLS, SASL and ACLs.",
)
@click.option("--start", is_flag=True, help="Run the broker, until Ctrl-C.")
@cluster_options
@click.pass_context
def add_broker(
    context: click.Context,
    node_id: int | None,
    port: int | None,
    host: str | None,
    rack: str | None,
    directory: Path | None,
    like: Path | None,
    start: bool,
) -> int | None:
    """Prepare a new broker of the cluster on this machine.

    The command writes the configuration of the broker, and formats its log directory with the id of
    the cluster. `odradek serve` then runs the broker. Its listener is PLAINTEXT. If the nodes use
    TLS or SASL among themselves, name the configuration of another broker with `--like`. If `odradek
    cluster start` runs the cluster, use its directory: with `--directory DIR/N`, later starts of
    the cluster also run the new broker N.

    \b
    Examples:
      odradek cluster add-broker -b host1:9092
      odradek cluster add-broker -b host1:9092 --host host4 --rack c
      odradek cluster add-broker -b host1:9092 -d /var/lib/odradek
      odradek cluster add-broker --start

    \b
    For a cluster of odradek secure init:
      odradek cluster add-broker --like cluster/server-1.properties \\
        --command-config cluster/client.properties
    """
    template = PLAIN if like is None else read_template(like)
    with connected() as client:
        info, quorum = describe_cluster(client), describe_quorum(client)
        shared = _shared_settings(client, info)
        protocol = client.security.protocol
    node_id = _checked_id(info, quorum, node_id)
    home = (directory or _default_directory(node_id)).absolute()
    if (home / "server.properties").exists():
        raise click.ClickException(
            f"{home} already has a node. To run it: odradek serve --config "
            f"{home / 'server.properties'}"
        )
    is_here = all(each.address.host.startswith(_LOOPBACK) for each in info.brokers)
    if host is None:
        host = "127.0.0.1" if is_here else ""
    settings = {
        "process.roles": "broker",
        "node.id": str(node_id),
        "listeners": ",".join(map(str, _with_free_ports(template.listeners, host, port))),
        **_quorum_settings(quorum),
        "log.dirs": str(home / "data"),
        **shared,
    }
    if rack is not None:
        settings["broker.rack"] = rack
    secured, keys_of_other = with_own_keys(template, node_id, host)
    _write(home, settings | secured, info.cluster_id)
    click.echo(f"Prepared broker {node_id} in {home}")
    properties = home / "server.properties"
    _note_what_is_missing(template, keys_of_other, protocol, properties)
    if start:
        from odradek.cli.serve import serve

        code: int = context.invoke(serve, file=properties)
        return code
    note(f"To run it:            odradek serve --config {properties}")
    note("To give it replicas:  odradek cluster rebalance")
    return None


def _note_what_is_missing(
    template: Template, keys_of_other: list[str], protocol: str, properties: Path
) -> None:
    """Say why the broker cannot join yet. `protocol` is that of the client."""
    if keys_of_other:
        note(
            f"Change {', '.join(keys_of_other)} in {properties}: the key is that of broker "
            f"{template.node_id}."
        )
    elif template is PLAIN and protocol != "PLAINTEXT":
        note(
            f"Its listener is PLAINTEXT, but you are connected with {protocol}. If the nodes use "
            "TLS or SASL among themselves, it cannot join. To give it the settings of another broker, "
            f"remove {properties.parent}, and repeat the command with --like FILE."
        )


def _default_directory(node_id: int) -> Path:
    from odradek.config.load import default_data_directory

    path = Path(default_data_directory(os.environ))
    return path.with_name(f"{path.name}-broker-{node_id}")


def _checked_id(info: ClusterInfo, quorum: Quorum, wanted: int | None) -> int:
    used = {each.id for each in info.brokers}
    used.update(each.id for each in (*quorum.voters, *quorum.observers) if each.id >= 0)
    if wanted is None:
        return max(used, default=0) + 1
    if wanted in used:
        ids = ", ".join(map(str, sorted(used)))
        raise ClientError(
            f"the cluster already has a node {wanted}",
            f"Choose an id other than {ids}, or omit --node-id.",
        )
    return wanted


def _with_free_ports(
    listeners: Sequence[Listener], host: str, wanted: int | None
) -> Iterator[Listener]:
    """Yield the listeners with another host. If a port is not free, take the next one that is.

    The first listener has the wanted port.

    Raises:
        ClickException: the wanted port, or all ports, cannot be used.
    """
    taken: set[int] = set()
    for each in listeners:
        if wanted is not None and not taken:
            problem = _why_not(host, wanted)
            if problem is not None:
                raise click.ClickException(
                    f"cannot listen on {host or '*'}:{wanted}: {problem}. Choose another address with "
                    "--host and --port."
                )
            port = wanted
        else:
            ports = (port for port in range(each.port, 65_536) if port not in taken)
            found = next((port for port in ports if _why_not(host, port) is None), None)
            if found is None:
                raise click.ClickException("this machine has no free port")
            port = found
        taken.add(port)
        yield each._replace(host=host, port=port)


def _why_not(host: str, port: int) -> str | None:
    """Return why a node cannot listen there; None if it can."""
    try:
        SocketNetwork().bind(host, port).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _quorum_settings(quorum: Quorum) -> dict[str, str]:
    """Return the settings that name the controllers.

    Raises:
        ClientError: the controllers cannot be reached from this machine.
    """
    if not quorum.addresses:
        raise ClientError(
            "the cluster does not report the addresses of its controllers",
            "Write controller.quorum.voters yourself, as in the configuration of another broker.",
        )
    _check_reachable(quorum.addresses)
    first: dict[int, VoterAddress] = {}
    for each in quorum.addresses:
        first.setdefault(each.id, each)
    names = list(dict.fromkeys(each.listener for each in quorum.addresses))
    settings = {"controller.listener.names": ",".join(names)}
    is_static = not any(any(each.directory_id) for each in quorum.voters)
    if is_static:
        voters = (f"{each.id}@{each.address}" for each in first.values())
        settings["controller.quorum.voters"] = ",".join(voters)
    else:
        servers = ",".join(str(each.address) for each in first.values())
        settings["controller.quorum.bootstrap.servers"] = servers
    return settings


def _check_reachable(addresses: Sequence[VoterAddress]) -> None:
    failures = []
    for each in addresses:
        try:
            socket.create_connection(each.address, CONNECT_SECONDS).close()
        except OSError as error:
            failures.append(f"controller {each.id} at {each.address}: {error.strerror or error}")
        else:
            return
    raise ClientError(
        f"no controller can be reached from this machine: {'; '.join(failures)}",
        "A new broker needs a controller listener (controller.listener.names) that other nodes can "
        "reach. A node that `odradek` runs without configuration has none: see `odradek cluster "
        "start`.",
    )


def _shared_settings(cluster: Cluster, info: ClusterInfo) -> dict[str, str]:
    """Return the shared settings that a running broker has set."""
    running = [each.id for each in info.unfenced]
    if not running:
        return {}
    resource = Resource(ResourceType.BROKER, str(running[0]))
    found = describe_configs(cluster, [resource], names=SHARED)[resource]
    if isinstance(found, ClientError):
        raise found
    return {each.name: each.value for each in found if each.is_set and each.value is not None}


def _write(home: Path, settings: dict[str, str], cluster_id: str) -> None:
    """Format the log directory, and write the configuration."""
    from odradek.config.checks import ConfigurationError
    from odradek.config.load import load
    from odradek.env.file_system import OsFileSystem
    from odradek.env.randomness import system_random_bytes
    from odradek.node.format import FormatError, Formatter

    try:
        config = load(settings, {}, environment=os.environ).config
        formatter = Formatter(config, OsFileSystem(), system_random_bytes, now_ms())
        known = formatter.read()
        if known is not None:
            raise FormatError(f"{home / 'data'} already has data of cluster {known.cluster_id}")
        home.mkdir(parents=True, exist_ok=True)
        formatter.format(cluster_id, False)
    except (ConfigurationError, FormatError, OSError) as error:
        raise click.ClickException(str(error)) from error
    write_properties(home / "server.properties", settings)
