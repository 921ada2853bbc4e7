"""Valid requests of the share APIs, and share groups that are prepared for them.

The topic has two partitions. Partition 0 has `RECORDS` records and partition 1 has one record, each
in its own batch. Responses are compared with all their fields except ids, times and messages.
Records are compared by the offsets of their batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from compat.lab.wire_client import WireClient, batch_headers
from tests.bad_input.coordinators.fields import Values
from tests.bad_input.coordinators.requests import RETRIABLE, TOPIC, Actor, Broker, codes_of

from odradek.model import uuids
from odradek.records.builder import RecordBatchBuilder
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

RECORDS = 6
MEMBER = "member"
FETCH_WAIT_MS = 20_000
"""How long a fetch may wait that prepares a group."""
STATE_EPOCH, LEADER_EPOCH = 5, 2
"""The epochs of a share partition whose state is written directly."""
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "10",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


class ShareActor(Actor):
    """A share group with one member, and the member's share session."""

    def __init__(self, ask: Callable[..., Any], name: str, topic_id: bytes) -> None:
        super().__init__(ask, name, topic_id)
        self.member_id = MEMBER
        self.epoch = 0
        self.session_epoch = 0
        self._describing: tuple[str, ...] = ("DescribeShareGroupOffsets",)

    def join_share(self) -> None:
        """Join the group, and wait until the partitions are assigned."""
        self._describing = ("ShareGroupDescribe", "DescribeShareGroupOffsets")
        answer = self.ask("ShareGroupHeartbeat", 1, self.values("ShareGroupHeartbeat"))
        while not answer.assignment or not answer.assignment.topic_partitions:
            self.epoch = answer.member_epoch
            beat = {**self.values("ShareGroupHeartbeat"), "subscribed_topic_names": None}
            answer = self.ask("ShareGroupHeartbeat", 1, beat)
            assert not answer.error_code, answer
        self.epoch = answer.member_epoch

    def set_offsets(self) -> None:
        """Create the group without members. It begins at the start of both partitions."""
        partitions = [{"partition_index": index, "start_offset": 0} for index in (0, 1)]
        topics = [{"topic_name": TOPIC, "partitions": partitions}]
        request = {"group_id": self.name, "topics": topics}
        answer = self.ask("AlterShareGroupOffsets", 0, request)
        assert set(codes_of(self.comparable(answer))) == {"NONE"}, answer

    def acquire(self) -> None:
        """Acquire the only record of partition 1, and two records of partition 0."""
        self.set_offsets()
        self.fetch_all(1, 1)
        self.fetch_all(0, 2)

    def fetch_all(self, partition: int, count: int) -> None:
        """Add a partition to the session, and fetch until `count` records of it are acquired."""
        while count > 0:
            limits = {"max_records": count, "batch_size": count, "max_wait_ms": FETCH_WAIT_MS}
            topics = [{"topic_id": self.topic_id, "partitions": [{
                "partition_index": partition, "acknowledgement_batches": [],
            }]}]  # fmt: skip
            request = {**self.fetching(), "topics": topics, **limits}
            answer = self.ask("ShareFetch", 2, request)
            assert not answer.error_code, answer
            self.session_epoch += 1
            for topic in answer.responses:
                for result in topic.partitions:
                    assert not result.error_code, answer
                    for each in result.acquired_records:
                        count -= each.last_offset - each.first_offset + 1

    def fetching(self) -> Values:
        """Return a ShareFetch without partitions, for two records."""
        return {
            "group_id": self.name, "member_id": self.member_id,
            "share_session_epoch": self.session_epoch, "max_wait_ms": 0, "min_bytes": 1,
            "max_bytes": 1 << 20, "max_records": 2, "batch_size": 2, "share_acquire_mode": 0,
            "is_renew_ack": False, "topics": [], "forgotten_topics_data": [],
        }  # fmt: skip

    def write_state(self) -> None:
        """Begin the state of a share partition, and write it, without a group."""
        self._describing = ("ReadShareGroupStateSummary",)
        for api, version in (("InitializeShareGroupState", 0), ("WriteShareGroupState", 1)):
            answer = self.ask(api, version, self.values(api))
            assert set(codes_of(self.comparable(answer))) == {"NONE"}, answer

    def values(self, api: str) -> Values:
        """Return the fields of a valid request."""
        return REQUESTS[api](self)

    def state(self) -> Any:
        """Return the broker's descriptions of what was prepared."""
        groups = [{"group_id": self.name, "topics": None}]
        described: dict[str, tuple[int, Values]] = {
            "ShareGroupDescribe": (1, {"group_ids": [self.name]}),
            "DescribeShareGroupOffsets": (1, {"groups": groups}),
            "ReadShareGroupStateSummary": (1, self.values("ReadShareGroupStateSummary")),
        }
        return [self.comparable(self.ask(api, *described[api])) for api in self._describing]

    def comparable(self, value: Any, name: str = "") -> Any:
        """Convert a message to a comparable form."""
        if name == "records":
            return [each.base_offset for each in batch_headers(value or b"")]
        if name == "assignment" and value:
            # Which member gets which partition depends on the hash of the topic id.
            return sum(len(each.partitions) for each in value.topic_partitions)
        return super().comparable(value, name)


