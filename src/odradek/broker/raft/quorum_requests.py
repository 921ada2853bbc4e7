"""Processes the requests of other nodes of the quorum, for example Vote."""

from __future__ import annotations

from typing import Any

from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.obstacles import Refusals
from odradek.broker.raft.wire_messages import from_request, to_response
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.primitives import Message


class QuorumRequests:
    """Passes requests of other nodes to the raft client. Use it only on the event loop's thread."""

    def __init__(self, raft: RaftClient, cluster_id: str) -> None:
        self._raft = raft
        self.cluster_id = cluster_id
        self.refusals = Refusals()

    @property
    def leader_id(self) -> int:
        """The leader of the quorum; -1 if it is not known."""
        return self._raft.leader.leader_id

    async def answer(self, message: Any) -> Message:
        """Return the response to a request.

        Raises:
            ApiError: INCONSISTENT_CLUSTER_ID, UNKNOWN_TOPIC_OR_PARTITION (the request is not for
                the metadata log), or BROKER_NOT_AVAILABLE (this node is stopping).
        """
        if message.cluster_id not in (None, self.cluster_id):
            name = type(message).__name__.removesuffix("Request")
            self.refusals.of_another_cluster(name, message.cluster_id, self.cluster_id)
            raise ApiError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"the request is for the cluster {message.cluster_id}, this is {self.cluster_id}",
            )
        return to_response(message, await self._raft.serve(from_request(message)))
