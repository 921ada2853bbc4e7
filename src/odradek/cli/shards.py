"""`odradek serve --shards N`: runs N nodes on this machine, to use more than one core.

A node serves its clients with one core. Shards are nodes of one cluster, each a process with its
own node id, ports and directories. Each shard leads some of the partitions. The shards have the
settings of the command line and of the configuration file. These settings differ:

    node.id                 the configured one (by default 1), and the following ones
    listeners               the configured ports, and the following ones
    log.dirs                a directory with the node's id, in each configured directory
    odradek.metrics.port    the configured port, and the following ones

Without `controller.quorum.voters`, the first shard is the only controller, so that the number of
shards can grow. Shards of one cluster can run on several machines. Then the command has the same
voters and the same cluster id on each machine, and other node ids. The shards that are voters are
controllers.

If the settings have no `broker.rack`, it is the name of the machine, so replicas are spread over
the machines. The module `supervisor` runs the processes. Their
configuration files are in `DIR/shards/ID/server.properties`, where DIR is the first log directory.
They are written at each start.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Mapping
from pathlib import Path

import click

from odradek.cli.client_settings import NO_FILE, security_option
from odradek.cli.cluster_start import internal_replication, prepare
from odradek.cli.node_options import load_node
from odradek.cli.output import note, styled, warn
from odradek.cli.supervisor import NodeProcess, Supervisor
from odradek.client.address import Address
from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError
from odradek.config.checks import voters as parse_voters
from odradek.config.listeners import with_address
from odradek.config.load import FRIENDLY_DEFAULTS, When
from odradek.env.randomness import system_random_bytes
from odradek.log.names import META_PROPERTIES
from odradek.model import uuids

LISTENER = "CONTROLLER"
LOOPBACK = "127.0.0.1"
CONTROLLER_PORT_AFTER = 100
"""The controller's port of a shard is its port for clients plus this number."""
VOTERS = "controller.quorum.voters"
OWN = ("controller.listener.names", "process.roles", "controller.quorum.bootstrap.servers")


def run_shards(
    count: int,
    file: Mapping[str, str] | None,
    overrides: Mapping[str, str],
    cluster_id: str | None = None,
    client_settings: Path | None = None,
) -> int:
    """Run the shards until a signal comes. Return the exit code.

    `cluster_id` is the id of a new cluster. By default it is random. `client_settings` is the file
    that clients use, if they need it.

    Raises:
        UsageError: the configuration does not fit shards.
        ClickException: a shard cannot start.
    """
    settings = {**(file or _without_file()), **overrides}
    given = [name for name in OWN if name in settings]
    if given:
        raise click.UsageError(
            f"--shards sets {given[0]} itself: remove it. For shards on several machines, set "
            f"{VOTERS} and --cluster-id."
        )
    voters = _voters(settings.get(VOTERS))
    loaded = load_node(_without_voters(file), _without_voters(overrides) or {})
    for text in loaded.warnings:
        warn(text)
    config = loaded.config
    shards = shard_settings(count, settings, config, voters)
    if cluster_id is None and not set(voters) <= set(shards):
        raise click.UsageError(
            f"shards on several machines need the same --cluster-id on each of them, for example "
            f"--cluster-id {uuids.to_text(uuids.make(system_random_bytes(16)))}"
        )
    home = Path(config.log_dirs[0]).absolute() / "shards"
    _check_directories(config, home, list(shards))
    try:
        prepare(home, shards, cluster_id)
    except ConfigurationError as error:
        raise click.UsageError(
            f"the settings do not fit shards, whose controller has the listener {LISTENER}: {error}"
        ) from error
    first = config.broker_listeners[0]
    processes = [
        NodeProcess(
            each,
            home / str(each),
            (first.host or LOOPBACK, first.port + index),
            "controller" in shards[each]["process.roles"],
        )
        for index, each in enumerate(shards)
    ]
    option = security_option(config, first.name, client_settings)
    return Supervisor(processes, lambda: _greet(processes, option)).run()


