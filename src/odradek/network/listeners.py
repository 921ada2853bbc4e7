"""Binds the addresses of listeners, with error messages that tell the user what to do."""

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
    errno.EADDRNOTAVAIL: "; this machine does not have this address",
    errno.EACCES: "; only the administrator may use ports below 1024: choose another with {option}",
}
"""Error number -> the end of the error message."""


class ListenError(Exception):
    """A listener cannot be opened. The message contains the listener, the cause and the remedy."""


@dataclass(slots=True)
class Endpoint:
    """A listener with its name, and the address that it is bound to."""

    name: str
    host: str
    """The configured host; an empty string means all addresses of the machine."""
    port: int
    """The bound port. If port 0 is configured, the system chooses a free port."""
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

    Port 0 chooses a free port. An empty host means all addresses. Clients can connect after
    `listen` was called.

    Raises:
        ListenError: the address cannot be bound. The message names `option` as the setting to
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
    """Let clients connect; the system queues up to `backlog` connections.

    Raises:
        ListenError: another process listens on the same address.
    """
    try:
        endpoint.listener.listen(backlog)
    except OSError as error:
        raise _refusal(endpoint.name, endpoint.host, endpoint.port, error, option) from error


def _refusal(name: str, host: str, port: int, error: OSError, option: str) -> ListenError:
    hint = _HINTS.get(error.errno or 0, "").format(option=option)
    where = f"{host or '*'}:{port}"
    return ListenError(f"Cannot listen on {name}://{where}: {error.strerror or error}{hint}.")
