"""`odradek doctor`: whether clients can reach a node, and if not, why and what to do.

With a configuration, the listeners are checked before the node starts: the command tries to listen on
their ports, looks up the advertised hosts, and makes a TLS handshake in memory, like a client that
connects to the advertised host. Without a configuration, it connects to each broker of a running
cluster, at the address that the cluster advertises.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.arguments import parse_pairs
from odradek.cli.cluster_health import Problem, Severity
from odradek.cli.listener_health import ListenerFacts, diagnose
from odradek.cli.node_options import read_settings
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, number, print_json, print_table, styled

if TYPE_CHECKING:
    from odradek.config.broker_config import BrokerConfig
    from odradek.config.listeners import Listener

DAY_SECONDS = 86_400
FLIGHTS_MAX = 10
"""A handshake needs less messages in each direction."""
TIMEOUT_MS = 10_000
"""How long to wait for brokers, if `--timeout` is not given."""
_MARKS = {
    Severity.NOTE: ("note", "cyan"),
    Severity.DEGRADED: ("warning", "yellow"),
    Severity.BROKEN: ("broken", "red"),
}


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Check the server.properties file of a node on this machine, before the node starts.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting that overrides the file; repeatable.",
)
@json_option
@cluster_options
def doctor(file: Path | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Explain why clients cannot reach a node or a cluster.

    With --config (or --override) the command checks the listeners of a node that does not run yet:
    ports, advertised addresses, certificates, and who may connect. Otherwise it connects to each
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
                "problems": [
                    {
                        "severity": _MARKS[each.severity][0],
                        "what": each.what,
                        "to_do": each.advice,
                    }
                    for each in problems
                ],
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
    for each in problems:
        mark, colour = _MARKS[each.severity]
        click.echo(f"{styled(mark, fg=colour, bold=True)}  {each.what}")
        click.echo(f"  {styled('to do', bold=True)}  {each.advice}")
    if rows:
        click.echo()
        print_table(columns, rows)


# -- a cluster that runs --------------------------------------------------------------------------


def _check_cluster() -> tuple[list[list[object]], list[Problem]]:
    from odradek.client.errors import ClientError

    rows: list[list[object]] = []
    problems: list[Problem] = []
    with connected(TIMEOUT_MS) as cluster:
        cluster.refresh([])
        for _, node in sorted(cluster.metadata.nodes.items()):
            try:
                cluster.node(node.id)
            except ClientError as error:
                rows.append([node.id, str(node.address), "cannot be reached"])
                problems.append(Problem(Severity.BROKEN, str(error), error.advice))
            else:
                rows.append([node.id, str(node.address), "answers"])
    return rows, problems


# -- a node that does not run yet -----------------------------------------------------------------


def _check_node(
    file: Path | None, overrides: Sequence[str]
) -> tuple[list[list[object]], list[Problem]]:
    from odradek.config.checks import ConfigurationError
    from odradek.config.load import default_data_directory, load

    settings = read_settings(file)
    try:
        loaded = load(settings, parse_pairs(overrides), default_data_directory(os.environ))
    except ConfigurationError as error:
        advice = "The node does not start with this setting. See docs/configuration.md."
        return [], [Problem(Severity.BROKEN, line, advice) for line in str(error).splitlines()]
    listeners = _facts(loaded.config)
    problems = diagnose(listeners)
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
    tls = config.tls_by_listener.get(listener.name)
    host = "" if advertised is None else advertised.host
    found: dict[str, Any] = {}
    if tls is not None:
        found = _certificate_facts(tls, host)
    return ListenerFacts(
        listener.name,
        listener.host,
        listener.port,
        listener.security_protocol,
        host,
        0 if advertised is None else advertised.port,
        is_controller=advertised is None,
        is_authenticated=listener.name in config.sasl_by_listener
        or (tls is not None and tls.client_auth == "required"),
        bind_problem=_bind_problem(listener.host, listener.port),
        host_problem=_host_problem(host),
        **found,
    )


def _bind_problem(host: str, port: int) -> str | None:
    """Return why this machine does not let a program listen at an address; None if it does."""
    try:
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = addresses[0]
        with socket.create_server(address[:2], family=family):
            return None
    except socket.gaierror as error:
        return error.strerror
    except OSError as error:
        return os.strerror(error.errno or 0)


def _host_problem(host: str) -> str | None:
    if not host:
        return None
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _certificate_facts(tls: Any, host: str) -> dict[str, Any]:
    """Return what a client would say about the certificate of a listener."""
    from odradek.broker.listener_keys import server_tls
    from odradek.env.tls_context import make_context
    from odradek.env.tls_files import TlsError

    try:
        server = make_context(server_tls(tls))
        server.verify_mode = ssl.CERT_NONE  # the client of this test has no certificate
        certificate = _presented(server)
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusted.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(certificate))
        trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    except (OSError, TlsError) as error:
        return {"key_problem": str(error)}
    trusted.check_hostname = False
    try:
        client = _handshake(server, trusted, "localhost")
    except ssl.SSLCertVerificationError as error:
        if "expired" in error.verify_message:
            return {"days_left": -1}
        return {"key_problem": error.verify_message}
    ends = ssl.cert_time_to_seconds(str((client.getpeercert() or {})["notAfter"]))
    found: dict[str, Any] = {"days_left": int((ends - time.time()) // DAY_SECONDS)}
    if host:
        trusted.check_hostname = True
        try:
            _handshake(server, trusted, host)
        except ssl.SSLCertVerificationError as error:
            found["name_problem"] = error.verify_message
    return found


def _presented(server: ssl.SSLContext) -> bytes:
    """Return the certificate that a listener presents, in DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    certificate = _handshake(server, context, "localhost").getpeercert(binary_form=True)
    assert certificate is not None, "a server has a certificate"
    return certificate


def _handshake(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext, host: str
) -> ssl.SSLObject:
    """Return the client's end of a connection in memory, after its handshake.

    Raises:
        ssl.SSLError: an end does not accept the other.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(FLIGHTS_MAX):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            with contextlib.suppress(ssl.SSLWantReadError):
                server.do_handshake()
        else:
            return client
    raise ssl.SSLError("the TLS handshake did not end")
