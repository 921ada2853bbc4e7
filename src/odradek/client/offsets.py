"""Looks up offsets by name (EARLIEST, LATEST and others) or by time, with ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, broker_error
from odradek.client.fan_out import fan_out, to_leaders
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_offsets_response import ListOffsetsResponse

LATEST = -1
"""The high watermark, or the last stable offset when reading committed records only."""
EARLIEST = -2
MAX_TIMESTAMP = -3
"""The record with the largest timestamp."""
EARLIEST_LOCAL = -4
"""The first record that is on the leader's own disk."""
LATEST_TIERED = -5
"""The last record that is in remote storage."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class OffsetAndTime(NamedTuple):
    """An offset, and the timestamp and leader epoch of its record. Unknown values are -1.

    `offset` is -1 if no record is at or after the requested time.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndTime | ClientError]:
    """Return the offset of the first record at or after a time in each partition.

    `times` has a time in ms for each partition. A time may also be LATEST, EARLIEST, MAX_TIMESTAMP
    or another special value of ListOffsets.

    Raises:
        ClientError: a broker does not respond, or does not support the request.
    """

    def build(partitions: list[TopicPartition]) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for each in partitions:
            wanted = ListOffsetsPartition(partition_index=each.partition, timestamp=times[each])
            topics.setdefault(each.topic, []).append(wanted)
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=t, partitions=p) for t, p in topics.items()],
            timeout_ms=cluster.timeout_ms,
        )

    def read(response: ListOffsetsResponse) -> dict[TopicPartition, OffsetAndTime | ClientError]:
        found: dict[TopicPartition, OffsetAndTime | ClientError] = {}
        for topic in response.topics:
            for p in topic.partitions:
                key = TopicPartition(topic.name, p.partition_index)
                error = broker_error(p.error_code, subject=f"partition {key}")
                found[key] = error or OffsetAndTime(p.offset, p.timestamp, p.leader_epoch)
        return found

    return fan_out(
        times,
        to_leaders(cluster),
        build,
        ListOffsetsResponse,
        read,
        cluster.timeout_ms if timeout_ms is None else timeout_ms,
    )


def offsets_at(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    time_ms: int,
    *,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """Return the offset of LATEST, EARLIEST or a time (ms) in each partition.

    If no record is at or after the time, the result is the offset of LATEST.

    Raises:
        ClientError: the error of the first partition that failed.
    """
    found = list_offsets(cluster, dict.fromkeys(partitions, time_ms), isolation=isolation)
    offsets = {partition: _offset(result) for partition, result in found.items()}
    late = [partition for partition, offset in offsets.items() if offset < 0]
    if late:
        ends = list_offsets(cluster, dict.fromkeys(late, LATEST), isolation=isolation)
        offsets.update((partition, _offset(result)) for partition, result in ends.items())
    return offsets


def _offset(result: OffsetAndTime | ClientError) -> int:
    if isinstance(result, ClientError):
        raise result
    return result.offset
