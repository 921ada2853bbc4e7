"""Members of classic and consumer groups that keep their membership when the broker changes."""

from __future__ import annotations

from tests.oracle.files.protocol import Client

from odradek.core.group.consumer_protocol import write_assignment
from odradek.model.errors import ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 240_000
PARTITIONS = [0, 1, 2]


def commit(
    client: Client, group: str, topic: str, offset: int, member_id: str = "", epoch: int = -1
) -> None:
    """Commit an offset for each of `PARTITIONS`. Each offset is one higher than the previous
    one."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset + index,
            committed_leader_epoch=0,
            committed_metadata=f"{group} {index}",
        )
        for index in PARTITIONS
    ]
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    client.ask(request, 9)


class ClassicMember:
    """The only member of a classic group."""

    def __init__(self, group: str, topic: str, instance_id: str | None) -> None:
        self.group, self.topic, self.instance_id = group, topic, instance_id
        self.member_id = ""
        self.generation = -1

    def join(self, client: Client) -> None:
        """Join the group, and assign all partitions to this member."""
        metadata = b"\x00\x01" + ConsumerProtocolSubscription(topics=[self.topic]).encode(1)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        if self.instance_id is None and not self.member_id:
            request.member_id = client.ask(request, 9, ErrorCode.MEMBER_ID_REQUIRED).member_id
        joined = client.ask(request, 9)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        part = write_assignment({self.topic: PARTITIONS}, like=b"\x00\x01")
        sync = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=part)],
        )
        client.ask(sync, 5)

    def work(self, client: Client, offset: int) -> None:
        """Send a heartbeat and a commit with the known generation."""
        beat = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        client.ask(beat, 4)
        commit(client, self.group, self.topic, offset, self.member_id, self.generation)


class ConsumerMember:
    """The only member of a consumer group (KIP-848)."""

    def __init__(self, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self.member_id = f"member-of-{group}"
        self.epoch = 0

    def join(self, client: Client) -> None:
        """Join the group. The first response has the assignment."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=0,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=[],
        )
        answer = client.ask(request, 1)
        assert answer.assignment is not None
        (assigned,) = answer.assignment.topic_partitions
        assert assigned.partitions == PARTITIONS
        self.epoch = answer.member_epoch

    def work(self, client: Client, offset: int) -> None:
        """Send a heartbeat and a commit with the known epoch."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch
        )
        answer = client.ask(request, 1)
        assert answer.member_epoch == self.epoch
        commit(client, self.group, self.topic, offset, self.member_id, self.epoch)
