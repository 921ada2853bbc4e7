"""Writes transaction markers to the partitions that this broker leads.

In a partition of `__consumer_offsets`, the group coordinator writes the marker, because the group
coordinator must commit or drop the offsets of the transaction. All other markers are appended
immediately. A marker is reported as written when it is committed. If that takes longer than
`request.timeout.ms`, the result is REQUEST_TIMED_OUT; the marker may still become committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.partitions.partition import ACKS_ALL
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.core.transaction.markers import Marker, Results
from odradek.env.clock import Clock
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import OFFSETS_TOPIC
from odradek.model.topic_partition import TopicPartition
from odradek.records.control import EndOfTransaction, end_of_transaction_batch

_NOT_READY: Final = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Instead of these errors, the transaction coordinator gets NOT_LEADER_OR_FOLLOWER, and retries."""


class MarkerWriter:
    """Writes markers. Use it only on the event loop's thread."""

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` is the time in which a marker must be committed."""
        self._replicas = replicas
        self._groups = groups
        self._clock = clock
        self._loop = loop
        self._timeout_ms = timeout_ms

    def write(self, marker: Marker) -> Results | asyncio.Task[Results]:
        """Write a marker to all its partitions; return the results, or a task if they must wait."""
        batch = end_of_transaction_batch(
            marker.committed,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._clock.now_ms(),
        )
        ending = EndOfTransaction(marker.committed, marker.coordinator_epoch)
        results: Results = {}
        waiting: dict[TopicPartition, asyncio.Future[None]] = {}
        for name in marker.partitions:
            try:
                if name.topic == OFFSETS_TOPIC:
                    waiting[name] = self._end_in_groups(name.partition, marker)
                else:
                    uncommitted = self._append(name, batch, ending, marker.transaction_version)
                    if uncommitted is None:
                        results[name] = ErrorCode.NONE
                    else:
                        waiting[name] = uncommitted
            except ApiError as error:
                results[name] = error_of_marker(error)
        if waiting:
            return self._loop.create_task(_settle(results, waiting, self._timeout_ms / 1000))
        return results

    def _append(
        self,
        name: TopicPartition,
        batch: bytearray,
        ending: EndOfTransaction,
        transaction_version: int,
    ) -> asyncio.Future[None] | None:
        """Append a marker to a partition.

        Return a future that completes when the marker is committed; None if it is committed now.

        Raises:
            ApiError: the marker was not appended.
        """
        partition = self._replicas.by_name.get(name.topic, {}).get(name.partition)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.append_marker(bytearray(batch), ending, transaction_version)
        end = partition.log.log_end_offset
        if partition.is_acknowledged(end, ACKS_ALL):
            return None
        uncommitted: asyncio.Future[None] = self._loop.create_future()

        def committed(error: ApiError | None) -> None:
            if uncommitted.done():
                return  # it was cancelled: the time is over, or the node stops
            if error is None:
                uncommitted.set_result(None)
            else:
                uncommitted.set_exception(error)

        partition.when_committed(end, committed)
        return uncommitted

    def _end_in_groups(self, index: int, marker: Marker) -> asyncio.Future[None]:
        if index not in self._replicas.by_name.get(OFFSETS_TOPIC, {}):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._groups.runtime.shard(index).complete_transaction(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.committed,
            marker.transaction_version,
        )


def error_of_marker(error: ApiError) -> ErrorCode:
    """Return the error code for the transaction coordinator."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_READY else error.code


async def _settle(
    results: Results, waiting: Mapping[TopicPartition, asyncio.Future[None]], timeout_seconds: float
) -> Results:
    """Wait for the answers; return their results and the results that are known."""
    pending = [each for each in waiting.values() if not each.done()]
    if pending:
        await asyncio.wait(pending, timeout=timeout_seconds)
    for name, answer in waiting.items():
        if not answer.done():
            answer.cancel()
            results[name] = ErrorCode.REQUEST_TIMED_OUT
            continue
        try:
            answer.result()
            results[name] = ErrorCode.NONE
        except ApiError as error:
            results[name] = error_of_marker(error)
    return results
