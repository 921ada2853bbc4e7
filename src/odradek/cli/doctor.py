"""`odradek doctor`: whether clients can reach a node, and if not, why and what to do.

With a configuration, the listeners are checked before the node starts: the command tries to listen on
their ports, looks up the advertised hosts, and makes a TLS handshake in memory, like a client that
connects to the advertised host. The controllers of the quorum are asked, too (`doctor_quorum`). Without a configuration, it connects to each broker of a running
cluster, at the address that the cluster advertises.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.arguments import parse_pairs
from odradek.cli.node_options import read_settings, settings_options
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, number, print_json, print_table, styled
from odradek.cli.problems import print_problems
from odradek.env.network import HostUnknown, SocketNetwork
from odradek.operations.listener_health import ListenerFacts, diagnose, is_authenticated
from odradek.operations.problems import Problem, Severity, problems_json

if TYPE_CHECKING:
    from odradek.config.broker_config import BrokerConfig
    from odradek.config.listeners import Listener

_ADVICE_OF_NODE = (
    "If the node runs, it may wait for the other controllers. See its log, or run on its machine: "
    "odradek doctor --config FILE"
)
TIMEOUT_MS = 10_000
"""How long to wait for brokers, if `--timeout` is not given."""


@click.command()
@settings_options
@json_option
@cluster_options
def doctor(file: Path | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Explain why clients cannot reach a node or a cluster.

    With --config (or --override) the command checks the listeners of a node that does not run yet:
    ports, advertised addresses, certificates, and who may connect. It also asks the controllers that
    the configuration names, as the node would: who refuses it, or cannot be reached. Otherwise it connects to each
    broker of a cluster, at the address that clients are told. The exit code is 1 if something is
    broken.

    \b
    Examples:
      odradek doctor                             # can I reach all brokers?
      odradek doctor --config server.properties  # on the machine of the node
    """
    if file is None and not overrides:
        rows, problems = _check_cluster()
        columns = [number("Broker"), Column("Address"), Column("From here")]
    else:
        rows, problems = _check_node(file, overrides)
        columns = [Column("Listener"), Column("Listens on"), Column("Protocol")]
        columns.append(Column("Clients are told"))
    is_broken = any(each.severity is Severity.BROKEN for each in problems)
    if as_json:
        names = [each.title.lower().replace(" ", "_") for each in columns]
        print_json(
            {
                "broken": is_broken,
                "problems": problems_json(problems),
                "checked": [dict(zip(names, row, strict=True)) for row in rows],
            }
        )
    else:
        _print(columns, rows, problems)
    return 1 if is_broken else 0


def _print(
    columns: Sequence[Column], rows: Sequence[Sequence[object]], problems: Sequence[Problem]
) -> None:
    if not problems:
        click.echo(styled("No problem was found.", fg="green", bold=True))
    print_problems(problems)
    if rows:
        click.echo()
        print_table(columns, rows)


# -- a cluster that runs --------------------------------------------------------------------------


def _check_cluster() -> tuple[list[list[object]], list[Problem]]:
    from odradek.client.errors import UnreachableError

    try:
        return _check_brokers()
    except UnreachableError as error:
        raise UnreachableError(str(error), f"{error.advice}\n{_ADVICE_OF_NODE}") from error


def _check_brokers() -> tuple[list[list[object]], list[Problem]]:
    from odradek.operations.cluster_health import reach

    rows: list[list[object]] = []
    problems: list[Problem] = []
    with connected(TIMEOUT_MS) as cluster:
        for node, error in reach(cluster).items():
            rows.append([node.id, str(node.address), "cannot be reached" if error else "answers"])
            if error is not None:
                problems.append(Problem(Severity.BROKEN, str(error), error.advice))
    return rows, problems


# -- a node that does not run yet -----------------------------------------------------------------


def _check_node(
    file: Path | None, overrides: Sequence[str]
) -> tuple[list[list[object]], list[Problem]]:
    from odradek.cli import doctor_quorum
    from odradek.config.checks import ConfigurationError
    from odradek.config.load import default_data_directory, load

    settings = read_settings(file)
    try:
        data = default_data_directory(os.environ)
        loaded = load(settings, parse_pairs(overrides), data, os.environ)
    except ConfigurationError as error:
        advice = "The node does not start with this setting. See docs/configuration.md."
        return [], [Problem(Severity.BROKEN, line, advice) for line in str(error).splitlines()]
    listeners = _facts(loaded.config)
    problems = [*diagnose(listeners), *doctor_quorum.check(loaded.config)]
    problems += [
        Problem(Severity.NOTE, each, "See docs/configuration.md.") for each in loaded.warnings
    ]
    return [_row(each) for each in listeners], problems


def _row(facts: ListenerFacts) -> list[object]:
    told = "the address that they dial"
    if facts.advertised_host:
        told = f"{facts.advertised_host}:{facts.advertised_port}"
    where = f"{facts.host or '*'}:{facts.port}"
    return [facts.name, where, facts.protocol, None if facts.is_controller else told]


def _facts(config: BrokerConfig) -> list[ListenerFacts]:
    advertised = {each.name: each for each in config.advertised_listeners}
    return [_facts_of(config, each, advertised.get(each.name)) for each in config.listeners]


def _facts_of(
    config: BrokerConfig, listener: Listener, advertised: Listener | None
) -> ListenerFacts:
    from odradek.cli import certificate_check

    tls = config.tls_by_listener.get(listener.name)
    own_host = SocketNetwork().own_host
    host = for_nodes = ""
    if advertised is not None and not config.needs_own_host(advertised):
        host = advertised.host
    elif listener.name in config.advertised_by_setting:
        host = own_host()
    elif advertised is not None and not config.is_alone:
        for_nodes = own_host()
    return ListenerFacts(
        listener.name,
        listener.host,
        listener.port,
        listener.security_protocol,
        host,
        0 if advertised is None else advertised.port,
        host_for_nodes=for_nodes,
        is_controller=advertised is None,
        is_authenticated=is_authenticated(config, listener.name),
        bind_problem=_bind_problem(listener.host, listener.port),
        host_problem=_host_problem(host),
        certificate=None if tls is None else certificate_check.check(tls, host or for_nodes),
    )


def _bind_problem(host: str, port: int) -> str | None:
    """Return why this machine does not let a program listen at an address; None if it does."""
    try:
        made = SocketNetwork().bind(host, port)
    except HostUnknown as error:
        return error.strerror
    except OSError as error:
        return os.strerror(error.errno or 0)
    try:
        made.listen(1)
    except OSError as error:
        return os.strerror(error.errno or 0)
    finally:
        made.close()
    return None


def _host_problem(host: str) -> str | None:
    if not host:
        return None
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return error.strerror or str(error)
    return None
