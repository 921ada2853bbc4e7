"""Options of commands that use a cluster: its address, the timeout, the output format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.values import DURATION
from odradek.operations.suggestions import did_you_mean, suggest_topics

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster
    from odradek.client.security import Security

BOOTSTRAP_VARIABLE = "ODRADEK_BOOTSTRAP_SERVER"
BOOTSTRAP_DEFAULT = "localhost:9092"
COMMAND_CONFIG_VARIABLE = "ODRADEK_COMMAND_CONFIG"
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
    return bootstrap_option(timeout(command_config_option(command)))


def command_config_option(command: CommandT) -> CommandT:
    """The options `--command-config` and `-X`, with the settings of TLS and SASL."""
    file = click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        expose_value=False,
        callback=_remember,
        help="A client.properties file with settings of TLS and SASL.  "
        f"[default: ${COMMAND_CONFIG_VARIABLE}]",
    )
    one = click.option(
        "-X",
        "client_settings",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_remember_settings,
        help="A setting of TLS or SASL, such as security.protocol=SSL. Repeatable.",
    )
    return file(one(command))


def _remember_settings(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:
    settings: dict[str, str] = {}
    for pair in value:
        name, equals, setting = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r}: write NAME=VALUE")
        settings[name] = setting
    if settings:
        ctx.meta["odradek.client_settings"] = settings


def client_settings() -> dict[str, str]:
    """Return the settings of the client: from the file, the environment and the command line.

    Raises:
        UsageError: the file cannot be used, or a setting is not known.
    """
    from odradek.client.security import (
        REFUSED_SETTINGS,
        SECURITY_SETTINGS,
        combined,
        environment_variable,
        read_client_properties,
        settings_in_environment,
    )

    meta = click.get_current_context().meta
    file = meta.get("odradek.command_config") or os.environ.get(COMMAND_CONFIG_VARIABLE)
    given: dict[str, str] = meta.get("odradek.client_settings", {})
    in_environment = settings_in_environment(os.environ)
    for name in (*in_environment, *given):
        if name not in SECURITY_SETTINGS and name not in REFUSED_SETTINGS:
            shown = f"-X {name}" if name in given else environment_variable(name)
            meant = did_you_mean(name, SECURITY_SETTINGS)
            raise click.UsageError(f"{shown}: there is no such setting. {meant}".rstrip())
    try:
        in_file = read_client_properties(Path(file)) if file else {}
    except ValueError as error:
        raise click.UsageError(f"--command-config: {error}") from error
    return combined(in_file, in_environment, given)


def client_security(settings: dict[str, str]) -> Security:
    """Return how connections are secured.

    Raises:
        UsageError: a setting is malformed, or another one is missing.
    """
    from odradek.client.security import parse_security

    try:
        return parse_security(settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


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
    settings = client_settings()
    servers = (
        meta.get("odradek.bootstrap_server")
        or os.environ.get(BOOTSTRAP_VARIABLE)
        or settings.get("bootstrap.servers")
        or BOOTSTRAP_DEFAULT
    )
    security = client_security(settings)
    timeout_ms = meta.get("odradek.timeout", timeout_ms or TIMEOUT_MS_DEFAULT)
    try:
        cluster = Cluster(
            servers,
            client_id="odradek-cli",
            timeout_ms=timeout_ms,
            connect_timeout_ms=min(timeout_ms, 10_000),
            security=security,
        )
    except ValueError as error:
        raise click.UsageError(f"--bootstrap-server: {error}") from error
    with cluster:
        try:
            yield cluster
        except NoSuchTopicError as error:
            raise suggest_topics(cluster, [error])[0] from None
