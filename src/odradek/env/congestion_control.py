"""Chooses the TCP congestion control, so that connections on the same host are not paced.

Some Linux systems use BBR by default. BBR paces packets: the kernel sends them at a measured rate,
with a timer for each packet.

For a connection within the host, pacing has only disadvantages. Pacing takes a quarter of the CPU
time of `sendfile`. After the machine was busy, the rate stays too low for seconds. Such connections
use Reno instead, which every Linux system provides and permits.

The kernel continues to pace a connection that began with BBR, even if its congestion control is
changed. Therefore the listener uses Reno, and accepted connections inherit it. Connections from
other hosts are then set back to the system's default.
"""

from __future__ import annotations

import socket

_OPTION: int | None = getattr(socket, "TCP_CONGESTION", None)
_PACING = frozenset({b"bbr"})
_NOT_PACING = b"reno"
_NAME_BYTES_MAX = 16


def avoid_pacing(unconnected: socket.socket) -> bytes | None:
    """Switch off pacing for a connection, or for all connections that a listener accepts.

    Call this function before `connect` or `listen`. Return the name of the previous congestion
    control, which `restore` needs for connections from other hosts. Return None if nothing was
    changed, because the system does not pace or does not permit the change.
    """
    if _OPTION is None:
        return None
    try:
        known = unconnected.getsockopt(socket.IPPROTO_TCP, _OPTION, _NAME_BYTES_MAX).rstrip(b"\0")
        if known not in _PACING:
            return None
        unconnected.setsockopt(socket.IPPROTO_TCP, _OPTION, _NOT_PACING)
    except OSError:
        return None
    return known


def restore(accepted: socket.socket, name: bytes) -> None:
    """Set the congestion control of an accepted connection.

    Raises:
        OSError: the peer has disconnected.
    """
    if _OPTION is not None:
        accepted.setsockopt(socket.IPPROTO_TCP, _OPTION, name)
