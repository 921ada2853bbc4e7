"""The App in a file, and the connection settings of the commands of `odradek streams`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.options import BOOTSTRAP_VARIABLE, client_security, client_settings

if TYPE_CHECKING:
    from odradek.streams.app import App

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SERVERS = "bootstrap.servers"
bootstrap_option = click.option(
    "--bootstrap-server",
    "-b",
    metavar="HOST:PORT,…",
    help=f"A broker.  [default: ${BOOTSTRAP_VARIABLE}, or bootstrap.servers in the file of "
    "--command-config; otherwise that of the App]",
)


def load_app(file: Path) -> App:
    """Return the App in a file, or end with why there is none."""
    from odradek.core.streams.model.errors import TopologyError
    from odradek.streams.loading import load

    try:
        return load(file)
    except TopologyError as error:
        raise click.ClickException(str(error)) from error


def connection(app: App, bootstrap_server: str | None) -> dict[str, Any]:
    """Return the settings of the client."""
    settings: dict[str, Any] = client_settings()
    client_security(settings)
    given = bootstrap_server or click.get_current_context().meta.get("odradek.bootstrap_server")
    servers = given or os.environ.get(BOOTSTRAP_VARIABLE) or settings.get(_SERVERS)
    settings[_SERVERS] = servers or app.bootstrap_servers
    return settings
