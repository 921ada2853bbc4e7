"""A consumer's machine, and brokers whose answers are given by hand. Time passes by hand, too."""

from __future__ import annotations

import random

from odradek.client.core.asks import Ask
from odradek.client.core.consumer import ConsumerMachine
from odradek.client.core.consumer_settings import ConsumerSettings
from odradek.client.core.fetch_settings import FetchSettings, ResetPolicy
from odradek.client.core.routes import Routes
from odradek.model.topic_partition import TopicPartition
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import end_of_transaction_batch
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from odradek.wire.generated.list_offsets_request import ListOffsetsRequest
from odradek.wire.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.generated.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
from odradek.wire.generated.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

T = TopicPartition("t", 0)
U = TopicPartition("t", 1)
ID = bytes(15) + b"\1"
OTHER_ID = bytes(15) + b"\2"
TIME_OF_DAY = 1_700_000_000_000


class Lab:
    """Two brokers with one topic `t`. Metadata is answered at once, the rest by hand."""

    def __init__(self, *, reset="earliest", partitions=2, **settings):
        draw = random.Random(7)
        self.now = 1_000
        self.routes = Routes(lambda: draw.getrandbits(31))
        policy = reset if isinstance(reset, ResetPolicy) else ResetPolicy(reset)
        fetch = FetchSettings(reset=policy, **settings)
        self.machine = ConsumerMachine(
            ConsumerSettings(fetch), self.routes, self.routes.random, lambda: TIME_OF_DAY
        )
        self.fetcher = self.machine.fetcher
        self.asks: list[Ask] = []
        """Requests without an answer, except for metadata."""
        self.sent = []
        """All requests."""
        self.leaders = dict.fromkeys(range(partitions), (1, 0))
        """Leader and epoch by partition; empty if the topic does not exist."""
        self.topic_id = ID
        for link in ((1, ""), (2, ""), (1, "fetch"), (2, "fetch")):
            self.routes.opened(link, ApiVersionsResponse())

    def metadata(self):
        nodes = [MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)]
        topic = MetadataResponseTopic(name="t", topic_id=self.topic_id)
        topic.partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2]
            )
            for index, (leader, epoch) in self.leaders.items()
        ]
        topic.error_code = 0 if self.leaders else 3
        return MetadataResponse(brokers=nodes, topics=[topic])

    def poll(self):
        while True:
            some = self.machine.poll(self.now) + self.routes.poll(self.now)
            if not some:
                return
            for ask in some:
                self.sent.append(ask.request)
                if isinstance(ask.request, MetadataRequest):
                    ask.on_answer(self.metadata(), self.now)
                else:
                    self.asks.append(ask)

    def pass_time(self, ms):
        self.now += ms
        self.poll()

    def refresh(self):
        """Let the client notice that leaders, or the topic, have changed."""
        self.routes.forget_topic("t")
        self.pass_time(2_000)

    def assign(self, *partitions, at=None):
        self.machine.assign(partitions)
        for each in partitions:
            if at is not None:
                self.fetcher.seek(each, at)
        self.poll()

    # -- requests and answers -------------------------------------------------------------------

    def pending(self, kind=FetchRequest):
        return [each for each in self.asks if isinstance(each.request, kind)]

    def take(self, kind=FetchRequest):
        ask = self.pending(kind)[0]
        self.asks.remove(ask)
        return ask

    def answer(self, *records, kind=FetchRequest, **fields):
        """Answer the oldest Fetch with records of partition 0, or with what `data` has."""
        ask = self.take(kind)
        if "data" not in fields:
            fields["data"] = [partition(b"".join(bytes(each) for each in records))]
        session_id = fields.pop("session_id", 0)
        response = FetchResponse(
            session_id=session_id,
            responses=[FetchableTopicResponse(topic_id=self.topic_id, partitions=fields["data"])],
        )
        ask.on_answer(response, self.now)
        self.poll()
        return ask.request

    def refuse(self, code, **fields):
        """Answer the oldest Fetch with an error of partition 0."""
        return self.answer(data=[partition(error_code=code, **fields)])

    def fail(self, error, kind=FetchRequest):
        self.take(kind).on_error(error, self.now)
        self.poll()

    def answer_lookup(self, offset=0, code=0, partition=0):
        ask = self.take(ListOffsetsRequest)
        each = ListOffsetsPartitionResponse(
            partition_index=partition, offset=offset, error_code=code
        )
        ask.on_answer(
            ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[each])]),
            self.now,
        )
        self.poll()
        return ask.request.topics[0].partitions[0].timestamp

    def answer_check(self, epoch, end, code=0):
        ask = self.take(OffsetForLeaderEpochRequest)
        each = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=end, error_code=code)
        topic = OffsetForLeaderTopicResult(topic="t", partitions=[each])
        ask.on_answer(OffsetForLeaderEpochResponse(topics=[topic]), self.now)
        self.poll()
        return ask.request.topics[0].partitions[0]

    # -- the user -------------------------------------------------------------------------------

    def read(self):
        """Take all batches, and return the offsets of their records."""
        found = []
        while (batch := self.machine.take()) is not None:
            found += batch.offsets()
        self.poll()
        return found

    def position(self, which=T):
        found = self.machine.position(which)
        return None if found is None else found.offset


def partition(records=b"", index=0, **fields):
    return PartitionData(
        partition_index=index, high_watermark=100, last_stable_offset=90, records=records or None,
        **fields,
    )  # fmt: skip


def batch(first, count=1, epoch=0, **fields):
    builder = RecordBatchBuilder(base_offset=first, leader_epoch=epoch, **fields)
    for offset in range(first, first + count):
        builder.append(1_000 + offset, b"k%d" % offset, b"v%d" % offset)
    return bytes(builder.build())


def transactional(first, producer_id, count=1):
    return batch(
        first,
        count,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(offset, producer_id, *, committed, epoch=0):
    data = end_of_transaction_batch(
        committed,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=0,
        leader_epoch=epoch,
    )
    data[0:8] = offset.to_bytes(8, "big")
    return bytes(data)


def aborted(*pairs):
    return [AbortedTransaction(producer_id=p, first_offset=o) for p, o in pairs]