def _partitions(actor: Actor, **fields: Any) -> list[Values]:
    return [{"topic_id": actor.topic_id, "partitions": [{"partition": 0, **fields}]}]


def _acknowledging(actor: ShareActor) -> list[Values]:
    """Reject offset 0, and accept offset 1."""
    batch = {"first_offset": 0, "last_offset": 1, "acknowledge_types": [3, 1]}
    partition = {"partition_index": 0, "partition_max_bytes": 0, "acknowledgement_batches": [batch]}
    return [{"topic_id": actor.topic_id, "partitions": [partition]}]


REQUESTS: dict[str, Callable[[Any], Values]] = {
    "ShareGroupHeartbeat": lambda actor: {
        "group_id": actor.name, "member_id": actor.member_id, "member_epoch": actor.epoch,
        "rack_id": "rack", "subscribed_topic_names": [TOPIC],
    },
    "ShareGroupDescribe": lambda actor: {
        "group_ids": [actor.name], "include_authorized_operations": True,
    },
    "ShareFetch": lambda actor: {
        **actor.fetching(), "topics": _acknowledging(actor),
        "forgotten_topics_data": [{"topic_id": actor.topic_id, "partitions": [1]}],
    },
    "ShareAcknowledge": lambda actor: {
        "group_id": actor.name, "member_id": actor.member_id,
        "share_session_epoch": actor.session_epoch, "is_renew_ack": False,
        "topics": _acknowledging(actor),
    },
    "InitializeShareGroupState": lambda actor: {
        "group_id": actor.name,
        "topics": _partitions(actor, state_epoch=STATE_EPOCH, start_offset=3),
    },
    "ReadShareGroupState": lambda actor: {
        "group_id": actor.name, "topics": _partitions(actor, leader_epoch=LEADER_EPOCH),
    },
    "WriteShareGroupState": lambda actor: {
        "group_id": actor.name,
        "topics": _partitions(
            actor, state_epoch=STATE_EPOCH, leader_epoch=LEADER_EPOCH, start_offset=4,
            delivery_complete_count=2,
            state_batches=[
                {"first_offset": 5, "last_offset": 6, "delivery_state": 2, "delivery_count": 1},
            ],
        ),
    },
    "DeleteShareGroupState": lambda actor: {
        "group_id": actor.name, "topics": _partitions(actor),
    },
    "ReadShareGroupStateSummary": lambda actor: {
        "group_id": actor.name, "topics": _partitions(actor, leader_epoch=LEADER_EPOCH),
    },
    "DescribeShareGroupOffsets": lambda actor: {
        "groups": [{
            "group_id": actor.name, "topics": [{"topic_name": TOPIC, "partitions": [0]}],
        }],
    },
    "AlterShareGroupOffsets": lambda actor: {
        "group_id": actor.name,
        "topics": [{
            "topic_name": TOPIC, "partitions": [{"partition_index": 0, "start_offset": 2}],
        }],
    },
    "DeleteShareGroupOffsets": lambda actor: {
        "group_id": actor.name, "topics": [{"topic_name": TOPIC}],
    },
}  # fmt: skip
"""The fields of a valid request for each API, for all its versions."""


def produce(port: int) -> None:
    """Write the records of the topic."""
    with WireClient(port) as client:
        while client.serving(TOPIC, 2) < 2:
            pass
        for partition in (*[0] * RECORDS, 1):
            builder = RecordBatchBuilder()
            builder.append(time.time_ns() // 1_000_000, None, b"value")
            data = PartitionProduceData(index=partition, records=builder.build())
            topic = TopicProduceData(name=TOPIC, partition_data=[data])
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
            answer = client.call("Produce", 9, request, ProduceResponse)
            assert not answer.responses[0].partition_responses[0].error_code, answer


def wait_for_share_coordinator(port: int, topic_id: bytes) -> None:
    """Wait until both coordinators of share groups serve. The first requests create their topics."""
    broker = Broker(port, topic_id, ShareActor)
    actor = ShareActor(broker.ask, "first", topic_id)
    asked = [
        ("FindCoordinator", 6, {"key_type": kind, "coordinator_keys": [key]})
        for kind, key in ((0, "first"), (2, f"first:{uuids.to_text(topic_id)}:0"))
    ]
    asked.append(("InitializeShareGroupState", 0, actor.values("InitializeShareGroupState")))
    asked.append(("DescribeGroups", 5, {"groups": ["first"]}))
    for each in asked:
        while set(codes_of(actor.comparable(broker.ask(*each)))) & RETRIABLE:
            pass
    broker.close()
