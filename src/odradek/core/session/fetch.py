"""Fetch sessions, so that fetch requests need not repeat all partitions (KIP-227).

A fetcher is a consumer or a follower. It opens a session with a full request (epoch 0). The
response has the session id. Later requests have the epochs 1, 2, ... and contain only the
partitions that were added, changed or removed. The responses to these requests are incremental:
they contain only partitions with data, an error, a changed high watermark, or a changed log start
offset. A partition that returned data is moved to the end of the session's order, so that the other
partitions are read first in the next request. A request with epoch -1 closes its session, and is
then processed as a full request without a session.

A partition *rests* if the fetcher has everything: there is no record to read, and the last response
contained the newest offsets. A request reads only the partitions that do not rest
(`FetchSession.active`). So the cost of a request depends on the number of partitions that have
changed, not on the size of the session. Apache Kafka reads all partitions for each request.

The rest ends when the partition changes: a `Watch` is notified, and calls `activate`. Retention
changes the log start offset without a notification. Therefore every `REFRESH_MS` milliseconds all
resting partitions are read once, at most `REFRESH_PARTITIONS` of them in each request.

The cache has a maximum number of sessions. If the cache is full, a new session may replace another
session. The rules are those of Apache Kafka's `FetchSessionCacheShard`:

- the least recently used session, if it was not used for `EVICTION_MS`;
- otherwise, for a follower, the session of a consumer with the fewest partitions;
- otherwise the session with the fewest partitions that was created more than `EVICTION_MS` ago, if
  it has fewer partitions than the new session. A consumer does not replace a follower.

If none is possible, the fetcher gets no session and must send full requests.

A session that names topics by id also keeps their names, from the time when it got the partition. If
the topic is deleted, and another one gets its name, the fetcher learns that the id is no longer the id
of this topic; to a fetcher without session the old id is only unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.model.errors import ErrorCode
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest
from odradek.wire.generated.fetch_response import PartitionData

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
EVICTION_MS = 120_000
REFRESH_MS = 10_000
"""The time after which all resting partitions are read once."""
REFRESH_PARTITIONS = 100
"""Maximum number of resting partitions that one request reads for this reason."""
EPOCH_MAX = 2**31 - 1

PartitionKey = tuple[str | bytes, int]
"""The topic and the partition index. From Fetch version 13 on, the topic is a topic id."""


class Named(Protocol):
    """A topic of the metadata."""

    @property
    def name(self) -> str:
        """The name of the topic."""
        ...


Topics = Mapping[bytes, Named]
"""The topics that exist, by id."""
_NO_TOPICS: Topics = {}


class Watch(Protocol):
    """Sees the changes of a resting partition."""

    def close(self) -> None:
        """Stop watching."""
        ...


class Waiting(Protocol):
    """A fetch of a session that waits for more records."""

    def on_changed(self, source: Any, appended_bytes: int, /) -> None:
        """Note that a partition no longer rests; `source` is the broker's object for it."""
        ...

    def expire(self) -> None:
        """Respond now."""
        ...


class FetchedPartition:
    """One partition of a fetch, with the offsets that the last response contained."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "follower_log_start_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "topic",
        "watch",
    )

    def __init__(self, key: PartitionKey, topic: str | None, request: FetchPartition) -> None:
        self.key = key
        self.topic = topic
        """The name of the topic; None if the topic id was unknown."""
        self.fetch_offset = request.fetch_offset
        self.max_bytes = request.partition_max_bytes
        self.current_leader_epoch = request.current_leader_epoch
        self.last_fetched_epoch = request.last_fetched_epoch
        self.follower_log_start_offset = request.log_start_offset
        """The log start offset of the follower that fetches; -1 for consumers."""
        self.high_watermark = -1
        """The high watermark in the last response; -1 before the first response."""
        self.log_start_offset = -1
        self.watch: Watch | None = None
        """Waits for the next change, if the partition rests."""

    def resolve(self, topics: Topics) -> None:
        """Find the name of the topic, if it was not known."""
        key = self.key[0]
        if self.topic is None and isinstance(key, bytes):
            found = topics.get(key)
            self.topic = None if found is None else found.name

    def rest(self, watch: Watch) -> None:
        """Begin to rest."""
        self.watch = watch

    def wake(self) -> None:
        """Stop resting, if the partition rests."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.close()

    def update(self, request: FetchPartition) -> None:
        """Set the fields from a later request. Keep the offsets of the last response."""
        self.fetch_offset = request.fetch_offset
        self.max_bytes = request.partition_max_bytes
        self.current_leader_epoch = request.current_leader_epoch
        self.last_fetched_epoch = request.last_fetched_epoch
        self.follower_log_start_offset = request.log_start_offset

    def has_news(self, answer: PartitionData) -> bool:
        """Return whether an incremental response must include the partition.

        Store the offsets in `answer` as the offsets of the last response.
        """
        news = bool(answer.records)
        if self.high_watermark != answer.high_watermark:
            self.high_watermark = answer.high_watermark
            news = True
        if self.log_start_offset != answer.log_start_offset:
            self.log_start_offset = answer.log_start_offset
            news = True
        if answer.error_code:
            # The next response must include the partition, even if nothing else changes.
            self.high_watermark = -1
            return True
        if answer.diverging_epoch.epoch >= 0:
            # The fetcher truncates its log, and may ignore the offsets in the response.
            self.high_watermark = -1
            return True
        return news or answer.preferred_read_replica >= 0


