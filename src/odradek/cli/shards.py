"""`odradek serve --shards N`: runs N nodes on this machine, to use more than one core.

A node serves its clients with one core. Shards are nodes of one cluster, each a process with its
own node id, ports and directories. Each shard leads some of the partitions. The shards have the
settings of the command line and of the configuration file. These settings differ:

    node.id                 the configured one (by default 1), and the following ones
    listeners               the configured ports, and the following ones
    log.dirs                a directory with the node's id, in each configured directory
    odradek.metrics.port    the configured port, and the following ones

The first shard is the only controller, so that the number of shards can grow. If the settings have
no `broker.rack`, it is the name of the machine. The module `supervisor` runs the processes. Their
configuration files are in `DIR/shards/ID/server.properties`, where DIR is the first log directory.
They are written at each start.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Mapping
from pathlib import Path

import click

from odradek.cli.cluster_start import internal_replication, prepare
from odradek.cli.node_options import load_node
from odradek.cli.output import note, styled, warn
from odradek.cli.supervisor import NodeProcess, Supervisor
from odradek.config.broker_config import BrokerConfig
from odradek.config.listeners import with_address
from odradek.config.load import FRIENDLY_DEFAULTS, When
from odradek.log.names import META_PROPERTIES

LISTENER = "CONTROLLER"
LOOPBACK = "127.0.0.1"
CONTROLLER_PORT_AFTER = 100
"""The controller's port of a shard is its port for clients plus this number."""
QUORUM = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
OWN = ("controller.listener.names", "process.roles", *QUORUM)


def run_shards(count: int, file: Mapping[str, str] | None, overrides: Mapping[str, str]) -> int:
    """Run the shards until a signal comes. Return the exit code.

    Raises:
        UsageError: the configuration does not fit shards.
        ClickException: a shard cannot start.
    """
    settings = {**(file or _without_file()), **overrides}
    given = [name for name in OWN if name in settings]
    if given:
        raise click.UsageError(
            f"--shards sets {given[0]} itself: remove it. Shards on several machines are not "
            "supported: run a node for each core with its own configuration instead."
        )
    loaded = load_node(file, overrides)
    for text in loaded.warnings:
        warn(text)
    config = loaded.config
    shards = shard_settings(count, settings, config)
    home = Path(config.log_dirs[0]).absolute() / "shards"
    _check_directories(config, home, list(shards))
    prepare(home, shards)
    first = config.broker_listeners[0]
    processes = [
        NodeProcess(each, home / str(each), (first.host or LOOPBACK, first.port + index), not index)
        for index, each in enumerate(shards)
    ]
    return Supervisor(processes, lambda: _greet(processes)).run()


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
    count: int, settings: Mapping[str, str], config: BrokerConfig
) -> dict[int, dict[str, str]]:
    """Return the settings of each shard by its node id. `config` has the values of `settings`.

    Raises:
        UsageError: a port is 0, or the ports of the shards overlap.
    """
    listeners = config.broker_listeners
    _check_ports(count, [each.port for each in listeners])
    controller_port = listeners[0].port + CONTROLLER_PORT_AFTER
    made = {}
    for index in range(count):
        node_id = config.node_id + index
        own = {
            **internal_replication(count),
            "broker.rack": platform.node() or "localhost",
            **settings,
            "node.id": str(node_id),
            "log.dirs": ",".join(f"{path}/{node_id}" for path in _absolute(config.log_dirs)),
            "controller.listener.names": LISTENER,
            "controller.quorum.voters": f"{config.node_id}@{LOOPBACK}:{controller_port}",
            "process.roles": "broker" if index else "broker,controller",
        }
        if "metadata.log.dir" in settings:
            own["metadata.log.dir"] = f"{Path(config.metadata_log_dir).absolute()}/{node_id}"
        text = settings.get("listeners") or f"{listeners[0].name}://:{listeners[0].port}"
        for each in listeners:
            text = with_address(text, each.name, None, each.port + index)
        if not index:
            text += f",{LISTENER}://{LOOPBACK}:{controller_port}"
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


def _greet(processes: list[NodeProcess]) -> None:
    note(styled(f"{len(processes)} shards", bold=True))
    for each in processes:
        where = styled("{}:{}".format(*each.address), fg="green")
        note(f"  shard {each.node_id:<4} {where}   process {each.pid}   {each.directory}")
    note("  look at them  odradek cluster status -b {}:{}".format(*processes[0].address))
    note("Ctrl-C stops all shards.")
