"""Sends ISR changes to the controller (Kafka's `DefaultAlterPartitionManager`).

See `controller_reports`. A change without a result is sent again: the leader's machine decides when
it is obsolete, and ignores the results of obsolete changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.broker.controller.channel import ControllerChannel
from odradek.broker.partitions.leading import AlteredPartition, OnAltered
from odradek.broker.replication.controller_reports import ControllerReports
from odradek.core.replica.effects import IsrChange
from odradek.model.errors import ApiError
from odradek.wire.generated.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.alter_partition_response import AlterPartitionResponse

log = logging.getLogger("odradek.replicas")

RETRY_SECONDS = 0.05
CHANGES_MAX = 1000

_Key = tuple[bytes, int]
"""The topic id and the index of a partition."""


class _Item(NamedTuple):
    change: IsrChange
    done: OnAltered


class AlterPartitionSender(ControllerReports[_Key, _Item]):
    """Sends AlterPartition requests. Use it only on the event loop's thread."""

    def __init__(
        self,
        channel: ControllerChannel,
        node_id: int,
        broker_epoch: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(loop, CHANGES_MAX, RETRY_SECONDS)
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch

    def submit(self, topic_id: bytes, index: int, change: IsrChange, done: OnAltered) -> None:
        """Send a change soon; call `done` with the result."""
        self._put((topic_id, index), _Item(change, done))

    async def _send(self, sent: dict[_Key, _Item]) -> bool:
        """Send changes and pass on their results. Return whether all were made."""
        try:
            response: AlterPartitionResponse = await self._channel.submit(None, self._request(sent))
        except ApiError as error:
            log.warning("the ISR of %d partitions was not changed: %s", len(sent), error.message)
            return False
        if response.error_code:
            error_code = response.error_code
            log.warning("the ISR of %d partitions was not changed: error %d", len(sent), error_code)
            return False
        results = {
            (topic.topic_id, each.partition_index): each
            for topic in response.topics
            for each in topic.partitions
        }
        all_made = True
        for key, item in sent.items():
            result = results.get(key)
            if result is None:
                all_made = False
                continue
            if self._items.get(key) is item:
                del self._items[key]
            if result.error_code:
                all_made = False
                item.done(item.change, result.error_code)
            else:
                altered = AlteredPartition(result.leader_epoch, result.partition_epoch, result.isr)
                item.done(item.change, altered)
        return all_made

    def _request(self, sent: dict[_Key, _Item]) -> Any:
        topics: dict[bytes, TopicData] = {}
        for (topic_id, index), (change, _) in sent.items():
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
            topic.partitions.append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker_id, broker_epoch=epoch)
                        for broker_id, epoch in change.isr
                    ],
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=list(topics.values()),
        )
