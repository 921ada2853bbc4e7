"""Reports to the controller in which log directories the replicas are (KIP-858).

A broker with several log directories chooses the directory of a new replica itself. The controller
must know it: if the directory fails later, the controller removes the replica from the ISR, and
elects another leader. The replica manager reports each replica whose directory differs from the one
in the metadata (Kafka's `AssignmentsManager`). It also reports the directory to which a replica is
being moved, before the move ends (`directory_moves`).

See `controller_reports`. Nothing is sent before the broker is registered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from odradek.broker.controller.channel import ControllerChannel
from odradek.broker.replication.controller_reports import ControllerReports
from odradek.core.replica.effects import ReplicaKey
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

log = logging.getLogger("odradek.replicas")

Assigned = Callable[[], None]
Reported: TypeAlias = tuple[bytes, Assigned | None]
"""The id of a log directory, and the callback of `DirectoryAssignments.report`."""
RETRY_SECONDS = 0.5
REPLICAS_MAX = 2000

_OUTDATED = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
)
"""The controller's metadata are newer: the replica is not on this broker any more."""


class DirectoryAssignments(ControllerReports[ReplicaKey, Reported]):
    """Sends AssignReplicasToDirs requests. Use it only on the event loop's thread."""

    def __init__(
        self,
        channel: ControllerChannel,
        node_id: int,
        broker_epoch: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`broker_epoch` returns -1 until the broker is registered."""
        super().__init__(loop, REPLICAS_MAX, RETRY_SECONDS)
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch

    def report(
        self, topic_id: bytes, index: int, directory_id: bytes, assigned: Assigned | None = None
    ) -> None:
        """Report the directory of a replica soon.

        `assigned` is called when the controller has recorded the directory. It is not called if
        another directory is reported before, or if the controller does not know the replica.
        """
        self._put(ReplicaKey(topic_id, index), (directory_id, assigned))

    async def _send(self, sent: dict[ReplicaKey, Reported]) -> bool:
        """Send directories. Return whether the controller has processed all of them."""
        if self._broker_epoch() < 0:
            return False
        try:
            response: AssignReplicasToDirsResponse = await self._channel.submit(
                None, self._request(sent)
            )
        except ApiError as error:
            log.warning(
                "the log directories of %d replicas are not reported: %s", len(sent), error.message
            )
            return False
        if response.error_code:
            log.warning(
                "the log directories of %d replicas are not reported: error %d",
                len(sent),
                response.error_code,
            )
            return False
        all_done = True
        for directory in response.directories:
            for topic in directory.topics:
                for each in topic.partitions:
                    replica = ReplicaKey(topic.topic_id, each.partition_index)
                    if each.error_code and each.error_code not in _OUTDATED:
                        all_done = False
                        continue
                    known = self._items.get(replica)
                    if known is None or known[0] != directory.id:
                        continue
                    del self._items[replica]
                    if known[1] is not None and not each.error_code:
                        known[1]()
        return all_done

    def _request(self, sent: dict[ReplicaKey, Reported]) -> AssignReplicasToDirsRequest:
        directories: dict[bytes, dict[bytes, TopicData]] = {}
        for (topic_id, index), (directory_id, _) in sent.items():
            topics = directories.setdefault(directory_id, {})
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
            topic.partitions.append(PartitionData(partition_index=index))
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                DirectoryData(id=directory_id, topics=list(topics.values()))
                for directory_id, topics in directories.items()
            ],
        )
