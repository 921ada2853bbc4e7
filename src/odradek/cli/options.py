"""Options of commands that use a cluster: its address, the timeout, the output format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.suggestions import suggest_topics
from odradek.cli.values import DURATION

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster

BOOTSTRAP_VARIABLE = "ODRADEK_BOOTSTRAP_SERVER"
BOOTSTRAP_DEFAULT = "localhost:9092"
TIMEOUT_MS_DEFAULT = 30_000

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _remember(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Store a value for `connected`; the option closest to the command has precedence."""
    if value == 0:
        raise click.BadParameter("must be longer than nothing")
    if value is not None and param.name is not None:
        ctx.meta["odradek." + param.name] = value


def bootstrap_option(command: CommandT) -> CommandT:
    """The option `--bootstrap-server`."""
    return click.option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,…",
        expose_value=False,
        callback=_remember,
        help=f"Bootstrap servers.  [default: ${BOOTSTRAP_VARIABLE} or {BOOTSTRAP_DEFAULT}]",
    )(command)


def cluster_options(command: CommandT) -> CommandT:
    """The options of every command that uses a cluster."""
    timeout = click.option(
        "--timeout",
        type=DURATION,
        expose_value=False,
        callback=_remember,
        help="How long to wait for the cluster, such as 30s or 500ms.  [default: 30s]",
    )
    return bootstrap_option(timeout(command))


def json_option(command: CommandT) -> CommandT:
    """The option `--json` of commands that print one document."""
    return click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")(command)


def json_lines_option(command: CommandT) -> CommandT:
    """The option `--json` of commands that print one object per line."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")(
        command
    )


@contextmanager
def connected(timeout_ms: int | None = None) -> Iterator[Cluster]:
    """Connect to the cluster that the command line or the environment names.

    Raises:
        UsageError: the address is malformed.
    """
    from odradek.client.cluster import Cluster
    from odradek.client.errors import NoSuchTopicError

    meta = click.get_current_context().meta
    servers = (
        meta.get("odradek.bootstrap_server")
        or os.environ.get(BOOTSTRAP_VARIABLE)
        or BOOTSTRAP_DEFAULT
    )
    timeout_ms = meta.get("odradek.timeout", timeout_ms or TIMEOUT_MS_DEFAULT)
    try:
        cluster = Cluster(
            servers,
            client_id="odradek-cli",
            timeout_ms=timeout_ms,
            connect_timeout_ms=min(timeout_ms, 10_000),
        )
    except ValueError as error:
        raise click.UsageError(f"--bootstrap-server: {error}") from error
    with cluster:
        try:
            yield cluster
        except NoSuchTopicError as error:
            raise suggest_topics(cluster, [error])[0] from None
