"""Fetches the partitions that one other broker leads (Kafka's `ReplicaFetcherThread`).

There is one machine for each broker from which this broker fetches. It builds Fetch requests, one
at a time, and returns effects for the responses. Its owner sends the requests, performs the effects
and reports the results:

    request() ──> Fetch request ──> responded() ──> effects ──> appended() or failed()

A partition is fetched from its log end offset. The request has the epoch of the last record. If the
logs diverge, the leader returns the diverging epoch instead of records, and the follower truncates
its log (`divergence`). So a follower needs no OffsetForLeaderEpoch request before it fetches
(KIP-595). It truncates to its high watermark only if its log has no leader epoch. Before KIP-101,
Kafka always truncated to the high watermark.

The statuses of a partition are in `fetch_states`:

    BUSY ──> READY ──(response)──> BUSY ──> READY
               │                     ^
               ├──(out of range)──> OUT_OF_RANGE ──(offsets of the leader)──┘
               ├──(error)──> DELAYED ──> READY
               └──(fenced)──> FAILED

If the offset is out of range, the machine looks up the leader's log end offset and, if necessary,
its log start offset (`lookup`). If the leader's log ends before the follower's, the follower
truncates its log. If the leader's log starts after the follower's end, the follower removes all
records and starts there.

A throttle delays partitions in which this replica lags (`throttle`). They are then left out of the
requests, as after an error.

The leader fences requests of an older leader epoch. If this broker knows no newer epoch, the
partition is not fetched until the metadata has a newer epoch. Then the owner adds the partition
again.

The costs of a request depend on the number of partitions that have changed, not on the number of
all partitions: the fetch session has the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from odradek.core.replica.divergence import UNDEFINED_EPOCH, LogView, truncation_offset
from odradek.core.replica.effects import (
    Append,
    FetcherEffect,
    ReplicaKey,
    RestartAt,
    Truncate,
)
from odradek.core.replica.fetch_states import FetchSession, FetchState, Status
from odradek.core.replica.throttle import ReplicationThrottle
from odradek.model.errors import ErrorCode
from odradek.wire.generated.fetch_request import FetchRequest, ReplicaState
from odradek.wire.generated.fetch_response import FetchResponse, PartitionData
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
)

LATEST = -1
EARLIEST = -2
LOOKUPS_MAX = 1000
"""The maximum number of partitions in one ListOffsets request."""


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """The settings `replica.fetch.*`."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    response_bytes_max: int = 10 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    backoff_ms: int = 1000


