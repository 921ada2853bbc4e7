"""The state machine of a share consumer: what it sends, and which records wait for what.

A record passes through these places:

    buffered --take--> delivered --acknowledge--> pending or in flight in its leader --> a result

- *Buffered* records are acquired, but the user does not have them. If the connection ends, they are
  dropped, because the broker has released them.
- *Delivered* records are with the user. `begin_poll` accepts them (implicit acknowledgement), or
  demands that there are none (explicit acknowledgement), as Kafka's `ShareConsumerImpl` does.

Records are fetched only if `fetch_more` was called and no records are buffered. So locks do not
time out while records are buffered for long.

The end of a lock is estimated from the time at which the request was sent. So a lock never ends
before the machine says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from odradek.client.errors import BrokerError, ClientError
from odradek.client.share.acknowledgements import (
    AcknowledgementResult,
    AcknowledgeType,
    TopicIdPartition,
)
from odradek.client.share.acquired import Acquired, ShareRecord
from odradek.client.share.leader import (
    LEADER_CHANGED,
    ShareLeader,
    ShareLimits,
    ShareRequest,
    ShareResponse,
    leader_errors,
)
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.share_fetch_response import ShareFetchResponse

ACKNOWLEDGE_AFTER_MS = 500
"""How long an acknowledgement may wait for others before it is sent."""
REQUEST_EXTRA_MS = 30_000
"""Added to the wait of a request for records, as in Kafka's `request.timeout.ms`."""
_PASSING = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_TOPIC_ID)
"""Errors of a partition that are not retriable, but do not end the consumer, as in Kafka."""

_LOCK_MS_USUAL = 30_000
"""The duration of locks, if a broker does not tell it."""

RecordKey = tuple[str, int, int]
"""Topic, partition and offset."""


class NotAcknowledgedError(ClientError):
    """Records of the previous poll are not acknowledged, although the mode is explicit."""

    advice = "Call accept, release or reject for each record before the next poll."


class LeaderHint(NamedTuple):
    """The leader of a partition according to an error response (KIP-951)."""

    partition: TopicIdPartition
    leader_id: int
    leader_epoch: int
    host: str | None
    port: int
    rack: str | None


class _Delivered(NamedTuple):
    """A record that the user has."""

    node_id: int
    partition: TopicIdPartition
    lock_ends_ms: int


class _Buffered(NamedTuple):
    node_id: int
    lock_ends_ms: int
    acquired: Acquired


