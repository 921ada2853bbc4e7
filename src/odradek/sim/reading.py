"""Fetches of simulated clients."""

from __future__ import annotations

from typing import NamedTuple

from odradek.client.consumer import visible_batches
from odradek.client.fetcher import AbortedTransaction
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records
from odradek.sim.client import Client
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import FetchResponse

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_WAIT_MS = 200


class Fetched(NamedTuple):
    """The result of one fetch of one partition."""

    error_code: int
    values: list[tuple[int, str]]
    """Offsets and values for the requested isolation level."""
    next_offset: int
    high_watermark: int
    last_stable_offset: int


async def fetch(
    client: Client, partition: TopicPartition, offset: int, isolation: int, wait_ms: int = _WAIT_MS
) -> Fetched:
    """Fetch from an offset.

    Raises:
        OSError: as `Client.ask`.
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
    response = await client.ask(request, 12, FetchResponse)
    answer = response.responses[0].partitions[0]
    data = memoryview(bytes(answer.records or b""))  # type: ignore[arg-type]
    aborted = [
        AbortedTransaction(each.producer_id, each.first_offset)
        for each in answer.aborted_transactions or ()
    ]
    values = [
        (record.offset, (record.value or b"").decode())
        for batch in visible_batches(data, aborted if isolation == READ_COMMITTED else ())
        for record in iterate_records(batch)
        if record.offset >= offset
    ]
    next_offset = max([offset, *(batch.next_offset for batch in iterate_batches(data))])
    return Fetched(
        answer.error_code, values, next_offset, answer.high_watermark, answer.last_stable_offset
    )