def _voters(text: str | None) -> dict[int, tuple[str, int]]:
    """Return host and port of the configured voters by id.

    Raises:
        UsageError: the setting is invalid.
    """
    entries = tuple(filter(None, map(str.strip, (text or "").split(","))))
    try:
        return parse_voters(VOTERS, entries)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def _without_voters(settings: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the settings of a node that is its own controller; None for None."""
    if settings is None:
        return None
    return {name: each for name, each in settings.items() if name != VOTERS}


def _without_file() -> dict[str, str]:
    """Return the defaults of a node without a configuration file. A shard always has a file."""
    return {each.name: each.value for each in FRIENDLY_DEFAULTS if each.when is When.NO_FILE}


def _check_directories(config: BrokerConfig, home: Path, ids: list[int]) -> None:
    """Check that the directories belong to these shards, or to fewer.

    Raises:
        ClickException: the directories belong to a single node, or to more shards.
    """
    for path in config.log_dirs:
        if Path(path, META_PROPERTIES).exists():
            raise click.ClickException(
                f"{path} has the data of a node without shards. Choose another directory with --data."
            )
    before = [int(each.name) for each in home.glob("*") if each.name.isdigit()]
    more = sorted(set(before).difference(ids))
    if more:
        raise click.ClickException(
            f"{config.log_dirs[0]} has the data of {len(before)} shards. Run all of them with "
            f"--shards {len(before)}. To have fewer, move their replicas away (odradek cluster drain "
            f"{more[-1]}), stop the shards, and remove {home / str(more[-1])}"
        )


def shard_settings(
    count: int,
    settings: Mapping[str, str],
    config: BrokerConfig,
    voters: Mapping[int, tuple[str, int]],
) -> dict[int, dict[str, str]]:
    """Return the settings of each shard by its node id. `config` has the values of `settings`.

    `voters` are the configured voters. If there are none, the first shard is the only voter.

    Raises:
        UsageError: a port is 0, or the ports of the shards overlap.
    """
    listeners = config.broker_listeners
    _check_ports(count, [each.port for each in listeners])
    voters = voters or {config.node_id: (LOOPBACK, listeners[0].port + CONTROLLER_PORT_AFTER)}
    made = {}
    for index in range(count):
        node_id = config.node_id + index
        own = {
            **internal_replication(max(count, len(voters))),
            "broker.rack": platform.node() or "localhost",
            **settings,
            "node.id": str(node_id),
            "log.dirs": ",".join(f"{path}/{node_id}" for path in _absolute(config.log_dirs)),
            "controller.listener.names": LISTENER,
            VOTERS: ",".join(f"{each}@{host}:{port}" for each, (host, port) in voters.items()),
            "process.roles": "broker,controller" if node_id in voters else "broker",
        }
        if "metadata.log.dir" in settings:
            own["metadata.log.dir"] = f"{Path(config.metadata_log_dir).absolute()}/{node_id}"
        text = settings.get("listeners") or f"{listeners[0].name}://:{listeners[0].port}"
        for each in listeners:
            text = with_address(text, each.name, None, each.port + index)
        if node_id in voters:
            text += ",{}://{}:{}".format(LISTENER, *voters[node_id])
        own["listeners"] = text
        advertised = settings.get("advertised.listeners")
        if advertised is not None:
            for each in config.advertised_listeners:
                advertised = with_address(advertised, each.name, None, each.port + index)
            own["advertised.listeners"] = advertised
        if config.odradek_metrics_port > 0:
            own["odradek.metrics.port"] = str(config.odradek_metrics_port + index)
        made[node_id] = own
    return made


def _absolute(paths: tuple[str, ...]) -> list[Path]:
    return [Path(each).absolute() for each in paths]


def _check_ports(count: int, ports: list[int]) -> None:
    if 0 in ports:
        raise click.UsageError("--shards needs fixed ports: choose another --port than 0")
    ordered = sorted(ports)
    for low, high in itertools.pairwise(ordered):
        if high - low < count:
            raise click.UsageError(
                f"the ports of the shards overlap: {count} shards use the ports {low} to "
                f"{low + count - 1}, and another listener begins at {high}"
            )


def _greet(processes: list[NodeProcess], security: str | None) -> None:
    """Print the addresses. `security` is an option of the command, or None if it needs a file."""
    note(styled(f"{len(processes)} shards", bold=True))
    for each in processes:
        where = styled("{}:{}".format(*each.address), fg="green")
        note(f"  shard {each.node_id:<4} {where}   process {each.pid}   {each.directory}")
    if security is None:
        note(f"  look at them  {NO_FILE}")
    else:
        address = Address(*processes[0].address)
        note(f"  look at them  odradek cluster status -b {address}{security}")
    note("Ctrl-C stops all shards.")
