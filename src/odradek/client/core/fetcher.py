"""The state machine of a fetcher: what is fetched from where, and what the answers mean.

    poll --Fetch--> answer --> chunks wait --take--> batches for the user
      ^                                     |
      +---the last chunk of a node is begun-+

A node has one fetch in flight, and none while chunks of it wait: otherwise their partitions would leave
the session. The next fetch is sent when the last chunk is begun, so that the broker works while the user
does. Positions move when batches are taken, or when records are passed that nobody sees.

If a partition gets a new leader, the position is validated first (KIP-320): the end of its epoch in the
new leader's log shows whether records were lost. A topic that was made again is read from its beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from odradek.client.address import Address
from odradek.client.core.asks import Ask, Link, may_pass
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.core.consumed_batch import Batch
from odradek.client.core.epoch_checks import EpochChecks
from odradek.client.core.fetch_errors import Effect, effect_of
from odradek.client.core.fetch_requests import Asked, end_of_session, fetch_request
from odradek.client.core.fetch_session import FetchSession
from odradek.client.core.fetch_settings import READ_COMMITTED, FetchSettings
from odradek.client.core.fetch_state import FetchState, Stage
from odradek.client.core.fetched_chunk import FetchedChunk, whole_batches
from odradek.client.core.offset_lookups import EARLIEST, LATEST, FoundOffset, OffsetLookups
from odradek.client.core.routes import Routes, is_unknown_topic
from odradek.client.errors import (
    ClientError,
    CorruptRecordsError,
    MalformedResponseError,
    NoOffsetError,
    NoSuchTopicError,
    OffsetOutOfRangeError,
    UnsupportedVersionError,
    broker_error,
)
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch
from odradek.records.errors import RecordsError
from odradek.wire.generated.fetch_response import FetchResponse, PartitionData

FETCH = "fetch"
"""The purpose of links for Fetch, which may take long."""
MISSING_TOPIC_MS = 5_000
"""How long a topic or a partition may be unknown before the user is told. It may have been made just now."""
ASK_AGAIN_MS = 500
_SESSION_LOST = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
_EPOCH_WRONG = ErrorCode.INVALID_FETCH_SESSION_EPOCH
_SESSION_ERRORS = (_SESSION_LOST, _EPOCH_WRONG, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)

Clock = Callable[[], int]
"""Returns the time of day in ms since 1970."""


class Fetcher:
    """Fetches the assigned partitions, each from its position on."""

    def __init__(
        self, settings: FetchSettings, routes: Routes, random: RandomNumber, time_of_day: Clock
    ) -> None:
        self.next_deadline_ms: int | None = None
        self.settings = settings
        self.states: dict[TopicPartition, FetchState] = {}
        """The assigned partitions."""
        self.lookups = OffsetLookups(
            routes,
            random,
            isolation=settings.isolation,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            retry_backoff_ms_max=settings.retry_backoff_ms_max,
        )
        self._routes = routes
        self._random = random
        self._time_of_day = time_of_day
        self._checks = EpochChecks(routes, settings.request_timeout_ms)
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: set[int] = set()
        self._retry_at_ms: dict[int, int] = {}
        self._backoffs: dict[int, Backoff] = {}
        self._chunks: list[FetchedChunk] = []
        self._slice: tuple[FetchedChunk, RecordBatch] | None = None
        """The batch of which the user has a part (`max.poll.records`)."""
        self._errors: deque[FetchState] = deque()
        self._must_look = True
        """Whether something has happened since the partitions were looked through."""
        self._look_at_ms: int | None = None
        self._seen_changes = -1

    # -- the assignment -------------------------------------------------------------------------

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign more partitions. Their positions are not known."""
        self._must_look = True
        for each in partitions:
            if each not in self.states:
                self.states[each] = FetchState(each)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading partitions. What was fetched is dropped."""
        self._must_look = True
        for each in partitions:
            state = self.states.pop(each, None)
            if state is not None:
                state.refetch()

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand nothing of these partitions out any more."""
        for each in partitions:
            state = self.states.get(each)
            if state is not None:
                state.revoke()

    def seek(self, partition: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Set a position. It is validated if the epoch of the record before is given."""
        self._must_look = True
        self.states[partition].seek(offset, epoch)

    def reset(self, partition: TopicPartition, time: int) -> None:
        """Go to the first record at or after a time (ms), or to EARLIEST or LATEST."""
        self._must_look = True
        self.states[partition].reset(time)

    def start(self, partition: TopicPartition) -> None:
        """Begin where `auto.offset.reset` says, because nothing else is known."""
        state = self.states[partition]
        time = self.settings.reset.time(self._time_of_day())
        self._must_look = True
        if time is None:
            self._fail(state, NoOffsetError(partition))
        else:
            state.reset(time)

    def pause(self, partition: TopicPartition, *, is_paused: bool) -> None:
        """Pause or resume a partition."""
        self._must_look = True
        self.states[partition].pause(is_paused)

    # -- the user -------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether `poll` has to look at the partitions, perhaps to send the next fetch."""
        return self._must_look

    @property
    def has_news(self) -> bool:
        """Whether `take` has a batch or an error, perhaps."""
        return bool(self._errors) or any(
            each.is_late or each.state.may_deliver for each in self._chunks
        )

    def take(self) -> Batch | None:
        """Return the next batch, and move the position behind it.

        Raises:
            CorruptRecordsError: it cannot be read. The position stays.
            ClientError: a partition cannot be read.
        """
        self._raise_error()
        index = 0
        while index < len(self._chunks):
            chunk = self._chunks[index]
            if not chunk.is_late and not chunk.state.may_deliver:
                index += 1  # it is kept, in its order, while its partition is paused
                continue
            if not chunk.is_begun:
                self._must_look = True
            batch = None if chunk.is_late else self._batch_of(chunk)
            if batch is not None:
                return batch
            del self._chunks[index]
            self._must_look = True
        return None

    def _batch_of(self, chunk: FetchedChunk) -> Batch | None:
        state = chunk.state
        data: RecordBatch | None = None
        if self._slice is not None and self._slice[0] is chunk:
            data = self._slice[1]
            self._slice = None
            if data.next_offset <= state.offset:
                data = None
        if data is None:
            try:
                data = chunk.take(state.offset)
            except RecordsError as error:
                state.refetch()
                raise CorruptRecordsError(
                    state.topic_partition, state.offset, str(error)
                ) from error
        if data is None:
            state.read_to(max(state.offset, chunk.next_offset), chunk.leader_epoch)
            return None
        first, after = max(state.offset, data.base_offset), data.next_offset
        limit = self.settings.records_max
        if limit is not None and after - first > limit:
            after = first + limit
            self._slice = chunk, data
        batch = Batch(
            state.topic_partition, data, first, after, self.give_back, self.settings.decoder
        )
        state.read_to(after, data.leader_epoch)
        return batch

    def give_back(self, batch: Batch) -> None:
        """Set the position back to a batch that the user did not get, or cannot read."""
        state = self.states.get(batch.topic_partition)
        if state is not None and state.has_position and state.offset >= batch.next_offset:
            self.seek(batch.topic_partition, batch.first_offset)

    def _raise_error(self) -> None:
        while self._errors:
            state = self._errors.popleft()
            error = state.told()
            if error is not None and self.states.get(state.topic_partition) is state:
                self._must_look = True
                raise error

    def fail(self, partition: TopicPartition, error: ClientError) -> None:
        """Tell the user of an error, before anything else is done with a partition."""
        self._fail(self.states[partition], error)

    def _fail(self, state: FetchState, error: ClientError) -> None:
        state.fail(error)
        self._errors.append(state)

    # -- requests -------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        is_due = self._look_at_ms is not None and now_ms >= self._look_at_ms
        if self._routes.changes != self._seen_changes:
            self._seen_changes = self._routes.changes
            is_due = True
        asks: list[Ask] = []
        if self._must_look or is_due:
            self._must_look = False
            self._look_at_ms = None
            asks = self._look(now_ms)
        asks += self.lookups.poll(now_ms)
        due = [self._look_at_ms, self.lookups.next_deadline_ms]
        self.next_deadline_ms = min((each for each in due if each is not None), default=None)
        return asks

    def _look(self, now_ms: int) -> list[Ask]:
        """Look through the partitions."""
        busy = self._busy_nodes()
        by_node: dict[int, list[FetchState]] = {}
        checks: list[FetchState] = []
        for state in self.states.values():
            if not self._is_led(state, now_ms):
                continue
            if state.stage == Stage.RESETTING and not state.is_asked and state.error is None:
                self._look_up(state)
            elif state.stage == Stage.VALIDATING and not state.is_asked:
                if now_ms >= state.retry_at_ms:
                    checks.append(state)
                else:
                    self._look_later(state.retry_at_ms)
            elif state.may_fetch(now_ms):
                node = self._node_of(state, now_ms)
                if node >= 0 and node not in busy:
                    by_node.setdefault(node, []).append(state)
            elif state.may_deliver:
                self._look_later(state.retry_at_ms)
        asks = self._checks.ask(checks, self._checked)
        if any(not each.is_asked for each in checks):
            self._must_look = True  # a link is not ready
        for node, states in by_node.items():
            asks += self._fetch(node, states, now_ms)
        return asks

    def _look_later(self, at_ms: int) -> None:
        if self._look_at_ms is None or at_ms < self._look_at_ms:
            self._look_at_ms = at_ms

    def _busy_nodes(self) -> set[int]:
        """Return the nodes that have a fetch in flight, or chunks that the user has not begun."""
        busy = set(self._in_flight)
        for chunk in self._chunks:
            if not chunk.is_begun and not chunk.is_late and chunk.state.may_deliver:
                busy.add(chunk.node)
        return busy

    def _is_led(self, state: FetchState, now_ms: int) -> bool:
        """Whether the leader of a partition is known. Note what has changed."""
        name, index = state.topic_partition
        topic = self._routes.topic(name, now_ms)
        if topic is None:
            self._lacks_topic(state, now_ms)
            return False
        found = topic.partitions.get(index)
        if found is None:
            if now_ms - self._routes.metadata_at_ms >= ASK_AGAIN_MS:
                self._routes.forget_topic(name)
            self._lacks(state, NoSuchTopicError(name, index), now_ms)
            return False
        if topic.id != state.topic_id and any(state.topic_id):
            self._made_again(state)
        elif found.leader_epoch > state.leader_epoch and state.must_validate:
            state.validate()
        state.led_by(found.leader_epoch, topic.id)
        return self._routes.leader(state.topic_partition) >= 0

    def _lacks_topic(self, state: FetchState, now_ms: int) -> None:
        """Tell the user that the topic may not be read, or does not exist for a while already."""
        error = self._routes.topic_error(state.topic_partition.topic)
        if error is None or state.error is not None:
            return
        if not error.retriable:
            self._fail(state, error)
        elif is_unknown_topic(error):
            self._lacks(state, NoSuchTopicError(state.topic_partition.topic), now_ms)

    def _lacks(self, state: FetchState, error: NoSuchTopicError, now_ms: int) -> None:
        """Tell the user of an error, if it lasts. A group assigns also what was added just now."""
        due_ms = state.missing(now_ms) + MISSING_TOPIC_MS
        if state.error is None and now_ms >= due_ms:
            self._fail(state, error)
        elif state.error is None:
            self._look_later(min(due_ms, now_ms + ASK_AGAIN_MS))

    def _made_again(self, state: FetchState) -> None:
        """Read a topic from its beginning: its records have nothing in common with those before."""
        if not state.has_position:
            return
        if self.settings.reset.name == "none":
            reason = "The topic was deleted and made again."
            error = OffsetOutOfRangeError(state.topic_partition, state.offset, reason)
            state.seek(0)
            self._fail(state, error)
        else:
            state.reset(EARLIEST)

    def _node_of(self, state: FetchState, now_ms: int) -> int:
        if state.replica >= 0:
            if now_ms < state.replica_until_ms and self._is_up(state, state.replica, now_ms):
                return state.replica
            state.prefer(-1, 0)
        return self._routes.leader(state.topic_partition)

    def _is_up(self, state: FetchState, replica: int, now_ms: int) -> bool:
        """Whether a replica is on a broker that is known to run."""
        topic = self._routes.topic(state.topic_partition.topic, now_ms)
        found = None if topic is None else topic.partitions.get(state.topic_partition.partition)
        if found is None or replica in found.offline:
            return False
        return self._routes.node(replica) is not None

    def _fetch(self, node: int, states: list[FetchState], now_ms: int) -> list[Ask]:
        link: Link = node, FETCH
        retry_at_ms = self._retry_at_ms.get(node, 0)
        if now_ms < retry_at_ms:
            self._look_later(retry_at_ms)
            return []
        if not self._routes.is_ready(link):
            self._must_look = True
            return []
        settings = self.settings
        session = self._sessions.get(node)
        if session is None:
            session = self._sessions[node] = FetchSession()
        request, asked, version_max = fetch_request(settings, session, states)
        self._in_flight.add(node)

        def answered(response: FetchResponse, at_ms: int) -> None:
            self._in_flight.discard(node)
            self._answered(node, response, asked, at_ms)

        def failed(error: ClientError, at_ms: int) -> None:
            self._in_flight.discard(node)
            self._unanswered(node, asked, error, at_ms)

        timeout_ms = settings.request_timeout_ms + settings.wait_ms_max
        return [
            Ask(
                link,
                request,
                FetchResponse,
                answered,
                failed,
                timeout_ms=timeout_ms,
                version_max=version_max,
            )
        ]

    def close(self) -> list[Ask]:
        """Return the requests that end the sessions. No answer is needed."""
        asks = []
        for node, session in self._sessions.items():
            link: Link = node, FETCH
            if not session.is_open or node in self._in_flight or not self._routes.is_ready(link):
                continue
            asks.append(end_of_session(link, session, self.settings))
        return asks

    # -- answers --------------------------------------------------------------------------------

    def _unanswered(self, node: int, asked: Asked, error: ClientError, now_ms: int) -> None:
        """Try again after a pause, at the leaders."""
        self._must_look = True
        self._sessions[node].reset()
        for state, version, _ in asked.values():
            self._routes.forget_topic(state.topic_partition.topic)
            if state.replica == node:
                state.prefer(-1, 0)
            if not may_pass(error) and state.version == version:
                self._fail(state, error)
        self._pause(node, now_ms)

    def _pause(self, node: int, now_ms: int) -> None:
        backoff = self._backoffs.get(node)
        if backoff is None:
            backoff = self._backoffs[node] = self._new_backoff()
        self._retry_at_ms[node] = now_ms + backoff.failed()

    def _new_backoff(self) -> Backoff:
        settings = self.settings
        return Backoff(settings.retry_backoff_ms, settings.retry_backoff_ms_max, self._random)

    def _answered(self, node: int, response: FetchResponse, asked: Asked, now_ms: int) -> None:
        self._must_look = True
        session = self._sessions[node]
        error = broker_error(response.error_code, subject=f"broker {node}")
        if error is not None:
            if error.code == _SESSION_LOST:
                session.reset()
            else:
                session.renew()
            effect = effect_of(error.code)
            if error.code not in _SESSION_ERRORS:
                self._pause(node, now_ms)
                for state, version, _ in asked.values():
                    if effect == Effect.TELL and state.version == version:
                        self._fail(state, error)
            return
        session.accepted(response.session_id)
        self._backoffs.pop(node, None)
        self._retry_at_ms.pop(node, None)
        names = {state.topic_id: key.topic for key, (state, _, _) in asked.items()}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                found = asked.get(TopicPartition(name, data.partition_index))
                if found is None:
                    continue
                state, version, offset = found
                if state.version == version and state.fetch_offset == offset:
                    self._take_data(node, state, data, response, now_ms)

    def _take_data(
        self,
        node: int,
        state: FetchState,
        data: PartitionData,
        response: FetchResponse,
        now_ms: int,
    ) -> None:
        key = state.topic_partition
        error = broker_error(data.error_code, subject=f"partition {key}")
        if error is not None:
            self._note_leader(state, data, response)
            self._refused(node, state, error.code, error, now_ms)
            return
        state.limits(data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if data.preferred_read_replica >= 0:
            self._prefer(state, data.preferred_read_replica, now_ms)
            return
        records = data.records
        if records is None or not len(records):
            return
        assert isinstance(records, bytes | bytearray | memoryview), "it has arrived"
        view = memoryview(records)
        size, next_offset = whole_batches(view)
        if not size:
            text = f"partition {key}: the broker returned no whole batch at offset {state.offset}"
            self._fail(state, MalformedResponseError(text))
            return
        aborted: list[tuple[int, int]] = []
        if self.settings.isolation == READ_COMMITTED and data.aborted_transactions:
            aborted = [(a.first_offset, a.producer_id) for a in data.aborted_transactions]
        chunk = FetchedChunk(
            state,
            node,
            view[:size],
            next_offset,
            aborted,
            checks_crcs=self.settings.checks_crcs,
        )
        state.fetched_to(next_offset)
        self._chunks.append(chunk)

    def _prefer(self, state: FetchState, replica: int, now_ms: int) -> None:
        """Read from a replica that the leader names. It may have been down when brokers were asked for."""
        if self._is_up(state, replica, now_ms):
            state.prefer(replica, now_ms + self.settings.metadata_max_age_ms)
        else:
            self._routes.forget_topic(state.topic_partition.topic)
            state.retry(now_ms, self._new_backoff())

    def _note_leader(self, state: FetchState, data: PartitionData, response: FetchResponse) -> None:
        """Note the leader that an error names (KIP-951)."""
        leader = data.current_leader
        if leader.leader_id >= 0:
            nodes = {n.node_id: Address(n.host, n.port) for n in response.node_endpoints}
            self._routes.move_leader(
                state.topic_partition,
                leader.leader_id,
                leader.leader_epoch,
                nodes.get(leader.leader_id),
            )

    def _refused(
        self, node: int, state: FetchState, code: ErrorCode, error: ClientError, now_ms: int
    ) -> None:
        effect = effect_of(code)
        is_leader = node == self._routes.leader(state.topic_partition)
        if effect == Effect.OUT_OF_RANGE and not is_leader and state.replica == node:
            state.prefer(-1, 0)  # the replica lags behind, or is ahead in forgetting
        elif effect == Effect.OUT_OF_RANGE:
            self._out_of_range(state)
        elif effect == Effect.TELL:
            self._fail(state, error)
        else:
            if effect == Effect.REFRESH:
                self._routes.forget_topic(state.topic_partition.topic)
                state.prefer(-1, 0)
            state.retry(now_ms, self._new_backoff())

    def _out_of_range(self, state: FetchState, reason: str = "") -> None:
        """Go where `auto.offset.reset` says, or tell the user."""
        time = self.settings.reset.time(self._time_of_day())
        if state.fetch_offset != state.offset:  # records before wait for the user
            state.refetch()
        if time is None:
            self._fail(state, OffsetOutOfRangeError(state.topic_partition, state.offset, reason))
        else:
            state.reset(time)

    # -- positions ------------------------------------------------------------------------------

    def _look_up(self, state: FetchState) -> None:
        state.asked()
        version = state.version

        def found(partition: TopicPartition, outcome: FoundOffset | ClientError) -> None:
            if self.states.get(partition) is not state or state.version != version:
                return
            self._must_look = True
            if isinstance(outcome, ClientError):
                state.reset(state.reset_time)
                self._fail(state, outcome)
            elif outcome.offset < 0 and state.reset_time >= 0:
                state.reset(LATEST)  # no record is as new
            else:
                state.seek(max(outcome.offset, 0))

        self.lookups.look_up({state.topic_partition: state.reset_time}, None, found)

    def _checked(
        self,
        state: FetchState,
        version: int,
        outcome: tuple[int, int] | ClientError,
        now_ms: int,
    ) -> None:
        """Act upon the end of the position's epoch in the leader's log."""
        self._must_look = True
        if self.states.get(state.topic_partition) is not state or state.version != version:
            return
        if isinstance(outcome, UnsupportedVersionError):
            state.validated()
            return
        if isinstance(outcome, ClientError):
            state.check_failed()
            self._routes.forget_topic(state.topic_partition.topic)
            state.retry(now_ms, self._new_backoff())
            return
        epoch, end = outcome
        if epoch < 0 or end < 0:
            self._out_of_range(state, "The leader's log has nothing of the epoch before it.")
        elif end < state.offset:
            if self.settings.reset.name == "none":
                reason = f"The log was truncated to offset {end}, before offset {state.offset}."
                error = OffsetOutOfRangeError(state.topic_partition, state.offset, reason)
                state.seek(end)
                self._fail(state, error)
            else:
                state.seek(end)
                state.read_to(end, epoch)
        else:
            state.validated()
