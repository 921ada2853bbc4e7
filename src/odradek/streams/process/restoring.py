"""Reads changelogs and the topics of global tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.consuming.consumer import Consumer
from odradek.client.core.consumed_batch import Record
from odradek.model.topic_partition import TopicPartition

POLL_SECONDS = 0.5


def read_whole(
    settings: Mapping[str, Any],
    ends: Mapping[TopicPartition, int | None],
    apply: Callable[[Record], None],
    stops: Callable[[], bool],
) -> dict[TopicPartition, int]:
    """Read partitions from their beginnings to the given ends; None is the end that they have now.

    Returns the next offsets. With `stops`, reading ends early.

    Raises:
        ClientError: the records cannot be read.
    """
    partitions = list(ends)
    if not partitions:
        return {}
    with Consumer(settings) as consumer:
        first = consumer.beginning_offsets(*partitions)
        last = consumer.end_offsets(*partitions)
        limits = {each: last[each] if end is None else end for each, end in ends.items()}
        consumer.assign([(each.topic, each.partition, first[each]) for each in partitions])
        positions = dict(first)
        while not stops() and any(positions[each] < limits[each] for each in partitions):
            batch = consumer.poll(POLL_SECONDS)
            if batch is not None:
                limit = limits[batch.topic_partition]
                for record in batch.records():
                    if record.offset < limit:
                        apply(record)
                positions[batch.topic_partition] = batch.next_offset
                continue
            for each in partitions:  # behind the last record may be markers of transactions only
                positions[each] = max(
                    positions[each], consumer.position((each.topic, each.partition))
                )
        return positions
