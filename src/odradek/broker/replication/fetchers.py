"""Fetches the partitions that this broker follows: performs the effects of `core/replica/follower`.

There is one `LeaderFetcher` for each broker that leads such a partition. It has one connection and
one fetch session (Kafka's `ReplicaFetcherThread` with `num.replica.fetchers=1`). A response is
processed for at most `TURN_SECONDS` in one iteration of the event loop. What is left is copied out
of the receive buffer and processed in the next iterations. The next request is sent after that.

Each partition's records in a response are appended in one write where the log allows it
(`GivenAppender.append_as_follower`). A truncation is written and flushed in a thread. The partition
is not fetched until the truncation is complete. If a topic has `flush.messages=1`, each fetch of
the partition waits until all records in its log are flushed, because the fetch offset tells the
leader which records this broker has stored. The next request to the leader waits, too, as in Kafka,
where the fetcher's thread flushes. Without the partition, it could wait at the leader for
`replica.fetch.wait.max.ms`, and the leader would learn of the flush only after this time.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from odradek.broker.partitions.partition import Partition
from odradek.core.metadata.registrations import NO_LEADER, BrokerRegistration, Endpoint
from odradek.core.replica.effects import (
    Append,
    FetcherEffect,
    ReplicaKey,
    RestartAt,
    Truncate,
)
from odradek.core.replica.fetch_states import FetchState
from odradek.core.replica.follower import FetcherSettings, ReplicaFetcher
from odradek.core.replica.throttle import ReplicationThrottle
from odradek.env.file_range import FileRange
from odradek.env.network import Buffer
from odradek.log.errors import DiskFull, LogDirectoryOffline, RecordsRefused
from odradek.log.group_commit import Flushed
from odradek.log.partition_log import PartitionLog
from odradek.model import api_keys
from odradek.model.errors import ApiError
from odradek.wire.generated.fetch_response import FetchResponse
from odradek.wire.generated.list_offsets_response import ListOffsetsResponse
from odradek.wire.primitives import MalformedMessage, Message, skip_tagged_fields

log = logging.getLogger("odradek.replicas")

TURN_SECONDS: Final = 0.004
"""Time that one iteration of the event loop may spend on a response."""
FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 9
_client_id_length: Final = struct.Struct(">h").pack

OnDone = Callable[[memoryview | None, Exception | None], None]


_BASE_OFFSET_BYTES = 8


class Connection(Protocol):
    """A connection to another broker, for example `network.client.NodeClient`."""

    def send(
        self,
        api_key: int,
        api_version: int,
        parts: list[Buffer],
        timeout_ms: int,
        on_done: OnDone,
        /,
    ) -> None:
        """Send a request; `parts` are the bytes after the correlation id. See `NodeClient`."""
        ...

    def close(self) -> None:
        """Close the connection; all requests fail."""
        ...


Connect = Callable[[Endpoint], Connection]
WhenFlushed = Callable[[PartitionLog, int, Flushed], None]


class Fetchers:
    """The fetchers of a broker, by the leader's id. Use it only on the event loop's thread."""

    def __init__(
        self,
        node_id: int,
        *,
        settings: FetcherSettings,
        timeout_ms: int,
        listener: str,
        broker_of: Callable[[int], BrokerRegistration | None],
        broker_epoch: Callable[[], int],
        connect: Connect,
        when_flushed: WhenFlushed,
        loop: asyncio.AbstractEventLoop,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """`listener` is the inter-broker listener. `timeout_ms` is the time for one request."""
        self.node_id = node_id
        self.throttle = throttle
        self.settings = settings
        self.timeout_ms = timeout_ms
        self.broker_epoch = broker_epoch
        self.when_flushed = when_flushed
        self.loop = loop
        self._listener = listener
        self._broker_of = broker_of
        self._connect = connect
        self._by_leader: dict[int, LeaderFetcher] = {}
        self._partitions: dict[ReplicaKey, tuple[Partition, int]] = {}
        """The followed partitions, with their leaders (-1: no leader can be reached)."""
        self._unreachable: dict[ReplicaKey, None] = {}
        self._is_closed = False

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader, in its current leader epoch."""
        if self._is_closed:
            return
        key = ReplicaKey(partition.topic_id, partition.index)
        known = self._partitions.get(key)
        registration = partition.registration
        leader = registration.leader
        fetcher = None if leader == NO_LEADER else self._fetcher(leader)
        if known is not None and known[1] >= 0 and (fetcher is None or known[1] != leader):
            self._by_leader[known[1]].remove(key)
        log = partition.log
        if log.is_flushed_before_ack and log.recovery_point < log.log_end_offset:
            self._partitions[key] = partition, NO_LEADER
            self._unreachable.pop(key, None)
            self._flush(partition, registration.leader_epoch)
            return
        self._partitions[key] = partition, NO_LEADER if fetcher is None else leader
        if fetcher is None:
            self._unreachable[key] = None
        else:
            self._unreachable.pop(key, None)
            fetcher.add(key, partition)

    def _flush(self, partition: Partition, leader_epoch: int) -> None:
        """Flush the log, then fetch the partition.

        A fetch from the log end offset acknowledges all records of the log. After a crash of the
        process, the newest of them may not be flushed.
        """

        def follow_again() -> None:
            key = ReplicaKey(partition.topic_id, partition.index)
            if self._partitions.get(key) == (partition, NO_LEADER) and partition.follows_in(
                leader_epoch
            ):
                self.follow(partition)

        def flushed(refusal: ApiError | None) -> None:
            if refusal is None:
                follow_again()
            elif isinstance(refusal, DiskFull):
                self.loop.call_later(self.settings.backoff_ms / 1000, follow_again)

        self.when_flushed(partition.log, partition.log.log_end_offset, flushed)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        key = ReplicaKey(partition.topic_id, partition.index)
        known = self._partitions.pop(key, None)
        self._unreachable.pop(key, None)
        if known is not None and known[1] >= 0:
            self._by_leader[known[1]].remove(key)

    def on_brokers_changed(self) -> None:
        """Apply changed registrations of brokers: connect again, and close idle connections."""
        for leader, fetcher in list(self._by_leader.items()):
            endpoint = self._endpoint(leader)
            if not fetcher.machine.states:
                fetcher.close()
                del self._by_leader[leader]
            elif endpoint is not None and endpoint != fetcher.endpoint:
                fetcher.connect(endpoint, self._connect)
        for key in list(self._unreachable):
            self.follow(self._partitions[key][0])

    def followed(self) -> list[tuple[int, FetchState]]:
        """Return the followed partitions with their leaders, for metrics.

        Other threads may call this. They get a RuntimeError if the partitions change meanwhile.
        """
        return [
            (leader, state)
            for leader, fetcher in self._by_leader.items()
            for state in fetcher.machine.states.values()
        ]

    def requests_sent(self) -> dict[int, int]:
        """Return the number of Fetch requests that were sent to each leader, for metrics."""
        return {leader: each.requests_sent for leader, each in list(self._by_leader.items())}

    def partition(self, key: ReplicaKey, leader_epoch: int) -> Partition | None:
        """Return a partition if this broker follows in this leader epoch."""
        known = self._partitions.get(key)
        if known is None or not known[0].follows_in(leader_epoch):
            return None
        return known[0]

    def close(self) -> None:
        """Stop fetching. Later calls of `follow` do nothing."""
        self._is_closed = True
        for fetcher in self._by_leader.values():
            fetcher.close()
        self._by_leader.clear()
        self._partitions.clear()
        self._unreachable.clear()

    def _endpoint(self, leader: int) -> Endpoint | None:
        broker = self._broker_of(leader)
        return None if broker is None else broker.listeners.get(self._listener)

    def _fetcher(self, leader: int) -> LeaderFetcher | None:
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            endpoint = self._endpoint(leader)
            if endpoint is None:
                return None
            fetcher = self._by_leader[leader] = LeaderFetcher(self, leader)
            fetcher.connect(endpoint, self._connect)
        return fetcher