class ShareMachine:
    """Decides on the requests of one member, and keeps its records until they are acknowledged."""

    def __init__(
        self, group: str, member_id: str, limits: ShareLimits, *, is_explicit: bool
    ) -> None:
        self._group = group
        self._member_id = member_id
        self._limits = limits
        self._is_explicit = is_explicit
        self._leaders: dict[int, ShareLeader] = {}
        self._wanted: dict[TopicIdPartition, int] = {}
        self._known: dict[tuple[bytes, int], TopicIdPartition] = {}
        """All partitions that were assigned at some time. Their records may still arrive."""
        self._fetches = False
        self._is_closing = False
        self._turn = 0
        """Which broker is next, if only one broker is asked for records at a time."""
        self._buffered: deque[_Buffered] = deque()
        self._delivered: dict[RecordKey, _Delivered] = {}
        self._sent_ms: dict[int, int] = {}
        self._lock_timeout_ms: int | None = None
        self._results: list[AcknowledgementResult] = []
        self._hints: list[LeaderHint] = []
        self._errors: list[ClientError] = []
        self._is_metadata_stale = False

    # -- the user ---------------------------------------------------------------------------

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """The duration of acquisition locks; None before the first response."""
        return self._lock_timeout_ms

    @property
    def unacknowledged(self) -> int:
        """How many delivered records are not acknowledged."""
        return len(self._delivered)

    def begin_poll(self, now_ms: int) -> None:
        """Accept the delivered records, or check that there are none.

        Raises:
            NotAcknowledgedError: the mode is explicit, and records are not acknowledged.
        """
        if self._delivered and self._is_explicit:
            topic, partition, offset = next(iter(self._delivered))
            count = len(self._delivered)
            what = "1 record is" if count == 1 else f"{count} records are"
            raise NotAcknowledgedError(
                f"{what} not acknowledged, such as offset {offset} of {topic}-{partition}"
            )
        self.acknowledge_all(now_ms)

    def acknowledge_all(self, now_ms: int) -> None:
        """Accept the delivered records, if the mode is implicit."""
        if self._is_explicit:
            return
        for key in list(self._delivered):
            self._acknowledge(key, AcknowledgeType.ACCEPT, now_ms)

    def acknowledge(self, key: RecordKey, kind: AcknowledgeType, now_ms: int) -> None:
        """Acknowledge a delivered record.

        Raises:
            ValueError: the record does not wait for an acknowledgement.
        """
        if key not in self._delivered:
            topic, partition, offset = key
            raise ValueError(
                f"offset {offset} of {topic}-{partition} does not wait for an acknowledgement; "
                "was it acknowledged before, or delivered to another consumer?"
            )
        self._acknowledge(key, kind, now_ms)

    def _acknowledge(self, key: RecordKey, kind: AcknowledgeType, now_ms: int) -> None:
        found = self._delivered[key]
        if kind is not AcknowledgeType.RENEW:
            del self._delivered[key]
        self._leader(found.node_id).acknowledge(
            found.partition, {key[2]: kind}, now_ms, is_late=found.lock_ends_ms <= now_ms
        )

    def is_delivered(self, key: RecordKey) -> bool:
        """Return whether a record waits for an acknowledgement."""
        return key in self._delivered

    def lock_remaining_ms(self, key: RecordKey, now_ms: int) -> int:
        """Return how long the lock of a delivered record lasts at least; 0 if it may have ended."""
        found = self._delivered.get(key)
        return 0 if found is None else max(0, found.lock_ends_ms - now_ms)

    def ending(self, now_ms: int) -> list[RecordKey]:
        """Return the delivered records of whose locks less than half is left."""
        half_ms = (self._lock_timeout_ms or _LOCK_MS_USUAL) // 2
        return [
            key
            for key, found in self._delivered.items()
            if 0 < found.lock_ends_ms - now_ms < half_ms
        ]

    def hurry(self, since_ms: int | None = None) -> None:
        """Send pending acknowledgements at once, without `since_ms` all of them.

        With `since_ms`, send those of the brokers whose oldest one is as old as that, or older.
        """
        for leader in self._leaders.values():
            if since_ms is None or leader.has_waited(since_ms):
                leader.hurry()

    @property
    def has_acknowledgements(self) -> bool:
        """Whether acknowledgements have no result yet."""
        return any(leader.has_acknowledgements for leader in self._leaders.values())

    @property
    def has_records(self) -> bool:
        """Whether `take` may return records."""
        return bool(self._buffered)

    def take(self, now_ms: int) -> list[ShareRecord]:
        """Return the buffered records. They wait for an acknowledgement from now on.

        Records whose lock has ended are dropped.
        """
        records: list[ShareRecord] = []
        while self._buffered:
            node_id, lock_ends_ms, acquired = self._buffered.popleft()
            if lock_ends_ms <= now_ms:
                continue
            if acquired.types:
                self._leader(node_id).acknowledge(acquired.partition, acquired.types, now_ms)
            for each in acquired.records:
                key = each.topic, each.partition, each.offset
                self._delivered[key] = _Delivered(node_id, acquired.partition, lock_ends_ms)
            if acquired.error is not None:
                self._errors.append(acquired.error)
            records += acquired.records
        return records

    def take_error(self) -> ClientError | None:
        """Return the next error that the user must know, once."""
        return self._errors.pop(0) if self._errors else None

    def take_results(self) -> list[AcknowledgementResult]:
        """Return the results of acknowledgements since the last call, except for gaps."""
        self._collect_results()
        results, self._results = self._results, []
        return results

    def _collect_results(self) -> None:
        for leader in self._leaders.values():
            for result in leader.take_results():
                types = {o: t for o, t in result.types.items() if t is not AcknowledgeType.GAP}
                if types:
                    self._results.append(result._replace(types=types))

    # -- metadata ---------------------------------------------------------------------------

    def assign(self, wanted: Mapping[TopicIdPartition, int]) -> None:
        """Fetch from these partitions; the values are the ids of their leaders."""
        if wanted != self._wanted:
            self._wanted = dict(wanted)
            self._known.update(((each.topic_id, each.partition), each) for each in wanted)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that are fetched."""
        return sorted(TopicPartition(each.topic, each.partition) for each in self._wanted)

    def take_hints(self) -> list[LeaderHint]:
        """Return the leaders that responses have named, once."""
        hints, self._hints = self._hints, []
        return hints

    def take_is_metadata_stale(self) -> bool:
        """Return once whether the metadata of the topics must be requested again."""
        is_stale, self._is_metadata_stale = self._is_metadata_stale, False
        return is_stale

    # -- requests ---------------------------------------------------------------------------

    def fetch_more(self) -> None:
        """Acquire records, until a response has some."""
        self._fetches = True

    def close(self) -> None:
        """End all sessions, and drop the buffered records. The brokers release them."""
        self._is_closing = True
        self._fetches = False
        self._buffered.clear()
        for leader in self._leaders.values():
            leader.close()

    @property
    def is_idle(self) -> bool:
        """Whether no broker knows a session, and nothing is in flight."""
        return all(leader.is_idle for leader in self._leaders.values())

    def requests(self, now_ms: int) -> list[tuple[int, ShareRequest]]:
        """Return the next requests, with the ids of the brokers.

        Call `answered` or `failed` for each of them.
        """
        by_node: dict[int, list[TopicIdPartition]] = {}
        if not self._is_closing:
            for partition, node_id in self._wanted.items():
                by_node.setdefault(node_id, []).append(partition)
        fetching = self._fetching_nodes(by_node)
        found: list[tuple[int, ShareRequest]] = []
        for node_id in {**by_node, **self._leaders}:
            leader = self._leader(node_id)
            wanted = by_node.get(node_id, ())
            request = leader.request(wanted, now_ms, fetches=node_id in fetching)
            if request is not None:
                self._sent_ms[node_id] = now_ms
                found.append((node_id, request))
        return found

    def _fetching_nodes(self, by_node: Mapping[int, object]) -> set[int]:
        """Return the brokers that are asked for records.

        With a limit of records it is one at a time, because each may return as many records.
        """
        if not self._fetches or self._buffered:
            return set()
        nodes = list(dict.fromkeys((*by_node, *self._leaders)))
        if not self._limits.is_record_limit or len(nodes) < 2:
            return set(nodes)
        if any(leader.in_flight for leader in self._leaders.values()):
            return set()
        self._turn += 1
        return {nodes[self._turn % len(nodes)]}

    def wait_ms(self, now_ms: int) -> int | None:
        """Return how long a broker must rest after an error; None if none rests."""
        waits = (
            leader.wait_ms(now_ms) for leader in self._leaders.values() if not leader.in_flight
        )
        return min((each for each in waits if each), default=None)

    def _leader(self, node_id: int) -> ShareLeader:
        leader = self._leaders.get(node_id)
        if leader is None:
            leader = ShareLeader(self._group, self._member_id, self._limits)
            self._leaders[node_id] = leader
        return leader

    # -- responses --------------------------------------------------------------------------

    def answered(self, node_id: int, response: ShareResponse, now_ms: int) -> None:
        """Process a response of a broker."""
        leader = self._leaders[node_id]
        error = leader.answered(response, now_ms)
        if error is not None and not self._is_closing:
            self._errors.append(error)
        if response.error_code:
            self._is_metadata_stale = True
        if response.acquisition_lock_timeout_ms:
            self._lock_timeout_ms = response.acquisition_lock_timeout_ms
        self._read_leaders(leader, response, now_ms)
        if isinstance(response, ShareFetchResponse):
            if not self._is_closing:
                self._buffer(node_id, response)
        else:
            self._note_renewals(self._lock_ends_ms(node_id))

    def failed(self, node_id: int, error: ClientError, now_ms: int) -> None:
        """The connection to a broker has ended, or no connection could be made."""
        self._leaders[node_id].failed(error, now_ms)
        self._is_metadata_stale = True
        self._drop_buffered(node_id)

    def _drop_buffered(self, node_id: int) -> None:
        self._buffered = deque(each for each in self._buffered if each.node_id != node_id)

    def _buffer(self, node_id: int, response: ShareFetchResponse) -> None:
        lock_ends_ms = self._lock_ends_ms(node_id)
        for topic in response.responses:
            for data in topic.partitions:
                partition = self._known.get((topic.topic_id, data.partition_index))
                if partition is None or not data.acquired_records:
                    continue
                assert isinstance(data.records, (bytes, memoryview))
                acquired = Acquired(partition, memoryview(data.records), data.acquired_records)
                self._buffered.append(_Buffered(node_id, lock_ends_ms, acquired))
                self._fetches = False

    def _lock_ends_ms(self, node_id: int) -> int:
        """Return when the locks end that the last request to a broker has acquired or renewed."""
        return self._sent_ms[node_id] + (self._lock_timeout_ms or _LOCK_MS_USUAL)

    def _note_renewals(self, lock_ends_ms: int) -> None:
        """Prolong the locks that a response has renewed."""
        before = len(self._results)
        self._collect_results()
        for result in self._results[before:]:
            if result.error is not None:
                continue
            for offset, kind in result.types.items():
                key = result.topic, result.partition, offset
                found = self._delivered.get(key)
                if kind is AcknowledgeType.RENEW and found is not None:
                    self._delivered[key] = found._replace(lock_ends_ms=lock_ends_ms)

    def _read_leaders(self, leader: ShareLeader, response: ShareResponse, now_ms: int) -> None:
        """Note the current leaders, and the errors of partitions."""
        nodes = {each.node_id: each for each in response.node_endpoints}
        for topic_id, index, code, leader_id, leader_epoch in leader_errors(response):
            partition = self._known.get((topic_id, index))
            is_fetch = isinstance(response, ShareFetchResponse)
            if not is_fetch and code is ErrorCode.INVALID_RECORD_STATE:
                continue
            self._is_metadata_stale = True
            leader.rest(now_ms)
            if partition is None:
                continue
            if code in LEADER_CHANGED and leader_id >= 0 and leader_epoch >= 0:
                node = nodes.get(leader_id)
                host, port, rack = (
                    (None, 0, None) if node is None else (node.host, node.port, node.rack)
                )
                self._hints.append(LeaderHint(partition, leader_id, leader_epoch, host, port, rack))
            elif is_fetch and not code.retriable and code not in _PASSING:
                subject = f"partition {partition.topic}-{index}"
                self._errors.append(BrokerError(code, subject=subject))
