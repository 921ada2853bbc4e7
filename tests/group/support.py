"""A group coordinator over a topic in memory, on a loop whose time is a number."""

from __future__ import annotations

import random

from tests.coordinator.support import (
    MemoryTopic,
    OnALoop,
    image_of,
    topic_id,
)

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.config.broker_config import BrokerConfig
from odradek.config.layers import BrokerLayers
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE
from odradek.core.metadata.topics_delta import TopicDelta
from odradek.env.executor import InlineExecutor
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.wire.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

PARTITIONS = 4


def subscription(*topics: str) -> bytes:
    """What a consumer says, in version 1."""
    return b"\x00\x01" + ConsumerProtocolSubscription(topics=list(topics)).encode(1)


CONSUMER = (("range", subscription("topic")),)


def heartbeat_request(group_id, member_id, generation, instance_id=None):
    return HeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id=generation,
        group_instance_id=instance_id,
    )


def leave_request(group_id, *members):
    """Members are ids or (id, instance id)."""
    pairs = [each if isinstance(each, tuple) else (each, None) for each in members]
    identities = [MemberIdentity(member_id=m, group_instance_id=i) for m, i in pairs]
    return LeaveGroupRequest(group_id=group_id, members=identities)


def commit_request(
    group_id,
    offsets,
    *,
    member_id="",
    generation=-1,
    instance_id=None,
    metadata="",
    retention_ms=-1,
):
    """Offsets by (topic, partition)."""
    topics = {}
    for (name, index), offset in offsets.items():
        topics.setdefault(name, []).append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=topic_id(name), partitions=partitions)
            for name, partitions in topics.items()
        ],
    )


class Coordinator(OnALoop):
    """The coordinator and its surroundings. All partitions are led here."""

    def __init__(self, is_replicated=False, seed=1, **settings):
        super().__init__()
        self.topic = MemoryTopic(is_replicated)
        self.settings = {
            "node.id": "1",
            "process.roles": "broker",
            "offsets.topic.num.partitions": str(PARTITIONS),
        }
        self.settings |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.partitions = int(self.settings["offsets.topic.num.partitions"])
        self.random = random.Random(seed)
        self.image = EMPTY_IMAGE
        self.start()

    def start(self):
        config = BrokerConfig(BrokerLayers(self.settings))
        self.groups = GroupCoordinator(
            config,
            self.clock,
            self.random.randbytes,
            self.topic,
            self.loop,
            InlineExecutor(),
        )
        self.groups.on_metadata(MetadataDelta(self.image), self.image)
        self.groups.startup()
        for partition in range(self.partitions):
            self.groups.on_election(partition, 1)
        self.run(100)

    def restart(self):
        """Another coordinator, on the same log."""
        self.groups.shutdown()
        self.run()
        self.start()

    def set_topics(self, **topics):
        image = image_of(topics, self.image.offset + 1)
        delta = MetadataDelta(self.image)
        for name, before in self.image.topics.by_name.items():
            if name not in topics:
                delta.topics.deleted[before.id, name] = None
        for name, after in image.topics.by_name.items():
            known = self.image.topics.by_name.get(name)
            if known is None or len(known.partitions) != len(after.partitions):
                delta.topics.changed[after.id] = TopicDelta(name, after.id, known)
        self.image = image
        self.groups.on_metadata(delta, image)
        self.run()

    def machine(self, group_id):
        return self.groups.runtime.shard(self.groups.partition_for(group_id)).machine

    def group(self, group_id):
        return self.machine(group_id).state.groups[group_id]

    def log(self, group_id):
        return self.topic.partition(self.groups.partition_for(group_id))

    def close(self):
        self.groups.shutdown()
        self.run()
        self.loop.close()

    # -- requests -----------------------------------------------------------------------------

    def context(self, api_version, client_id="client"):
        peer = Peer("10.0.0.1", 50_000, "PLAINTEXT", "127.0.0.1", 9092)
        return RequestContext(peer, 0, api_version, 0, client_id, 0)

    def join(
        self,
        group_id,
        member_id="",
        *,
        instance_id=None,
        version=9,
        protocols=CONSUMER,
        protocol_type="consumer",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
    ):
        """A JoinGroup; the answer is a future, or the error code of a refusal."""
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms if version else -1,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
        )
        try:
            return self.groups.join(self.context(version), request)
        except ApiError as error:
            return error.code

    def new_member(self, group_id, **options):
        """The member id that a new member is sent back with."""
        answer = self.get(self.join(group_id, **options))
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def sync(self, group_id, member_id, generation, assignment=None, **options):
        request = SyncGroupRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id=generation,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=part)
                for each, part in (assignment or {}).items()
            ],
            **options,
        )
        try:
            return self.groups.sync(request)
        except ApiError as error:
            return error.code

    def heartbeat(self, group_id, member_id, generation, instance_id=None):
        """The error code of a Heartbeat."""
        request = heartbeat_request(group_id, member_id, generation, instance_id)
        answer = self.call(self.groups.heartbeat, request)
        return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)

    def leave(self, group_id, *members):
        """The error codes of the members that leave, given as id or (id, instance id)."""
        request = leave_request(group_id, *members)
        answer = self.call(self.groups.leave, request)
        if isinstance(answer, ErrorCode):
            return answer
        return [ErrorCode(each.error_code) for each in answer.members]

    def commit(self, group_id, offsets, *, version=9, **options):
        """Commit offsets by (topic, partition); error codes by the same, or one of all."""
        request = commit_request(group_id, offsets, **options)
        answer = self.call(self.groups.commit_offsets, self.context(version), request)
        if isinstance(answer, ErrorCode):
            return answer
        return {
            (topic.name, each.partition_index): ErrorCode(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }

    def committed(self, group_id, partitions=None, *, require_stable=False, **member):
        """Offsets (or error codes) by (topic, partition); all of them if none are named."""
        topics = None
        if partitions is not None:
            by_name = {}
            for name, index in partitions:
                by_name.setdefault(name, []).append(index)
            topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                for name, indexes in by_name.items()
            ]
        request = OffsetFetchRequestGroup(group_id=group_id, topics=topics, **member)
        answer = self.call(self.groups.fetch_offsets, request, require_stable)
        if isinstance(answer, ErrorCode):
            return answer
        return {
            (topic.name, each.partition_index): (
                ErrorCode(each.error_code) if each.error_code else each.committed_offset
            )
            for topic in answer.topics
            for each in topic.partitions
        }


class Generation:
    """A group whose members have joined and got their assignment."""

    def __init__(self, coordinator, group_id, count=2, **options):
        self.coordinator = coordinator
        self.group_id = group_id
        self.options = options
        ids = [coordinator.new_member(group_id, **options) for _ in range(count)]
        joins = [coordinator.join(group_id, each, **options) for each in ids]
        coordinator.run(10_000)
        self.take(joins)

    def take(self, joins):
        """Members have joined: let the leader assign each its own name."""
        answers = [self.coordinator.get(each) for each in joins]
        assert {each.error_code for each in answers} == {0}
        self.number = answers[0].generation_id
        self.ids = [each.member_id for each in answers]
        self.leader = answers[0].leader
        parts = {each: each.encode() for each in self.ids}
        syncs = [
            self.coordinator.sync(
                self.group_id, each, self.number, parts if each == self.leader else None
            )
            for each in self.ids
        ]
        self.coordinator.run()
        self.assignments = [self.coordinator.get(each).assignment for each in syncs]

    @property
    def follower(self):
        return next(each for each in self.ids if each != self.leader)