class FetchSession:
    """The partitions that one fetcher reads, in the order in which they are read."""

    __slots__ = (
        "_isolation_level",
        "_refresh_ms",
        "_refreshing",
        "_unnamed",
        "active",
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "last_used_ms",
        "partitions",
        "uses_topic_ids",
        "waiting",
    )

    def __init__(
        self,
        session_id: int,
        now_ms: int,
        uses_topic_ids: bool,
        partitions: dict[PartitionKey, FetchedPartition],
        is_follower: bool,
    ) -> None:
        self.id = session_id
        self.is_follower = is_follower
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        """The epoch that the next request must have."""
        self.partitions = partitions
        self.active = dict(partitions)
        """The partitions that do not rest."""
        self._unnamed = [each for each in partitions.values() if each.topic is None]
        """The partitions whose topic was unknown. It may have been created only lately."""
        self.waiting: Waiting | None = None
        """The newest fetch that waits for more records."""
        self._isolation_level = 0
        self._refresh_ms = now_ms + REFRESH_MS
        """When the next refresh begins: all resting partitions are read once."""
        self._refreshing: list[PartitionKey] = []
        """The partitions that the refresh in progress has not activated yet."""

    @property
    def rank(self) -> tuple[bool, int]:
        """A session with a lower rank is replaced first."""
        return self.is_follower, len(self.partitions)

    def update(self, request: FetchRequest, now_ms: int, topics: Topics = _NO_TOPICS) -> None:
        """Apply the changes of an incremental request."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        self.last_used_ms = now_ms
        if request.isolation_level != self._isolation_level:
            self._isolation_level = request.isolation_level
            for partition in self.partitions.values():
                self.activate(partition)
        if now_ms >= self._refresh_ms:
            self._refresh(now_ms)
        for each in self._unnamed:
            each.resolve(topics)
        for key, topic, wanted in _named(request, self.uses_topic_ids, topics):
            known = self.partitions.get(key)
            if known is None:
                known = self.partitions[key] = FetchedPartition(key, topic, wanted)
                self._unnamed.append(known)
            else:
                known.update(wanted)
            self.activate(known)
        for forgotten_topic in request.forgotten_topics_data:
            name: str | bytes = (
                forgotten_topic.topic_id if self.uses_topic_ids else forgotten_topic.topic
            )
            for index in forgotten_topic.partitions:
                forgotten = self.partitions.pop((name, index), None)
                if forgotten is not None:
                    self.active.pop(forgotten.key, None)
                    forgotten.wake()
        if self._unnamed:
            self._unnamed = [
                each
                for each in self._unnamed
                if each.topic is None and self.partitions.get(each.key) is each
            ]

    def rest(self, partition: FetchedPartition, watch: Watch) -> bool:
        """Do not read a partition in the next requests, until it is activated.

        Return False if the partition is no longer in the session.
        """
        if self.active.pop(partition.key, None) is None:
            return False
        partition.rest(watch)
        return True

    def activate(self, partition: FetchedPartition) -> None:
        """Read a partition in the next request."""
        partition.wake()
        self.active.setdefault(partition.key, partition)

    def _refresh(self, now_ms: int) -> None:
        """Activate some partitions; begin again after `REFRESH_MS` when all were activated."""
        keys = self._refreshing
        if not keys:
            keys += self.partitions
        for key in keys[-REFRESH_PARTITIONS:]:
            partition = self.partitions.get(key)
            if partition is not None:
                self.activate(partition)
        del keys[-REFRESH_PARTITIONS:]
        if not keys:
            self._refresh_ms = now_ms + REFRESH_MS

    def wait(self, waiting: Waiting) -> None:
        """Note that a fetch waits for more records."""
        self.waiting = waiting

    def end_wait(self, waiting: Waiting) -> None:
        """Note that a fetch no longer waits."""
        if self.waiting is waiting:
            self.waiting = None

    def close(self) -> None:
        """Stop watching the partitions."""
        self.active.clear()
        for partition in self.partitions.values():
            partition.wake()

    def rotate(self, keys: Iterable[PartitionKey]) -> None:
        """Move these partitions to the end, so that the next request reads them last."""
        for key in keys:
            for order in (self.partitions, self.active):
                partition = order.pop(key, None)
                if partition is not None:
                    order[key] = partition


def _named(
    request: FetchRequest, uses_topic_ids: bool, topics: Topics
) -> Iterator[tuple[PartitionKey, str | None, FetchPartition]]:
    """Yield the key, the topic's name and the data of each partition in a request."""
    for topic in request.topics:
        key: str | bytes = topic.topic
        name: str | None = topic.topic
        if uses_topic_ids:
            key = topic.topic_id
            found = topics.get(topic.topic_id)
            name = None if found is None else found.name
        for partition in topic.partitions:
            yield (key, partition.partition), name, partition


