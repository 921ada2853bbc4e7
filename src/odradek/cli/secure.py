"""`odradek secure`: certificates and settings for nodes with TLS, SASL and ACLs.

`init` makes a certificate authority, the certificates of the nodes, and the settings of nodes and
clients. Clients log in as the super user `admin` with the mechanism PLAIN; other users are made
with `odradek user add`. Nodes of a cluster log in as `node`, which is a super user too.
"""

from __future__ import annotations

import re
import secrets
import shlex
import socket
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from odradek.cli.cluster_start import REPLICAS_MAX, internal_replication
from odradek.cli.go_example import GO_EXAMPLE
from odradek.cli.output import note, styled
from odradek.cli.secret_files import write_secret
from odradek.config import extras
from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from odradek.config.properties import format_properties
from odradek.env.network import SocketNetwork
from odradek.model import uuids
from odradek.operations.listener_health import is_loopback

if TYPE_CHECKING:
    from odradek.cli.certificates import Authority

DAYS = 825
AUTHORITY_DAYS = 3650
PORT_DEFAULT = 9092
PASSWORD_BYTES = 18
NAME_LENGTH_MAX = 64
LISTENER, CONTROLLER = "SASL_SSL", "CONTROLLER"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_NODE = re.compile(r"([0-9]+)@\[?([^\]]+?)\]?:([0-9]+)")


