"""The options with which the commands that a node prints reach a listener with TLS or SASL."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.config.broker_config import BrokerConfig

NO_FILE: Final = (
    "clients need a file with security settings (--command-config): see docs/cli.md and "
    "odradek secure --help"
)
"""What is printed instead of commands if there is no file that they could name."""


def beside(file: Path | None) -> Path | None:
    """Return the file of clients that `odradek secure init` writes beside the file of a node.

    None if there is no such file.
    """
    found = None if file is None else file.with_name("client.properties")
    return found if found is not None and found.exists() else None


def security_option(config: BrokerConfig, listener: str, file: Path | None) -> str | None:
    """Return the option that commands need for a listener; None if they need a file that is missing."""
    if listener not in {*config.tls_by_listener, *config.sasl_by_listener}:
        return ""
    return None if file is None else f" --command-config {shlex.quote(str(file))}"
