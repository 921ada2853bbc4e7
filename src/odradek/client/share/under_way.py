"""Requests of a share consumer whose responses have not arrived."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.client.connection import Connection
from odradek.client.deadline import Deadline
from odradek.client.frames import Pending
from odradek.client.share.leader import ShareResponse
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse


class UnderWay(NamedTuple):
    """A request to the leader of partitions."""

    connection: Connection
    poll: Callable[[], ShareResponse | None]
    """Return the response if it has arrived."""
    api: str
    late: Deadline


class Heartbeat(NamedTuple):
    """A heartbeat to the coordinator."""

    connection: Connection
    pending: Pending[ShareGroupHeartbeatResponse]
    late: Deadline
