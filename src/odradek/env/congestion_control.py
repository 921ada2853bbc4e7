"""TCP congestion control: connections on the same host are not paced.

Some Linux systems use BBR by default. BBR paces packets: it sends at a measured rate, with a kernel
timer for each packet.

For a connection within the host pacing has only disadvantages: it takes a quarter of the CPU time
of `sendfile`, and the rate stays too low for seconds after the machine was busy. Such connections
use Reno instead, which every Linux system provides and permits. The kernel continues to pace a
connection that began with BBR, even if its congestion control is changed. Therefore the listener
uses Reno, which its connections inherit, and connections from other hosts are set back to the
system's default.
"""

from __future__ import annotations

import socket

_OPTION: int | None = getattr(socket, "TCP_CONGESTION", None)
_PACING = frozenset({b"bbr"})
_NOT_PACING = b"reno"
_NAME_BYTES_MAX = 16


def avoid_pacing(unconnected: socket.socket) -> bytes | None:
    """Let the connection, or those of a listener, begin without pacing.

    Call it before `connect` or `listen`. Returns the name that `restore` needs for connections from
    other hosts; None if nothing was changed, because the system does not pace or does not allow it.
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
    """Use the named congestion control from now on.

    Raises:
        OSError: the peer has disconnected.
    """
    if _OPTION is not None:
        accepted.setsockopt(socket.IPPROTO_TCP, _OPTION, name)