class _Node(NamedTuple):
    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        return _address(self.host, self.port)

    @property
    def controller_address(self) -> str:
        return _address(self.host, self.port + 1)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Files(NamedTuple):
    """The files in a directory of `odradek secure`."""

    directory: Path

    @property
    def trust(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def client(self) -> Path:
        return self.directory / "client.properties"

    @property
    def librdkafka(self) -> Path:
        return self.directory / "librdkafka.properties"

    @property
    def go(self) -> Path:
        return self.directory / "client.go"

    def key(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.pem"

    def user(self, name: str) -> Path:
        return self.directory / f"user-{name}.pem"

    def server(self, node_id: int | None) -> Path:
        end = "" if node_id is None else f"-{node_id}"
        return self.directory / f"server{end}.properties"


@click.group()
def secure() -> None:
    """Make certificates and settings for nodes with TLS, SASL and ACLs.

    The certificate authority is meant for development and tests: its key is a file.

    \b
    Examples:
      odradek secure init secured
      odradek secure user secured alice
    """


_directory = click.argument(
    "directory", metavar="DIRECTORY", type=click.Path(file_okay=False, path_type=Path)
)
_hosts_option = click.option(
    "--host",
    "hosts",
    metavar="HOST",
    multiple=True,
    help="A name or address for the certificate, besides localhost and this machine's name. "
    "Repeatable.",
)
_days_option = click.option(
    "--days",
    type=click.IntRange(1, 36500),
    default=DAYS,
    help=f"How long certificates are valid.  [default: {DAYS}]",
)


def _authorities() -> type[Authority]:
    """Return the class of authorities. It is imported here: the help needs no extra.

    Raises:
        ClickException: the package cryptography is not installed.
    """
    if extras.missing(["cryptography"]):
        raise click.ClickException(
            f"certificates need the package cryptography: {extras.install(extras.SECURE)}"
        )
    from odradek.cli.certificates import Authority

    return Authority


def _check_names(names: Iterable[str]) -> None:
    """Check names of users and hosts, which become parts of certificates and files.

    Raises:
        UsageError: a name is malformed.
    """
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_.:%@-]+", name) or len(name) > NAME_LENGTH_MAX:
            raise click.UsageError(
                f"{name!r}: use at most {NAME_LENGTH_MAX} letters, digits and the characters .:_@-"
            )


@secure.command()
@_directory
@click.option(
    "--port",
    type=click.IntRange(1, 65534),
    default=PORT_DEFAULT,
    help=f"Port of the node.  [default: {PORT_DEFAULT}]",
)
@_hosts_option
@click.option(
    "--node",
    "nodes",
    metavar="ID@HOST:PORT",
    multiple=True,
    help="A node of a cluster; repeatable. The controller listens on the next port.",
)
@click.option("--shards", is_flag=True, help="Make settings for odradek serve --shards.")
@_days_option
def init(
    directory: Path,
    port: int,
    hosts: tuple[str, ...],
    nodes: tuple[str, ...],
    shards: bool,
    days: int,
) -> None:
    """Make a certificate authority, certificates, and settings of nodes and clients.

    \b
    A secured node and its first client:
      odradek secure init secured
      odradek serve --config secured/server.properties
      odradek topic list --command-config secured/client.properties

    \b
    A cluster:
      odradek secure init cluster --node 1@a:9092 --node 2@b:9092 --node 3@c:9092

    \b
    Several nodes on this machine, to use more than one core:
      odradek secure init secured --shards
      odradek serve --shards 2 --config secured/server.properties
    """
    if nodes and shards:
        raise click.UsageError("--shards has its own nodes: use it without --node")
    authorities = _authorities()
    _check_names(hosts)
    cluster = [_parse_node(each) for each in nodes]
    if len({node.id for node in cluster}) != len(cluster):
        raise click.UsageError("each --node needs its own id")
    _check_ports(cluster)
    directory = directory.absolute()
    if directory.exists() and any(directory.iterdir()):
        raise click.ClickException(f"{directory} is not empty; choose another directory")
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    files = _Files(directory)
    authority = authorities.create(directory, "Odradek development authority", AUTHORITY_DAYS)
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    common = _here(hosts)
    for node in cluster or [_Node(1, "localhost", port)]:
        names = list(dict.fromkeys((*common, node.host)))
        write_secret(files.key(node.id), authority.issue(f"node-{node.id}", names, days))
    if cluster or shards:
        logins = _cluster_logins(password, secrets.token_urlsafe(PASSWORD_BYTES))
        for node in cluster:
            _write(files.server(node.id), _cluster_settings(files, node, cluster) | logins)
        if shards:
            address = _address(hosts[0] if hosts else _LOCAL[0], port)
            _write(files.server(None), _shards_settings(files, port, address) | logins)
    else:
        _write(files.server(None), _single_settings(files, port, password) | _token_settings())
    servers = ",".join(each.address for each in cluster) or f"localhost:{port}"
    _write(files.client, _java_settings(files, servers, password))
    _write_plain(files.librdkafka, _librdkafka_settings(files, servers, password))
    files.go.write_text(GO_EXAMPLE, encoding="utf-8")
    _print_next(files, cluster, servers, shards)


def _parse_node(text: str) -> _Node:
    found = _NODE.fullmatch(text)
    if found is None or not 0 < int(found[3]) < 65535:
        raise click.UsageError(f"--node {text!r}: write ID@HOST:PORT, as 1@localhost:9092")
    _check_names([found[2]])
    return _Node(int(found[1]), found[2], int(found[3]))


def _check_ports(nodes: list[_Node]) -> None:
    ports = Counter((each.host, port) for each in nodes for port in (each.port, each.port + 1))
    for (host, port), count in ports.items():
        if count > 1:
            raise click.UsageError(
                f"two listeners would have the address {host}:{port}. The controller of a node listens "
                "on the port after its own, so leave one free: 1@localhost:9092, 2@localhost:9094"
            )


def _here(hosts: tuple[str, ...]) -> list[str]:
    names = dict.fromkeys((*_LOCAL, *hosts))
    for own in (socket.gethostname(), SocketNetwork().own_host()):
        if re.fullmatch(r"[A-Za-z0-9.-]+", own):
            names.setdefault(own)
    return list(names)


@secure.command()
@_directory
@click.argument("node_id", metavar="ID", type=click.IntRange(0))
@_hosts_option
@_days_option
def node(directory: Path, node_id: int, hosts: tuple[str, ...], days: int) -> None:
    """Make a new key and certificate for a node, for example before the old one expires.

    The new certificate has the hosts of the old one. A running broker reads the new file when
    listener.name.<listener>.ssl.keystore.location is set, also to the same value as before.

    \b
    Examples:
      odradek secure node secured 1
      key=listener.name.sasl_ssl.ssl.keystore.location
      odradek config set broker 1 $key=$PWD/secured/node-1.pem
    """
    _check_names(hosts)
    make_key(directory, node_id, hosts, days)


def key_file(directory: Path, node_id: int) -> Path:
    """Return the file with the key and the certificate of a node."""
    return _Files(directory.absolute()).key(node_id)


def make_key(directory: Path, node_id: int, hosts: tuple[str, ...], days: int = DAYS) -> Path:
    """Make a new key and certificate for a node, also with the hosts of an old certificate.

    Return its file.

    Raises:
        ClickException: the directory has no authority, or the extra is not installed.
    """
    authorities = _authorities()
    file = key_file(directory, node_id)
    names = list(dict.fromkeys((*authorities.hosts_of(file), *_here(hosts))))
    write_secret(file, authorities.load(directory).issue(f"node-{node_id}", names, days))
    note(f"Wrote {file}")
    return file


@secure.command("user")
@_directory
@click.argument("name", metavar="USER")
@_days_option
def user_command(directory: Path, name: str, days: int) -> None:
    """Make a key and certificate for a user, for listeners with ssl.client.auth=required.

    The principal is User:CN=USER, unless ssl.principal.mapping.rules maps it to another name.

    \b
    Example:
      odradek secure user secured alice
    """
    authorities = _authorities()
    _check_names([name])
    file = _Files(directory.absolute()).user(name)
    write_secret(file, authorities.load(directory).issue(name, (), days))
    note(f"Wrote {file}. Clients use it with ssl.keystore.location and ssl.keystore.type=PEM.")


# -- settings ---------------------------------------------------------------------------------


def _write(file: Path, settings: dict[str, str]) -> None:
    write_secret(file, format_properties(settings))


def _write_plain(file: Path, settings: dict[str, str]) -> None:
    """Write a file of librdkafka's programs, which know no escapes."""
    write_secret(file, "".join(f"{name}={each}\n" for name, each in settings.items()).encode())


def _jaas(**options: str) -> str:
    words = " ".join(f'{name}="{each}"' for name, each in options.items())
    return f"{PLAIN_LOGIN_MODULE} required {words};"


def _node_settings(files: _Files, node_id: int) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "log.dirs": str(files.directory / f"data-{node_id}"),
        "inter.broker.listener.name": LISTENER,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        # Apache Kafka needs a login module for each mechanism.
        f"listener.name.{LISTENER.lower()}.scram-sha-512.sasl.jaas.config": (
            f"{SCRAM_LOGIN_MODULE} required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.key(node_id)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.trust),
        "authorizer.class.name": STANDARD_AUTHORIZER,
    }


def _single_settings(files: _Files, port: int, password: str) -> dict[str, str]:
    return {
        **_node_settings(files, 1),
        "process.roles": "broker,controller",
        "listeners": f"{LISTENER}://:{port}",
        "super.users": "User:admin",
        f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": _jaas(user_admin=password),
    }


def _bind_host(host: str) -> str:
    """Return where a node listens that clients reach as `host`: only on this machine if it is local."""
    if not is_loopback(host):
        return ""
    return "[::1]" if ":" in host else "127.0.0.1"


def _cluster_settings(files: _Files, node: _Node, nodes: list[_Node]) -> dict[str, str]:
    return {
        **_node_settings(files, node.id),
        "process.roles": "broker,controller",
        "listeners": ",".join(
            f"{name}://{_bind_host(node.host)}:{port}"
            for name, port in ((LISTENER, node.port), (CONTROLLER, node.port + 1))
        ),
        "advertised.listeners": f"{LISTENER}://{node.address}",
        "controller.listener.names": CONTROLLER,
        "controller.quorum.voters": ",".join(
            f"{each.id}@{each.controller_address}" for each in nodes
        ),
        "default.replication.factor": str(min(len(nodes), REPLICAS_MAX)),
        **internal_replication(len(nodes)),
    }


def _shards_settings(files: _Files, port: int, address: str) -> dict[str, str]:
    """Return what all shards have. `odradek serve --shards` adds the rest (`odradek.cli.shards`)."""
    return {
        **_node_settings(files, 1),
        "listeners": f"{LISTENER}://{_bind_host(address.rpartition(':')[0])}:{port}",
        "advertised.listeners": f"{LISTENER}://{address}",
    }


def _token_settings() -> dict[str, str]:
    """Return what all nodes of a cluster must have to create and check delegation tokens."""
    return {"delegation.token.secret.key": secrets.token_urlsafe(PASSWORD_BYTES)}


def _cluster_logins(password: str, node_password: str) -> dict[str, str]:
    """Return how clients and the other nodes of a cluster log in to a node. All nodes have the same."""
    own = {"username": "node", "password": node_password, "user_node": node_password}
    return {
        "listener.security.protocol.map": f"{LISTENER}:SASL_SSL,{CONTROLLER}:SASL_SSL",
        "super.users": "User:admin;User:node",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": _jaas(
            **own, user_admin=password
        ),
        f"listener.name.{CONTROLLER.lower()}.sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{CONTROLLER.lower()}.plain.sasl.jaas.config": _jaas(**own),
        **_token_settings(),
    }


