"""Fetches of simulated clients."""

from __future__ import annotations

from typing import NamedTuple

from odradek.client.core.fetch_state import FetchState
from odradek.client.core.fetched_chunk import FetchedChunk, whole_batches
from odradek.client.errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import iterate_records
from odradek.sim.driver import SimClient, To, leader
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import FetchResponse, PartitionData
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_offsets_response import ListOffsetsResponse

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_WAIT_MS = 200
_EARLIEST = -2


class Fetched(NamedTuple):
    """The result of one fetch of one partition."""

    error_code: int
    values: list[tuple[int, str]]
    """Offsets and values for the requested isolation level."""
    next_offset: int
    high_watermark: int
    last_stable_offset: int


async def fetch(
    client: SimClient,
    partition: TopicPartition,
    offset: int,
    isolation: int,
    wait_ms: int = _WAIT_MS,
) -> Fetched:
    """Fetch from an offset.

    A client with a rack reads from the replica that the leader names (KIP-392). If this replica responds
    with an error, the client asks the leader again.

    Raises:
        ClientError: as `SimClient.ask`; or a replica does not have the offset, which the leader may have.
        RecordsError: the received records are damaged.
    """
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation,
        session_epoch=-1,
        rack_id=client.rack,
        topics=[
            FetchTopic(
                topic=partition.topic,
                partitions=[
                    FetchPartition(
                        partition=partition.partition,
                        fetch_offset=offset,
                        partition_max_bytes=1 << 20,
                    )
                ],
            )
        ],
    )
    near = client.nearest.get(partition)
    try:
        to = leader(partition) if near is None else To(node=near)
        response = await client.ask(request, FetchResponse, to)
    except ClientError:
        client.nearest.pop(partition, None)
        raise
    answer = response.responses[0].partitions[0]
    _choose_replica(client, partition, answer)
    data = memoryview(bytes(answer.records or b""))  # type: ignore[arg-type]
    length, after = whole_batches(data)
    aborted = [
        (each.first_offset, each.producer_id)
        for each in answer.aborted_transactions or ()
        if isolation == READ_COMMITTED
    ]
    state = FetchState(partition)
    chunk = FetchedChunk(state, -1, data[:length], after, aborted, checks_crcs=True)
    values = []
    while (batch := chunk.take(offset)) is not None:
        values += [
            (record.offset, (record.value or b"").decode())
            for record in iterate_records(batch)
            if record.offset >= offset
        ]
    next_offset = max(offset, after)
    return Fetched(
        answer.error_code, values, next_offset, answer.high_watermark, answer.last_stable_offset
    )


async def earliest(client: SimClient, partition: TopicPartition) -> int:
    """Return the first offset of a partition.

    Raises:
        ClientError: as `SimClient.ask`; or the broker does not lead the partition.
    """
    index = ListOffsetsPartition(partition_index=partition.partition, timestamp=_EARLIEST)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=partition.topic, partitions=[index])]
    )
    response = await client.ask(request, ListOffsetsResponse, leader(partition))
    (answer,) = response.topics[0].partitions
    if answer.error_code:
        client.forget(leader(partition))
        raise ClientError("the broker does not lead the partition")
    return answer.offset


def _choose_replica(client: SimClient, partition: TopicPartition, answer: PartitionData) -> None:
    if answer.error_code:
        client.forget(leader(partition))
        was_near = client.nearest.pop(partition, None) is not None
        if was_near and answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise ClientError("the replica is behind")
    elif answer.preferred_read_replica in client.routes.metadata.nodes:
        client.nearest[partition] = answer.preferred_read_replica
    elif answer.preferred_read_replica >= 0:
        client.forget(leader(partition))  # the broker was down when the client asked for all
