"""Takes over the settings of TLS, SASL and ACLs from another broker, for a new broker.

`odradek cluster add-broker --like FILE` uses it. All listeners of the other broker are taken over,
except those of its controller, with ports that are free on this machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import click

from odradek.config.checks import ConfigurationError
from odradek.config.listeners import Listener
from odradek.config.load import load, read_file

_PREFIXES = ("ssl.", "sasl.", "listener.name.", "delegation.token.")
_NAMES = {
    "allow.everyone.if.no.acl.found",
    "authorizer.class.name",
    "connections.max.reauth.ms",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "security.inter.broker.protocol",
    "super.users",
}
_KEYS = ("ssl.keystore.location", "ssl.keystore.key")
"""The last parts of the names of settings with a private key, which belongs to one node."""


class Template(NamedTuple):
    """What a new broker takes over."""

    node_id: int
    """The id of the other broker."""
    listeners: tuple[Listener, ...]
    settings: dict[str, str]


PLAIN = Template(-1, (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),), {})
"""A broker without TLS, SASL and ACLs."""


def read_template(file: Path) -> Template:
    """Read the server.properties of another broker.

    Raises:
        ClickException: the file cannot be used.
    """
    try:
        given = read_file(file)
        config = load(given, {}, environment=os.environ).config
    except ConfigurationError as error:
        raise click.ClickException(f"--like {file}: {error}") from error
    if not config.broker_listeners:
        raise click.ClickException(f"--like {file}: the node is not a broker")
    settings = {
        name: value for name, value in given.items() if name in _NAMES or name.startswith(_PREFIXES)
    }
    return Template(config.node_id, config.broker_listeners, settings)


def with_own_keys(template: Template, node_id: int, host: str) -> tuple[dict[str, str], list[str]]:
    """Replace the keys of the other broker by those of the new one.

    Make a key if `odradek secure` made that of the other broker. Return the settings, and the names of
    those that still have a key of the other broker.
    """
    settings = dict(template.settings)
    keys = [name for name in settings if name.endswith(_KEYS)]
    if not keys:
        return settings, []
    from odradek.cli.secure import key_file, make_key  # slow to import, and rarely needed

    made: dict[Path, Path] = {}
    left = []
    for name in keys:
        file = Path(settings[name]).absolute()
        if file != key_file(file.parent, template.node_id) or not (file.parent / "ca.key").exists():
            left.append(name)
            continue
        if file not in made:
            made[file] = make_key(file.parent, node_id, (host,) if host else ())
        settings[name] = str(made[file])
    return settings, left