def _java_settings(files: _Files, servers: str, password: str) -> dict[str, str]:
    """Return the settings of Java's clients, which our own commands read too."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": _jaas(username="admin", password=password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.trust),
    }


def _librdkafka_settings(files: _Files, servers: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": password,
        "ssl.ca.location": str(files.trust),
    }


# -- output -----------------------------------------------------------------------------------


def _print_next(files: _Files, nodes: list[_Node], servers: str, shards: bool) -> None:
    """Print what was made, and the commands to use it."""
    here = shlex.quote(str(files.directory))
    title = styled("Secured", bold=True)
    note(f"{title}  {files.directory}  (only you can read it)")
    note("  authority   ca.pem, ca.key")
    note(
        f"  clients     {files.client.name} (Java, odradek), {files.librdkafka.name} (C, Python), "
        f"{files.go.name} (Go)"
    )
    note("  log in as   admin, a super user; the password is in the clients' files")
    cluster_id = uuids.to_text(uuids.make(secrets.token_bytes(16)))
    for each in nodes:
        server = f"{here}/{files.server(each.id).name}"
        note(f"  node {each.id:<6} odradek format --config {server} -t {cluster_id}")
        note(f"              odradek serve --config {server}")
    if shards:
        note(f"  two shards  odradek serve --shards 2 --config {here}/{files.server(None).name}")
    elif not nodes:
        note(f"  the node    odradek serve --config {here}/{files.server(None).name}")
    client = f"--command-config {here}/{files.client.name}"
    note(f"  try it      odradek topic list {client}")
    note(f"  add users   odradek user add alice {client}")
    note(f"              odradek acl add alice read,write,create 'topic:alice-*' {client}")
    note(f"              odradek acl add alice read 'group:alice-*' {client}")
    note(
        f"  Java        kafka-console-consumer.sh --bootstrap-server {servers} {client} "
        "--from-beginning --topic greetings"
    )
    note(f"  Python      {python_example(files.librdkafka)}")
    get = "go mod init example && go get github.com/twmb/franz-go/pkg/kgo"
    note(f"  Go          cd {here} && {get} && go run {files.go.name}")


def python_example(file: Path) -> str:
    """Return an expression with confluent-kafka that reads the file of librdkafka."""
    lines = f"pathlib.Path({str(file)!r}).read_text().splitlines()"
    return f"confluent_kafka.Producer(dict(each.split('=', 1) for each in {lines}))"