@dataclass(slots=True)
class FetchPlan:
    """The partitions that one request fetches.

    `session` is None if the request uses no session or if no session could be created. If
    `incremental` is True, `partitions` is a view of those that do not rest, and the response omits
    partitions without changes.
    """

    error: ErrorCode
    session: FetchSession | None
    partitions: Iterable[FetchedPartition]
    incremental: bool


class FetchSessionCache:
    """All sessions of a node, at most `slots`. `draw_id` returns a random positive int32."""

    def __init__(self, slots: int, draw_id: Callable[[], int]) -> None:
        self._slots = slots
        self._draw_id = draw_id
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.partitions = 0
        self.evictions = 0
        """Number of sessions that were replaced by other sessions since the start (a metric)."""

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        request: FetchRequest,
        now_ms: int,
        uses_topic_ids: bool,
        topics: Topics = _NO_TOPICS,
    ) -> FetchPlan:
        """Open, change or close the session of a request, and return what the request fetches."""
        epoch = request.session_epoch
        if epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            if request.session_id != NO_SESSION:
                self._remove(request.session_id)
            partitions = {
                key: FetchedPartition(key, topic, wanted)
                for key, topic, wanted in _named(request, uses_topic_ids, topics)
            }
            session = None
            if epoch == INITIAL_EPOCH:
                is_follower = max(request.replica_id, request.replica_state.replica_id) >= 0
                session = self._open(partitions, now_ms, uses_topic_ids, is_follower)
            return FetchPlan(ErrorCode.NONE, session, partitions.values(), incremental=False)
        session = self._sessions.get(request.session_id)
        if session is None:
            return self._refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return self._refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return self._refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        before = len(session.partitions)
        session.update(request, now_ms, topics)
        self.partitions += len(session.partitions) - before
        if not session.partitions:
            self._remove(session.id)
            return FetchPlan(ErrorCode.NONE, None, (), incremental=False)
        self._sessions[session.id] = self._sessions.pop(session.id)
        return FetchPlan(ErrorCode.NONE, session, session.active.values(), incremental=True)

    def drop_new(self, plan: FetchPlan) -> None:
        """Remove the session that a full fetch has opened, because the response has no records."""
        assert not plan.incremental
        if plan.session is not None:
            self._remove(plan.session.id)

    @staticmethod
    def _refusal(error: ErrorCode) -> FetchPlan:
        return FetchPlan(error, None, (), incremental=False)

    def _open(
        self,
        partitions: dict[PartitionKey, FetchedPartition],
        now_ms: int,
        uses_topic_ids: bool,
        is_follower: bool,
    ) -> FetchSession | None:
        if not partitions or not self._make_room((is_follower, len(partitions)), now_ms):
            return None
        session_id = self._draw_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._draw_id()
        session = FetchSession(session_id, now_ms, uses_topic_ids, partitions, is_follower)
        self._sessions[session_id] = session
        self.partitions += len(partitions)
        return session

    def _make_room(self, rank: tuple[bool, int], now_ms: int) -> bool:
        """Return whether a session of this rank has room, if necessary after an eviction."""
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self._evict(oldest)
            return True
        is_follower, _ = rank
        replaceable = (
            each
            for each in self._sessions.values()
            if now_ms - each.created_ms > EVICTION_MS or (is_follower and not each.is_follower)
        )
        lowest = min(replaceable, key=lambda each: each.rank, default=None)
        if lowest is None or lowest.rank >= rank:
            return False
        self._evict(lowest)
        return True

    def _evict(self, session: FetchSession) -> None:
        self.evictions += 1
        self._remove(session.id)

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.partitions)
            session.close()
