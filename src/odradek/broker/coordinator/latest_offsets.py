"""Finds the end offsets of partitions, also of partitions that other brokers lead.

The end offset is the offset after the last record that consumers can read (the high watermark). It
is used to compute the lag of share groups. Leaders on other brokers are asked with ListOffsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, cast

from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.peers.channels import BrokerChannels, BrokerUnreachable, UnsupportedByBroker
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_offsets_response import ListOffsetsResponse

LATEST: Final = -1
CONSUMER_ID: Final = -1

Found = dict[TopicPartition, int | ErrorCode]


class LatestOffsets:
    """Finds end offsets. Use it only on the event loop's thread."""

    def __init__(self, node_id: int, replicas: ReplicaManager, channels: BrokerChannels) -> None:
        """`channels` must be used by no one else."""
        self._node_id = node_id
        self._replicas = replicas
        self._channels = channels
        self._turns: dict[int, asyncio.Lock] = {}
        """One request at a time is sent to each broker."""

    async def find(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | ErrorCode]:
        """Return the end offset or the error of each partition."""
        found: Found = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        topics = self._channels.image.topics
        for name in partitions:
            registration = topics.partition(name.topic, name.partition)
            if registration is None:
                found[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif registration.leader < 0:
                found[name] = ErrorCode.LEADER_NOT_AVAILABLE
            elif registration.leader == self._node_id:
                found[name] = self._here(name)
            else:
                by_leader.setdefault(registration.leader, []).append(name)
        answers = (self._ask(leader, names) for leader, names in by_leader.items())
        for answer in await asyncio.gather(*answers):
            found.update(answer)
        return found

    def _here(self, name: TopicPartition) -> int | ErrorCode:
        try:
            partition = self._replicas.find(name.topic, name.partition)
            partition.check_leader()
        except ApiError as error:
            return error.code
        if partition.is_behind_epoch:
            return ErrorCode.OFFSET_NOT_AVAILABLE
        return partition.log.high_watermark

    async def _ask(self, leader: int, names: Collection[TopicPartition]) -> Found:
        """Ask the leader of partitions."""
        by_topic: dict[str, ListOffsetsTopic] = {}
        for name in names:
            topic = by_topic.setdefault(name.topic, ListOffsetsTopic(name=name.topic))
            topic.partitions.append(
                ListOffsetsPartition(partition_index=name.partition, timestamp=LATEST)
            )
        request = ListOffsetsRequest(replica_id=CONSUMER_ID, topics=list(by_topic.values()))
        found: Found = dict.fromkeys(names, ErrorCode.UNKNOWN_SERVER_ERROR)
        try:
            async with self._turns.setdefault(leader, asyncio.Lock()):
                answer = await self._channels.ask(leader, request, request.VERSION_MIN)
        except BrokerUnreachable:
            return dict.fromkeys(names, ErrorCode.NETWORK_EXCEPTION)
        except UnsupportedByBroker:
            return dict.fromkeys(names, ErrorCode.UNSUPPORTED_VERSION)
        for each in cast("ListOffsetsResponse", answer).topics:
            for partition in each.partitions:
                name = TopicPartition(each.name, partition.partition_index)
                code = partition.error_code
                found[name] = ErrorCode(code) if code else partition.offset  # type: ignore[call-arg]
        return found
