"""Options of `serve` and `format` that describe a node, and functions that load its settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from odradek.config.load import Loaded

PROTOCOL_MAP = "listener.security.protocol.map"
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def node_options(command: CommandT) -> CommandT:
    """The options `data`, `file` and `overrides`."""
    data = click.option(
        "--data",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Data directory.  [default: ~/.local/share/odradek]",
    )
    return data(settings_options(command))


def settings_options(command: CommandT) -> CommandT:
    """The options `file` and `overrides`."""
    file = click.option(
        "--config",
        "-c",
        "file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A server.properties file, such as Apache Kafka's.",
    )
    overrides = click.option(
        "--override",
        "overrides",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting that overrides the file; repeatable.",
    )
    return file(overrides(command))


def read_settings(file: Path | None) -> dict[str, str] | None:
    """Return the settings of a configuration file, or None if `file` is None.

    Raises:
        UsageError: the file cannot be read.
    """
    from odradek.config.checks import ConfigurationError
    from odradek.config.load import read_file

    try:
        return None if file is None else read_file(file)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def load_node(settings: Mapping[str, str] | None, overrides: Mapping[str, str]) -> Loaded:
    """Return the configuration of a node, and its warnings.

    Raises:
        UsageError: the configuration is invalid.
    """
    from odradek.config.checks import ConfigurationError
    from odradek.config.load import default_data_directory, load

    try:
        return load(settings, overrides, default_data_directory(os.environ), os.environ)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def load_before_start(settings: Mapping[str, str] | None, overrides: Mapping[str, str]) -> Loaded:
    """As `load_node`, but problems of TLS and SASL are only warnings: keys may be there later.

    Raises:
        UsageError: the configuration is invalid in other ways.
    """
    from odradek.config.checks import ConfigurationError

    try:
        return load_node(settings, overrides)
    except click.UsageError as error:
        try:
            loaded = load_node(_plaintext({**(settings or {}), **overrides}), {})
        except (click.UsageError, ConfigurationError):
            raise error from None
        problems = (f"the node will not start: {each}" for each in error.message.splitlines())
        return loaded._replace(warnings=tuple(problems))


def _plaintext(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without TLS and SASL on all listeners."""
    from odradek.config.listeners import SECURITY_PROTOCOLS, listener_names, parse_protocol_map

    changed = dict(given)
    names = parse_protocol_map(given.get(PROTOCOL_MAP, "")) or SECURITY_PROTOCOLS
    changed[PROTOCOL_MAP] = ",".join(f"{each}:PLAINTEXT" for each in names)
    if changed.pop("security.inter.broker.protocol", None):
        controllers = given.get("controller.listener.names", "").split(",")
        named = listener_names(given.get("listeners", ""))
        between = [each for each in named if each not in controllers]
        changed["inter.broker.listener.name"] = between[0] if between else ""
    return changed
