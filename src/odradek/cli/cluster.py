"""`odradek cluster`: describe, api-versions. Modules `cluster_*` have the other commands."""

from __future__ import annotations

from dataclasses import dataclass

import click

from odradek.cli.cluster_add_broker import add_broker
from odradek.cli.cluster_drain import drain, rebalance, remove, unregister
from odradek.cli.cluster_feature import feature
from odradek.cli.cluster_start import start
from odradek.cli.cluster_status import status
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, number, print_fields, print_json, print_table, styled, warn
from odradek.cli.values import now_ms
from odradek.client.admin.cluster import (
    ClusterInfo,
    Feature,
    LogDir,
    Quorum,
    QuorumReplica,
    api_versions,
    describe_cluster,
    describe_quorum,
    features,
)
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model import uuids
from odradek.operations.cluster_health import read_log_dirs
from odradek.operations.texts import duration_text, size_text
from odradek.wire.api import BY_KEY


@click.group()
def cluster() -> None:
    """Run a cluster on this machine, show the state of a cluster, add and remove brokers.

    \b
    Examples:
      odradek cluster start --nodes 3
      odradek cluster status
      odradek cluster describe
    """


for each in (start, status, feature, add_broker, drain, remove, unregister, rebalance):
    cluster.add_command(each)


@dataclass(frozen=True, slots=True)
class _Facts:
    info: ClusterInfo
    features: list[Feature]
    quorum: Quorum | ClientError
    log_dirs: dict[int, list[LogDir] | ClientError]


def _gather(cluster: Cluster) -> _Facts:
    info = describe_cluster(cluster)
    quorum: Quorum | ClientError
    try:
        quorum = describe_quorum(cluster)
    except ClientError as error:
        quorum = error
    return _Facts(info, features(cluster.any()), quorum, read_log_dirs(cluster, info))


@cluster.command()
@json_option
@cluster_options
def describe(as_json: bool) -> None:
    """Show the cluster's id, controller, brokers, log directories, quorum and features.

    \b
    Example:
      odradek cluster describe --json
    """
    with connected() as client:
        facts = _gather(client)
    if as_json:
        print_json(_as_json(facts))
        return
    print_fields([("Cluster", facts.info.cluster_id), ("Controller", _controller(facts))])
    _section("Brokers")
    print_table(
        [number("Id"), Column("Address"), Column("Rack"), Column("State")],
        ([b.id, b.address, b.rack, "fenced" if b.fenced else "alive"] for b in facts.info.brokers),
        indent=2,
    )
    _section("Log directories")
    _print_log_dirs(facts.log_dirs)
    if isinstance(facts.quorum, Quorum):
        _section("Quorum")
        _print_quorum(facts.quorum)
    _section("Features")
    print_table(
        [Column("Feature"), number("Level"), Column("Supported")],
        ([f.name, f.level, _range(*f.supported)] for f in facts.features),
        indent=2,
    )
    for error in (facts.quorum, *facts.log_dirs.values()):
        if isinstance(error, ClientError):
            warn(str(error))


def _section(title: str) -> None:
    click.echo(f"\n{styled(title, bold=True, underline=True)}")


def _controller(facts: _Facts) -> str:
    if isinstance(facts.quorum, Quorum):
        return f"node {facts.quorum.leader_id}, epoch {facts.quorum.leader_epoch}"
    return f"reached through broker {facts.info.controller_id}"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _print_log_dirs(log_dirs: dict[int, list[LogDir] | ClientError]) -> None:
    columns = [
        number("Broker"),
        Column("Path"),
        number("Partitions"),
        number("Size"),
        number("Free"),
        number("Of"),
    ]
    rows = []
    for broker_id, directories in log_dirs.items():
        if isinstance(directories, ClientError):
            continue
        for each in directories:
            if each.error is not None:
                rows.append([broker_id, each.path, f"failed: {each.error}", None, None, None])
                continue
            sizes = (sum(each.sizes.values()), each.usable_bytes, each.total_bytes)
            rows.append([broker_id, each.path, len(each.sizes), *map(size_text, sizes)])
    print_table(columns, rows, indent=2)


def _print_quorum(quorum: Quorum) -> None:
    columns = [
        number("Node"),
        Column("Role"),
        number("Log end"),
        number("Behind"),
        Column("Last seen"),
    ]
    rows = []
    for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for each in replicas:
            name = "leader" if each.id == quorum.leader_id else role
            behind = max(0, quorum.high_watermark - each.log_end_offset)
            rows.append([each.id, name, each.log_end_offset, behind, _last_seen(each)])
    print_table(columns, rows, indent=2)


def _last_seen(replica: QuorumReplica) -> str | None:
    if replica.last_fetch_ms < 0:
        return None
    return f"{duration_text(max(0, now_ms() - replica.last_fetch_ms))} ago"


def _as_json(facts: _Facts) -> dict[str, object]:
    quorum = facts.quorum
    return {
        "cluster_id": facts.info.cluster_id,
        "brokers": [
            {
                "id": b.id,
                "host": b.address.host,
                "port": b.address.port,
                "rack": b.rack,
                "fenced": b.fenced,
                "log_dirs": _log_dirs_json(facts.log_dirs.get(b.id, [])),
            }
            for b in facts.info.brokers
        ],
        "features": [
            {"name": f.name, "level": f.level, "supported": f.supported} for f in facts.features
        ],
        "quorum": None
        if isinstance(quorum, ClientError)
        else {
            "leader": quorum.leader_id,
            "epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": [_replica_json(each) for each in quorum.voters],
            "observers": [_replica_json(each) for each in quorum.observers],
        },
    }


def _log_dirs_json(directories: list[LogDir] | ClientError) -> object:
    if isinstance(directories, ClientError):
        return None
    return [
        {
            "path": d.path,
            "error": None if d.error is None else str(d.error),
            "partitions": len(d.sizes),
            "size_bytes": sum(d.sizes.values()),
            "usable_bytes": d.usable_bytes,
            "total_bytes": d.total_bytes,
        }
        for d in directories
    ]


def _replica_json(replica: QuorumReplica) -> dict[str, object]:
    return {
        "id": replica.id,
        "directory_id": uuids.to_text(replica.directory_id),
        "log_end_offset": replica.log_end_offset,
        "last_fetch_ms": replica.last_fetch_ms,
        "last_caught_up_ms": replica.last_caught_up_ms,
    }


@cluster.command("api-versions")
@click.option("--broker", type=int, metavar="ID", help="The broker's id. By default any broker.")
@json_option
@cluster_options
def api_versions_command(broker: int | None, as_json: bool) -> None:
    """Show which APIs a broker offers, and in which versions.

    \b
    Example:
      odradek cluster api-versions --broker 1
    """
    with connected() as client:
        connection = client.any() if broker is None else client.node(broker)
        ranges = api_versions(connection)
    rows = [
        (each.key, BY_KEY[each.key].name if each.key in BY_KEY else "?", each) for each in ranges
    ]
    if as_json:
        print_json(
            [
                {"key": key, "name": name, "min": each.version_min, "max": each.version_max}
                for key, name, each in rows
            ]
        )
        return
    print_table(
        [number("Key"), Column("API"), Column("Versions"), Column("Known here")],
        (
            [key, name, _range(each.version_min, each.version_max), _known(key)]
            for key, name, each in rows
        ),
    )


def _known(key: int) -> str | None:
    api = BY_KEY.get(key)
    return None if api is None else _range(api.version_min, api.version_max)
