"""Listeners: their names and addresses, how they are bound, and errors that say what to do."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from odradek.env.network import (
    DEFAULT_OPTIONS,
    HostUnknown,
    Listener,
    Network,
    StreamOptions,
)

_HINTS = {
    errno.EADDRINUSE: "; another process uses the port: stop it, or choose another with {option}",
    errno.EADDRNOTAVAIL: "; it is no address of this machine",
    errno.EACCES: "; ports below 1024 are for the administrator: choose another with {option}",
}


class ListenError(Exception):
    """A listener cannot be opened; the message says which one, why, and what to do."""


@dataclass(slots=True)
class Endpoint:
    """A listener with its name, and the address that it is bound to."""

    name: str
    host: str
    """As it was configured; empty for all addresses of the machine."""
    port: int
    """The port; if 0 was configured, the one that the system chose."""
    listener: Listener


def bind(
    network: Network,
    name: str,
    host: str,
    port: int,
    option: str = "--port",
    options: StreamOptions = DEFAULT_OPTIONS,
) -> Endpoint:
    """Bind the address of a listener.

    Port 0 chooses a free port; an empty host means all addresses. Clients can connect after the
    server of the listener has called `listen`.

    Raises:
        ListenError: the address cannot be bound; the message names `option` as the setting to
            change.
    """
    try:
        listener = network.bind(host, port, options)
    except HostUnknown as error:
        raise ListenError(
            f"Cannot listen on {name}://{host}:{port}: the host name is not known."
        ) from error
    except OSError as error:
        raise _refusal(name, host, port, error, option) from error
    return Endpoint(name, host, listener.address.port, listener)


def listen(endpoint: Endpoint, backlog: int, option: str = "--port") -> None:
    """Accept connections in the system's backlog.

    Raises:
        ListenError: another process bound the same address at the same time and listens first.
    """
    try:
        endpoint.listener.listen(backlog)
    except OSError as error:
        raise _refusal(endpoint.name, endpoint.host, endpoint.port, error, option) from error


def _refusal(name: str, host: str, port: int, error: OSError, option: str) -> ListenError:
    hint = _HINTS.get(error.errno or 0, "").format(option=option)
    where = f"{host or '*'}:{port}"
    return ListenError(f"Cannot listen on {name}://{where}: {error.strerror or error}{hint}.")
