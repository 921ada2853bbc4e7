"""Fetches whole record batches, with one request in flight to every leader.

The next requests are sent before chunks are returned, so that the broker works while the caller
decodes records. `Fetcher` handles leader changes, broker restarts and lost sessions. It raises only
permanent errors, and retriable errors that last longer than the cluster's timeout.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from odradek.client.cluster import BACKOFF_MS, BACKOFF_MS_MAX, Cluster
from odradek.client.connection import Connection
from odradek.client.deadline import Backoff, Deadline
from odradek.client.errors import (
    ClientError,
    MalformedResponseError,
    OffsetOutOfRangeError,
    check,
)
from odradek.client.fetch_session import FetchFrom, FetchSession
from odradek.client.frames import Pending
from odradek.client.offsets import READ_UNCOMMITTED
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import FetchResponse, PartitionData

_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

_INT32 = Struct(">i")
_INT64 = Struct(">q")
_LENGTH_POSITION = 8
_LAST_OFFSET_DELTA_POSITION = 23
_LOG_OVERHEAD = 12


class AbortedTransaction(NamedTuple):
    """The records of this producer are aborted from `first_offset` to the next abort marker."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole batches of a partition, as the broker stores them.

    The first batch may begin before `offset`.

    `end_offset` is the high watermark, or the last stable offset when reading committed records.
    """

    topic_partition: TopicPartition
    offset: int
    next_offset: int
    records: memoryview
    end_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]


class _UnderWay(NamedTuple):
    connection: Connection
    pending: Pending[FetchResponse]
    wanted: Mapping[TopicPartition, FetchFrom]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much a fetch returns, and how long the broker may wait for data (KIP-74)."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 << 20
    partition_bytes_max: int = 1 << 20


class Fetcher:
    """Reads batches from the partitions in `positions`, each from its offset on."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: int = READ_UNCOMMITTED,
        limits: FetchLimits | None = None,
        sessions: bool = True,
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._limits = limits or FetchLimits()
        self._with_sessions = sessions
        self._sessions: dict[int, FetchSession] = {}
        self._under_way: dict[int, _UnderWay] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._failed: ClientError | None = None
        """An error that the next `poll` handles or raises."""
        self._failing: Deadline | None = None
        self._backoff = Backoff(BACKOFF_MS, BACKOFF_MS_MAX)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset of the next record that `poll` returns, by partition."""
        return self._positions

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Set positions and add partitions if needed. Responses for other positions are dropped."""
        self._positions.update(positions)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        for each in partitions:
            self._positions.pop(each, None)

    def poll(self, timeout_ms: int) -> list[Chunk]:
        """Return the chunks that have arrived. If there are none, wait up to `timeout_ms`.

        Raises:
            OffsetOutOfRangeError: a partition does not hold its position. Call `seek` to continue.
            ClientError: a permanent error, or an error that lasts too long.
        """
        deadline = Deadline(timeout_ms)
        while True:
            try:
                self._raise_failed()
                self._send()
                chunks = self._receive(deadline)
            except OffsetOutOfRangeError:
                raise
            except ClientError as error:
                self._recover(error, deadline)
                chunks = []
            if chunks:
                self._send_ahead()
            if chunks or deadline.expired:
                return chunks

    def _raise_failed(self) -> None:
        error, self._failed = self._failed, None
        if error is not None:
            raise error

    # -- requests ---------------------------------------------------------------------------

    def _send(self) -> None:
        """Send a fetch to every leader that has none in flight."""
        if not self._positions:
            return
        wanted: dict[int, dict[TopicPartition, FetchFrom]] = {}
        for each, offset in self._positions.items():
            leader = self._cluster.leader(each)
            if leader not in self._under_way:
                epoch = self._cluster.topic(each.topic).partitions[each.partition].leader_epoch
                where = FetchFrom(offset, epoch, self._limits.partition_bytes_max)
                wanted.setdefault(leader, {})[each] = where
        for node_id, some in wanted.items():
            self._send_to(node_id, some)

    def _send_ahead(self) -> None:
        """Send the next fetches. An error is kept for the next `poll`."""
        try:
            self._send()
        except ClientError as error:
            self._failed = error

    def _send_to(self, node_id: int, wanted: Mapping[TopicPartition, FetchFrom]) -> None:
        limits = self._limits
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSession(self._with_sessions)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=limits.wait_ms_max,
            min_bytes=limits.bytes_min,
            max_bytes=limits.bytes_max,
            isolation_level=self._isolation,
        )
        session.fill(request, wanted)
        try:
            connection = self._cluster.node(node_id, "fetch")
            pending = connection.send(request, FetchResponse)
        except ClientError:
            session.reset()
            raise
        self._under_way[node_id] = _UnderWay(connection, pending, wanted)

    # -- responses --------------------------------------------------------------------------

    def _receive(self, deadline: Deadline) -> list[Chunk]:
        """Process the responses that have arrived, or wait for a response.

        No exception may be raised after positions have advanced, because the chunks would be lost.
        """
        chunks: list[Chunk] = []
        if not self._under_way:
            time.sleep(min(deadline.remaining_ms, BACKOFF_MS) / 1000)
            return chunks
        poll = select.poll()
        for each in self._under_way.values():
            poll.register(each.connection, select.POLLIN)
        if not any(each.connection.has_decrypted for each in self._under_way.values()):
            poll.poll(deadline.remaining_ms)
        for node_id, (connection, pending, wanted) in list(self._under_way.items()):
            try:
                response = connection.poll(pending)
                if response is None:
                    continue
                del self._under_way[node_id]
                self._check(node_id, response)
            except ClientError as error:
                self._failed = error
                continue
            chunks += self._take(response, wanted)
            if self._failed is None:
                self._failing = None
                self._backoff = Backoff(BACKOFF_MS, BACKOFF_MS_MAX)
        return chunks

    def _check(self, node_id: int, response: FetchResponse) -> None:
        """Advance the session, or reset the session after an error."""
        session = self._sessions[node_id]
        if response.error_code in _SESSION_ERRORS:
            session.reset()
            response.responses = []
            return
        if response.error_code:
            session.reset()
            check(response.error_code, subject=f"broker {node_id}")
        session.accepted(response.session_id)

    def _take(
        self, response: FetchResponse, wanted: Mapping[TopicPartition, FetchFrom]
    ) -> list[Chunk]:
        """Return the batches in a response. Keep the error of a partition for the next `poll`."""
        chunks = []
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicPartition(topic.topic, data.partition_index)
                where = wanted.get(key)
                if where is None or self._positions.get(key) != where.offset:
                    continue  # The partition was dropped or has another position since the request.
                try:
                    chunk = self._chunk(key, data, where.offset)
                except ClientError as error:
                    self._failed = error
                    continue
                if chunk is not None:
                    self._positions[key] = chunk.next_offset
                    chunks.append(chunk)
        return chunks

    def _chunk(self, key: TopicPartition, data: PartitionData, offset: int) -> Chunk | None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRangeError(key, offset)
        check(data.error_code, subject=f"partition {key}")
        if data.records is None or not len(data.records):
            return None
        assert isinstance(data.records, memoryview)
        size, next_offset = whole_batches(data.records)
        if not size:
            raise MalformedResponseError(f"partition {key}: no whole batch at offset {offset}")
        committed = self._isolation != READ_UNCOMMITTED
        return Chunk(
            key,
            offset,
            next_offset,
            data.records[:size],
            data.last_stable_offset if committed else data.high_watermark,
            data.log_start_offset,
            tuple(
                AbortedTransaction(a.producer_id, a.first_offset)
                for a in data.aborted_transactions or ()
            ),
        )

    # -- failures ---------------------------------------------------------------------------

    def _recover(self, error: ClientError, deadline: Deadline) -> None:
        """Prepare another attempt, or raise if the error is permanent or has lasted too long."""
        if self._failing is None:
            self._failing = Deadline(self._cluster.timeout_ms)
        if not error.retriable or self._failing.expired:
            raise error
        for node_id, each in list(self._under_way.items()):
            if each.connection.closed:
                del self._under_way[node_id]
                self._sessions[node_id].reset()
        for topic in {each.topic for each in self._positions}:
            self._cluster.forget_topic(topic)
        if not self._backoff.pause(deadline):
            time.sleep(deadline.remaining_ms / 1000)


def whole_batches(records: memoryview) -> tuple[int, int]:
    """Return the length of the complete batches in `records`, and the offset after the last one."""
    position, last, end = 0, -1, len(records)
    while end - position >= _LOG_OVERHEAD:
        (length,) = _INT32.unpack_from(records, position + _LENGTH_POSITION)
        after = position + _LOG_OVERHEAD + length
        if length <= 0 or after > end:
            break
        last, position = position, after
    if last < 0:
        return 0, -1
    (base_offset,) = _INT64.unpack_from(records, last)
    (delta,) = _INT32.unpack_from(records, last + _LAST_OFFSET_DELTA_POSITION)
    return position, base_offset + delta + 1