class ReplicaFetcher:
    """The partitions that are fetched from one broker. All fields are read-only for other code."""

    __slots__ = (
        "_broker_id",
        "_changed",
        "_delayed",
        "_is_in_flight",
        "_left",
        "_lookup_keys",
        "_lookups",
        "_ready",
        "_resume_ms",
        "_session",
        "_settings",
        "_throttle",
        "_was_full",
        "states",
    )

    def __init__(
        self,
        broker_id: int,
        settings: FetcherSettings,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._settings = settings
        self._throttle = throttle or ReplicationThrottle()
        self.states: dict[ReplicaKey, FetchState] = {}
        """All partitions of the fetcher."""
        self._session = FetchSession()
        self._ready: dict[ReplicaKey, FetchState] = {}
        self._delayed: dict[ReplicaKey, FetchState] = {}
        self._lookups: dict[ReplicaKey, FetchState] = {}
        """The partitions with the status OUT_OF_RANGE."""
        self._changed: dict[ReplicaKey, None] = {}
        """Partitions that have become ready since the last request."""
        self._left: dict[ReplicaKey, None] = {}
        """Partitions that have ceased to be ready since the last request."""
        self._is_in_flight = False
        self._was_full = False
        """Whether the request in flight opens a session."""
        self._lookup_keys: tuple[tuple[ReplicaKey, int], ...] = ()
        """The partitions and leader epochs of the lookup in flight."""
        self._resume_ms = 0
        """No request is sent before this time, because the last request has failed."""

    # -- partitions -----------------------------------------------------------------------------

    def add(
        self, key: ReplicaKey, topic: str, leader_epoch: int, log: LogView
    ) -> list[FetcherEffect]:
        """Fetch a partition in this leader epoch. If it is known in this epoch, do nothing."""
        known = self.states.get(key)
        if known is not None:
            is_current = known.leader_epoch == leader_epoch and known.log is log
            if is_current and known.status is not Status.FAILED:
                return []
            self.remove(key)
        state = self.states[key] = FetchState(key, topic, leader_epoch, log)
        if log.leader_epoch == UNDEFINED_EPOCH and log.high_watermark < log.log_end_offset:
            return [Truncate(key, leader_epoch, log.high_watermark)]
        self._become_ready(state)
        return []

    def remove(self, key: ReplicaKey) -> None:
        """Stop fetching a partition. Results of its effects are ignored from now on."""
        state = self.states.pop(key, None)
        if state is not None:
            self._leave(state)
            self._delayed.pop(key, None)
            self._lookups.pop(key, None)

    def _become_ready(self, state: FetchState) -> None:
        state.change(Status.READY)
        self._ready[state.key] = state
        self._changed[state.key] = None

    def _leave(self, state: FetchState) -> None:
        """Take a partition out of the following requests."""
        key = state.key
        if self._ready.pop(key, None) is not None:
            self._left[key] = None

    def _delay(self, now_ms: int, state: FetchState, pause_ms: int | None = None) -> None:
        self._leave(state)
        self._lookups.pop(state.key, None)
        pause_ms = self._settings.backoff_ms if pause_ms is None else pause_ms
        state.change(Status.DELAYED, retry_ms=now_ms + pause_ms)
        self._delayed[state.key] = state

    def _fail(self, state: FetchState) -> None:
        self._leave(state)
        self._lookups.pop(state.key, None)
        state.change(Status.FAILED)

    # -- requests -------------------------------------------------------------------------------

    def request(self, now_ms: int, broker_epoch: int) -> FetchRequest | None:
        """Return the next Fetch request; None if a request is in flight or nothing is ready.

        `broker_epoch` is the epoch of this broker. The leader adds only the current incarnation of
        a broker to the ISR. Report the response with `responded`, or a failure with
        `disconnected`.
        """
        if self._is_in_flight or now_ms < self._resume_ms:
            return None
        self._wake(now_ms)
        if self._throttle.topics:
            self._delay_throttled(now_ms)
        if not self._ready:
            return None
        settings, session = self._settings, self._session
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._broker_id, replica_epoch=broker_epoch),
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
        )
        self._is_in_flight = True
        self._was_full = session.is_full
        if self._was_full:
            session.fill(request, self._ready.values(), (), settings.partition_bytes_max)
        else:
            sent, ready = session.sent, self._ready
            changed = (ready[key] for key in self._changed if key in ready)
            new = [state for state in changed if sent.get(state.key) != state.position]
            gone = [key for key in self._left if key not in ready]
            session.fill(request, new, gone, settings.partition_bytes_max)
        self._changed.clear()
        self._left.clear()
        return request

    def _wake(self, now_ms: int) -> None:
        """End the backoff of the partitions whose time has come."""
        if self._delayed:
            due = [state for state in self._delayed.values() if state.retry_ms <= now_ms]
            for state in due:
                del self._delayed[state.key]
                self._become_ready(state)

    def _delay_throttled(self, now_ms: int) -> None:
        """Delay the throttled partitions in which this replica lags, if the limit is exceeded."""
        throttle = self._throttle
        if not throttle.is_exceeded(now_ms):
            return
        pause_ms = min(throttle.resume_ms(now_ms) - now_ms, self._settings.backoff_ms)
        for state in list(self._ready.values()):
            if state.is_lagging and throttle.covers(state.topic, state.key.partition):
                self._delay(now_ms, state, max(1, pause_ms))

    def deadline_ms(self) -> int | None:
        """Return the time when `request` or `lookup` must be called again.

        None if only a response, a result or `add` can change what they return.
        """
        times = [state.retry_ms for state in self._delayed.values()]
        if self._ready and not self._is_in_flight:
            times.append(self._resume_ms)
        if self._lookups and not self._lookup_keys:
            times.append(self._resume_ms)
        return max(self._resume_ms, min(times)) if times else None

    def disconnected(self, now_ms: int) -> None:
        """Apply the failure of the Fetch request in flight."""
        self._is_in_flight = False
        self._session.reset()
        self._resume_ms = now_ms + self._settings.backoff_ms

    # -- responses ------------------------------------------------------------------------------

    def responded(self, now_ms: int, response: FetchResponse) -> list[FetcherEffect]:
        """Apply the response to the request in flight."""
        assert self._is_in_flight, "no request waits for a response"
        self._is_in_flight = False
        session = self._session
        if response.error_code:
            is_gone = response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            session.reset(is_gone=is_gone)
            is_outdated = is_gone or response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            if self._was_full or not is_outdated:
                self._resume_ms = now_ms + self._settings.backoff_ms
            return []
        effects: list[FetcherEffect] = []
        is_ignored = False
        for topic in response.responses:
            for data in topic.partitions:
                key = ReplicaKey(topic.topic_id, data.partition_index)
                # The partition may have been removed, added again or delayed in the meantime. If its
                # position is the same nevertheless, the response is valid.
                state = self._ready.get(key)
                if state is not None and session.sent.get(key) == state.position:
                    effects += self._apply(now_ms, state, data)
                else:
                    is_ignored |= key in self.states
        session.accepted(response.session_id)
        if is_ignored:
            # The leader believes that this broker knows the high watermark in the response.
            session.reset()
        return effects

    def _apply(
        self, now_ms: int, state: FetchState, data: PartitionData
    ) -> Iterator[FetcherEffect]:
        """Apply the response for one partition that is ready."""
        match data.error_code:
            case ErrorCode.NONE if data.diverging_epoch.epoch >= 0:
                offset = self._truncation_offset(state, data)
                self._become_busy(state)
                yield Truncate(state.key, state.leader_epoch, offset)
            case ErrorCode.NONE:
                self._become_busy(state)
                state.learn_high_watermark(data.high_watermark)
                if self._throttle.topics and data.records:
                    self._count(now_ms, state, len(data.records))
                yield Append(
                    state.key,
                    state.leader_epoch,
                    data.records,
                    data.high_watermark,
                    data.log_start_offset,
                )
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                self._leave(state)
                state.change(Status.OUT_OF_RANGE, lookup=LATEST)
                self._lookups[state.key] = state
            case ErrorCode.FENCED_LEADER_EPOCH:
                self._fail(state)
            case _:
                self._delay(now_ms, state)

    def _count(self, now_ms: int, state: FetchState, size: int) -> None:
        if self._throttle.covers(state.topic, state.key.partition):
            self._throttle.record(now_ms, size)

    def _truncation_offset(self, state: FetchState, data: PartitionData) -> int:
        diverging = data.diverging_epoch
        offset = truncation_offset(state.log, diverging.epoch, diverging.end_offset)
        assert 0 <= offset <= state.log.log_end_offset, "a log is truncated to a part of itself"
        return offset

    def _become_busy(self, state: FetchState) -> None:
        self._leave(state)
        self._lookups.pop(state.key, None)
        state.change(Status.BUSY)

    # -- results of effects ---------------------------------------------------------------------

    def appended(self, key: ReplicaKey, leader_epoch: int) -> None:
        """Fetch the partition from the end of its log: its effect was performed."""
        state = self._busy(key, leader_epoch)
        if state is not None:
            self._become_ready(state)

    def failed(self, now_ms: int, key: ReplicaKey, leader_epoch: int, *, is_final: bool) -> None:
        """Apply the failure of an effect. With `is_final` the partition is not fetched again.

        A failure is final if the disk has failed. It is not final if records were damaged: the next
        response may be intact.
        """
        state = self._busy(key, leader_epoch)
        if state is not None and is_final:
            self._fail(state)
        elif state is not None:
            self._delay(now_ms, state)

    def _busy(self, key: ReplicaKey, leader_epoch: int) -> FetchState | None:
        state = self.states.get(key)
        if state is None or state.leader_epoch != leader_epoch or state.status is not Status.BUSY:
            return None
        return state

    # -- offsets out of range -------------------------------------------------------------------

    def lookup(self, now_ms: int) -> ListOffsetsRequest | None:
        """Return a ListOffsets request; None if none is needed or one is in flight.

        Report the response with `looked_up`, or a failure with `lookup_failed`.
        """
        if self._lookup_keys or not self._lookups or now_ms < self._resume_ms:
            return None
        first = next(iter(self._lookups.values()))
        chosen = [each for each in self._lookups.values() if each.lookup == first.lookup]
        chosen = chosen[:LOOKUPS_MAX]
        topics: dict[str, ListOffsetsTopic] = {}
        for state in chosen:
            topic = topics.setdefault(state.topic, ListOffsetsTopic(name=state.topic))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=state.key.partition,
                    current_leader_epoch=state.leader_epoch,
                    timestamp=state.lookup,
                )
            )
        self._lookup_keys = tuple((state.key, state.leader_epoch) for state in chosen)
        return ListOffsetsRequest(replica_id=self._broker_id, topics=list(topics.values()))

    def lookup_failed(self, now_ms: int) -> None:
        """Apply the failure of the ListOffsets request in flight."""
        for state in self._looked_up():
            self._delay(now_ms, state)

    def looked_up(self, now_ms: int, response: ListOffsetsResponse) -> list[FetcherEffect]:
        """Apply the response to the ListOffsets request in flight."""
        found = {
            (topic.name, each.partition_index): each
            for topic in response.topics
            for each in topic.partitions
        }
        effects: list[FetcherEffect] = []
        for state in self._looked_up():
            answer = found.get((state.topic, state.key.partition))
            if answer is not None and answer.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                self._fail(state)
            elif answer is None or answer.error_code or answer.offset < 0:
                self._delay(now_ms, state)
            else:
                effects += self._reset(now_ms, state, answer)
        return effects

    def _looked_up(self) -> Iterable[FetchState]:
        """Return the partitions of the lookup in flight that still wait for it."""
        keys, self._lookup_keys = self._lookup_keys, ()
        return [
            self._lookups[key]
            for key, leader_epoch in keys
            if key in self._lookups and self._lookups[key].leader_epoch == leader_epoch
        ]

    def _reset(
        self, now_ms: int, state: FetchState, answer: ListOffsetsPartitionResponse
    ) -> Iterator[FetcherEffect]:
        """Continue at an offset that the leader has."""
        end_offset = state.log.log_end_offset
        if state.lookup == LATEST:
            if answer.offset < end_offset:
                self._become_busy(state)
                yield Truncate(state.key, state.leader_epoch, answer.offset)
            else:
                state.look_up(EARLIEST)
        elif answer.offset > end_offset:
            self._become_busy(state)
            yield RestartAt(state.key, state.leader_epoch, answer.offset)
        else:
            self._delay(now_ms, state)  # the leader's log has changed since the error occurred