class LeaderFetcher:
    """Fetches the partitions that one broker leads."""

    def __init__(self, fetchers: Fetchers, leader: int) -> None:
        self._fetchers = fetchers
        self._leader = leader
        self._loop = fetchers.loop
        self.machine = ReplicaFetcher(fetchers.node_id, fetchers.settings, fetchers.throttle)
        self.requests_sent = 0
        """Number of Fetch requests."""
        self.endpoint: Endpoint | None = None
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False
        self._effects: deque[FetcherEffect] = deque()
        """The effects that were not performed yet. Their records are copies."""
        self._flushes = 0
        """Number of appends whose flush has not completed yet."""
        client_id = f"broker-{fetchers.node_id}-fetcher-0".encode()
        self._header = _client_id_length(len(client_id)) + client_id + b"\0"

    def connect(self, endpoint: Endpoint, connect: Connect) -> None:
        """Use another address. Requests that are in flight fail."""
        if self._connection is not None:
            self._connection.close()
        self.endpoint = endpoint
        self._connection = connect(endpoint)

    def close(self) -> None:
        """Stop fetching."""
        for key in list(self.machine.states):
            self.machine.remove(key)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def add(self, key: ReplicaKey, partition: Partition) -> None:
        """Fetch a partition in its current leader epoch."""
        epoch = partition.registration.leader_epoch
        self._effects.extend(self.machine.add(key, partition.topic, epoch, partition.log))
        self._schedule()

    def remove(self, key: ReplicaKey) -> None:
        """Stop fetching a partition."""
        self.machine.remove(key)

    # -- requests -------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Perform effects and send requests in the next iteration of the event loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        if self._connection is None:
            return
        self._perform()
        if self._effects:
            self._schedule()
            return
        if self._flushes:
            return  # the last flush calls `_schedule`
        now_ms = self._now_ms()
        request = self.machine.request(now_ms, self._fetchers.broker_epoch())
        if request is not None:
            self.requests_sent += 1
            self._send(api_keys.FETCH, FETCH_VERSION, request, self._on_fetched)
        lookup = self.machine.lookup(now_ms)
        if lookup is not None:
            self._send(api_keys.LIST_OFFSETS, LIST_OFFSETS_VERSION, lookup, self._on_looked_up)
        self._set_timer()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.machine.deadline_ms()
        if deadline_ms is not None:
            delay_ms = max(1, deadline_ms - self._now_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self._schedule)

    def _send(self, api_key: int, version: int, request: Message, on_done: OnDone) -> None:
        assert self._connection is not None
        parts: list[Buffer] = [self._header, request.encode(version)]
        self._connection.send(api_key, version, parts, self._fetchers.timeout_ms, on_done)

    # -- responses ------------------------------------------------------------------------------

    def _on_fetched(self, view: memoryview | None, error: Exception | None) -> None:
        self._schedule()
        now_ms = self._now_ms()
        response = None
        if view is not None:
            try:
                response = FetchResponse.decode(view, FETCH_VERSION, _after_header(view))
            except MalformedMessage as malformed:
                error = malformed
        if response is None:
            log.info("broker %d was not reached: %s", self._leader, error)
            self.machine.disconnected(now_ms)
        else:
            self._effects.extend(self.machine.responded(now_ms, response))
            try:
                self._perform()
            finally:
                self._keep_records()

    def _on_looked_up(self, view: memoryview | None, error: Exception | None) -> None:
        self._schedule()
        now_ms = self._now_ms()
        response = None
        if view is not None:
            try:
                response = ListOffsetsResponse.decode(
                    view, LIST_OFFSETS_VERSION, _after_header(view)
                )
            except MalformedMessage as malformed:
                error = malformed
        if response is None:
            log.info("broker %d was not reached: %s", self._leader, error)
            self.machine.lookup_failed(now_ms)
        else:
            self._effects.extend(self.machine.looked_up(now_ms, response))

    def _keep_records(self) -> None:
        """Copy the records that are left: the receive buffer is reused after this."""
        for effect in self._effects:
            if isinstance(effect, Append):
                effect.keep_records()

    # -- effects --------------------------------------------------------------------------------

    def _perform(self) -> None:
        """Perform effects: at least one, and more within the time limit."""
        deadline = self._loop.time() + TURN_SECONDS
        while self._effects:
            self._perform_one(self._effects.popleft())
            if self._loop.time() >= deadline:
                return

    def _perform_one(self, effect: FetcherEffect) -> None:
        key, leader_epoch = effect.key, effect.leader_epoch
        partition = self._fetchers.partition(key, leader_epoch)
        if partition is None:
            return

        def done(refusal: ApiError | None) -> None:
            if refusal is None:
                self.machine.appended(key, leader_epoch)
            else:
                self._failed(partition, key, leader_epoch, refusal)
            self._schedule()

        try:
            match effect:
                case Append():
                    self._append(partition, effect, done)
                case Truncate(_, _, offset):
                    partition.log.truncate_to(offset, done)
                case RestartAt(_, _, offset):
                    partition.log.truncate_fully_and_start_at(offset, truncated=done)
        except ApiError as refusal:
            self._failed(partition, key, leader_epoch, refusal)

    def _append(self, partition: Partition, effect: Append, done: Flushed) -> None:
        records = effect.records
        assert not isinstance(records, FileRange), "decoded records are bytes"
        if records:
            _begin_with(partition.log, memoryview(records))
            partition.log.append_as_follower(records, effect.leader_epoch)
        size = len(records) if records else 0
        partition.follow_leader(effect.high_watermark, effect.log_start_offset, size)
        if records and partition.log.is_flushed_before_ack:

            def flushed(refusal: DiskFull | LogDirectoryOffline | None) -> None:
                self._flushes -= 1
                done(refusal)

            self._flushes += 1
            self._fetchers.when_flushed(partition.log, partition.log.log_end_offset, flushed)
        else:
            self.machine.appended(effect.key, effect.leader_epoch)

    def _failed(
        self, partition: Partition, key: ReplicaKey, leader_epoch: int, refusal: ApiError
    ) -> None:
        level = logging.WARNING if isinstance(refusal, DiskFull) else logging.ERROR
        log.log(level, "%s-%d: not replicated: %s", partition.topic, key.partition, refusal.message)
        is_final = not isinstance(refusal, DiskFull | RecordsRefused)
        self.machine.failed(self._now_ms(), key, leader_epoch, is_final=is_final)


def _begin_with(log: PartitionLog, records: memoryview) -> None:
    """Let an empty log begin with the first of these batches, if its start is inside of that batch.

    The leader deletes records at any offset, but sends whole batches. A follower that begins at the
    leader's first offset would refuse such a batch for ever, as in Apache Kafka before KAFKA-6361.
    """
    if len(records) < _BASE_OFFSET_BYTES or log.log_end_offset != log.log_start_offset:
        return
    base_offset = int.from_bytes(records[:_BASE_OFFSET_BYTES])
    if base_offset < log.log_end_offset:
        log.truncate_fully_and_start_at(base_offset)


def _after_header(view: memoryview) -> int:
    """Return the position after the response header's tagged fields."""
    if not len(view):
        raise MalformedMessage("the response has no header")
    return skip_tagged_fields(view, 1, view[0]) if view[0] else 1
