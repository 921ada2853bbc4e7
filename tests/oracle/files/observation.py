"""Reads everything that clients can see of a node and that a restart must not change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.oracle.files.protocol import SOFTWARE, Client

from odradek.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from odradek.model.errors import ErrorCode
from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.wire.generated.describe_groups_request import DescribeGroupsRequest
from odradek.wire.generated.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_transactions_request import ListTransactionsRequest
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.primitives import Message, Struct

FETCH_BYTES_MAX = 1 << 26
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
CONSUMER_PROTOCOL = "consumer"
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
"""Types of resources that have settings."""
SET_SOURCES = {1, 2, 3, 7, 8}
"""The sources of settings that are not defaults: topics, brokers, all brokers, client metrics,
groups."""

Seen = dict[str, Any]


class Contents(NamedTuple):
    """The contents of a partition for one isolation level."""

    records: bytes
    aborted: list[tuple[int, int]]
    """First offset and producer id of each aborted transaction."""
    limits: tuple[int, int, int]
    """Log start offset, last stable offset, high watermark."""


class Observer:
    """Reads the state of one broker."""

    def __init__(self, client: Client, timestamps: list[int]) -> None:
        self._ask = client.ask
        self._timestamps = timestamps
        """Offsets are requested for these timestamps."""

    def see(self, transactional_ids: list[str], resources: list[tuple[int, str]]) -> Seen:
        """Return the state by name."""
        seen: Seen = {}
        metadata = self._ask(MetadataRequest(topics=None), 12)
        seen["cluster"] = metadata.cluster_id
        counts = {each.name: len(each.partitions) for each in metadata.topics}
        for topic in metadata.topics:
            replicas = [each.replica_nodes for each in topic.partitions]
            seen[f"topic {topic.name}"] = topic.topic_id.hex(), replicas
        features = self._ask(ApiVersionsRequest(**SOFTWARE), 4).finalized_features
        seen["features"] = {each.name: each.max_version_level for each in features}
        for topic, count in sorted(counts.items()):
            if not topic.startswith("__"):
                for index in range(count):
                    seen.update(self._partition(topic, index))
        seen.update(self._groups())
        seen.update(self._transactions(transactional_ids))
        seen.update(self._settings([*resources, *((TOPIC, each) for each in counts)]))
        return seen

    def contents(self, topic: str, index: int, isolation: int = READ_UNCOMMITTED) -> Contents:
        """Return the contents of a partition. A Fetch response has records of one segment at
        most."""
        offset = self._offset(topic, index, EARLIEST, isolation)[1]
        records, aborted = b"", set()
        while True:
            data = self._fetch(topic, index, isolation, offset)
            limit = data.last_stable_offset if isolation else data.high_watermark
            found = bytes(data.records or b"")
            records += found
            aborted |= {(e.first_offset, e.producer_id) for e in data.aborted_transactions or ()}
            for batch in iterate_batches(found):
                offset = batch.next_offset
            if offset >= limit:
                limits = data.log_start_offset, data.last_stable_offset, data.high_watermark
                return Contents(records, sorted(aborted), limits)
            assert found, f"{topic}-{index} has nothing at {offset}, below {limit}"

    def _fetch(self, topic: str, index: int, isolation: int, offset: int) -> Any:
        place = FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
        )
        request = FetchRequest(
            isolation_level=isolation, topics=[FetchTopic(topic=topic, partitions=[place])]
        )
        return self._ask(request, 12).responses[0].partitions[0]

    def _partition(self, topic: str, index: int) -> Iterator[tuple[str, Any]]:
        place = f"{topic}-{index}"
        epochs: set[int] = set()
        for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
            contents = self.contents(topic, index, isolation)
            level = "committed" if isolation else "uncommitted"
            yield f"{place} {level} bytes", contents.records.hex()
            yield f"{place} {level} limits", contents.limits
            yield f"{place} {level} aborted", contents.aborted
            for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, *self._timestamps):
                found = self._offset(topic, index, timestamp, isolation)
                # Without a record, the leader epoch is the current one, which grows at each start.
                shown = found if timestamp >= 0 else found[:2]
                yield f"{place} {level} at {timestamp}", shown
            epochs.update(each.leader_epoch for each in iterate_batches(contents.records))
        for epoch in sorted(epochs):
            yield f"{place} end of epoch {epoch}", self._end_of_epoch(topic, index, epoch)
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=topic, partition_indexes=[index])]
        )
        (answer,) = self._ask(request, 0).topics[0].partitions
        yield f"{place} producers", sorted(map(plain, answer.active_producers), key=str)

    def _offset(self, topic: str, index: int, timestamp: int, isolation: int) -> tuple[int, ...]:
        place = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=topic, partitions=[place])],
        )
        (found,) = self._ask(request, 7).topics[0].partitions
        return found.timestamp, found.offset, found.leader_epoch

    def _end_of_epoch(self, topic: str, index: int, epoch: int) -> tuple[int, int]:
        place = OffsetForLeaderPartition(partition=index, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[place])]
        answer = self._ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
        (found,) = answer.topics[0].partitions
        return found.leader_epoch, found.end_offset

    def _groups(self) -> Iterator[tuple[str, Any]]:
        for listed in self._ask(ListGroupsRequest(), 5).groups:
            if listed.group_type == "share":
                continue
            name = listed.group_id
            yield f"group {name}", plain(listed)
            request: Message = DescribeGroupsRequest(groups=[name])
            if listed.group_type == CONSUMER_PROTOCOL:
                request = ConsumerGroupDescribeRequest(group_ids=[name])
                yield f"group {name} described", plain(self._ask(request, 1).groups)
            elif listed.group_type == "classic":
                yield f"group {name} described", plain(self._ask(request, 5).groups)
            for is_stable in (False, True):
                group = OffsetFetchRequestGroup(group_id=name, topics=None)
                request = OffsetFetchRequest(groups=[group], require_stable=is_stable)
                answer = self._ask(request, 8, allowed=[ErrorCode.UNSTABLE_OFFSET_COMMIT])
                for topic in answer.groups[0].topics:
                    offsets = sorted(map(plain, topic.partitions), key=str)
                    yield f"group {name} offsets {topic.name} {is_stable}", offsets

    def _transactions(self, ids: list[str]) -> Iterator[tuple[str, Any]]:
        listed = self._ask(ListTransactionsRequest(), 1).transaction_states
        yield "transactions", sorted(map(plain, listed), key=str)
        for each in self._ask(
            DescribeTransactionsRequest(transactional_ids=ids), 0
        ).transaction_states:
            each.topics.sort(key=lambda topic: topic.topic)
            yield f"transaction {each.transactional_id}", plain(each)

    def _settings(self, resources: list[tuple[int, str]]) -> Iterator[tuple[str, Any]]:
        for kind, name in resources:
            resource = DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            (result,) = self._ask(DescribeConfigsRequest(resources=[resource]), 4).results
            found = {
                each.name: (each.value, each.config_source)
                for each in result.configs
                if each.config_source in SET_SOURCES
            }
            yield f"settings {kind} {name}", found


def shown_records(contents: Contents) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of the records that a consumer returns, in offset order."""
    aborted = contents.aborted[::-1]
    dropped: set[int] = set()
    shown = []
    for batch in iterate_batches(contents.records):
        while aborted and aborted[-1][0] <= batch.last_offset:
            dropped.add(aborted.pop()[1])
        if batch.is_control:
            dropped.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in dropped):
            shown += [(each.offset, each.key, each.value) for each in iterate_records(batch)]
    return shown


def plain(value: Any) -> Any:
    """Convert messages to dictionaries, so that differences can be shown."""
    if isinstance(value, Struct):
        fields = {name: plain(getattr(value, name)) for name in type(value).__slots__}
        return dict(sorted(fields.items()))
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def differences(before: Seen, after: Seen) -> list[str]:
    """Return a line for each difference. For the bytes of a partition, show the first
    difference."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            lines.append(f"{name}: {_short(old, new)} became {_short(new, old)}")
    return lines


def _short(value: Any, other: Any) -> str:
    if not isinstance(value, str) or not isinstance(other, str):
        return repr(value)
    same = next((i for i, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), 0)
    return f"{len(value) // 2} bytes, from {same // 2} {value[same : same + 80]}"
