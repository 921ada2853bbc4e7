"""Waits for responses on several connections."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from odradek.client.connection import Connection
from odradek.client.errors import DisconnectedError


def wait_readable(connections: Sequence[Connection], timeout_ms: int) -> None:
    """Wait until a connection has bytes or has ended, up to `timeout_ms`."""
    if not connections:
        time.sleep(timeout_ms / 1000)
        return
    if any(each.closed or each.has_decrypted for each in connections):
        return
    poll = select.poll()
    for each in connections:
        poll.register(each, select.POLLIN)
    poll.poll(timeout_ms)


def give_up(connection: Connection, api: str) -> DisconnectedError:
    """Close a connection on which a response does not arrive, and return the error."""
    connection.close()
    return DisconnectedError(f"{connection.address} does not answer {api}")
