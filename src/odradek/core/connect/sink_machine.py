"""A sink task as a machine: it reads as a member of a group, delivers, and commits what the task says is safe.

    read --> put --> [ pre_commit --> commit ] --> read ...
      |                                              ^
      +--> partitions come or go: open, or commit and close

If `put` raises RetriableError, nothing is read, and the same records come again. If `pre_commit` fails,
reading continues from the last commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from odradek.core.connect import task_messages as m
from odradek.core.connect.config_log import TargetState
from odradek.core.connect.errors import ConnectError, RetriableError
from odradek.core.connect.records import SinkRecord
from odradek.core.connect.sink_task import SinkProgress
from odradek.core.connect.task_machine import Steps, TaskMachine
from odradek.model.topic_partition import TopicPartition

READ_MS = 500
RETRY_MS = 1_000
"""The pause before the same records come again."""
TOPICS_MS = 10_000
"""How often topics are looked for that match a pattern."""
NO_TOPICS_MS = 1_000
UNRECOVERABLE = "Exiting WorkerSinkTask due to unrecoverable exception."


class SinkMachine(TaskMachine):
    """See the module."""

    def __init__(
        self,
        state: TargetState,
        commit_interval_ms: int,
        now_ms: int,
        *,
        topics: Sequence[str],
        has_pattern: bool,
    ) -> None:
        """`commit_interval_ms` is `offset.flush.interval.ms`."""
        super().__init__(state)
        self._progress = SinkProgress(commit_interval_ms, now_ms)
        self._topics = list(topics)
        self._has_pattern = has_pattern
        self._topics_at_ms = now_ms
        self._is_subscribed = False
        self._batch: list[SinkRecord] = []
        """What was read and not yet taken by the task."""
        self._next_positions: dict[TopicPartition, int] = {}
        self._is_retrying = False
        self._is_held = False
        """Whether nothing is read, because the task is paused or retries."""
        self._has_failed = False
        self._seek: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] | None = None
        """The partitions to pause, if that has changed."""
        self._timeout_ms: int | None = None

    def _note_more(self, event: m.Event) -> None:
        if not isinstance(event, m.SinkAsked):
            super()._note_more(event)
            return
        self._seek.update(event.seek)
        if event.paused is not None:
            self._paused = set(event.paused)
        if event.timeout_ms is not None:
            self._timeout_ms = event.timeout_ms
        if event.wants_commit:
            self._progress.ask()

    @property
    def _assigned(self) -> set[TopicPartition]:
        return set(self._progress.delivered)

    # -- the procedure --------------------------------------------------------------------------

    def _live(self) -> Steps:
        yield from self._do(m.MakeTask)
        failure: Exception | None = None
        try:
            yield from self._do(m.StartTask)
            yield from self._loop()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            failure = error
            self._has_failed = True
        try:
            yield from self._unsubscribe()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            self._out.append(m.Warn("its partitions cannot be closed", error))
            failure = failure or error
        yield from self._do_quietly("it cannot be stopped", m.StopTask)
        if failure is not None:
            raise failure

    def _loop(self) -> Steps:
        shown: str | None = None
        while not self._is_stopping:
            state = "PAUSED" if self._is_paused else "RUNNING"
            if state != shown:
                self._out.append(m.Tell(state))
                shown = state
                if self._is_paused:
                    self._progress.ask()
            if not (yield from self._subscribe()):
                yield from self._sleep(NO_TOPICS_MS)
                continue
            yield from self._hold()
            yield from self._serve_asks()
            yield from self._iterate()
            if self._progress.is_due(self._now_ms):
                yield from self._commit(is_closing=False)

    # -- the group ------------------------------------------------------------------------------

    def _subscribe(self) -> Steps:
        """Be a member of the group. Return False if no topic matches the pattern yet."""
        if self._has_pattern and self._now_ms >= self._topics_at_ms:
            self._topics_at_ms = self._now_ms + TOPICS_MS
            found = yield from self._do(m.FindTopics)
            if found is not None and found != self._topics:
                yield from self._unsubscribe()
                self._topics = found
        if self._topics and not self._is_subscribed:
            topics = list(self._topics)
            yield from self._do(lambda token: m.Subscribe(token, topics))
            self._is_subscribed = True
        return self._is_subscribed

    def _unsubscribe(self) -> Steps:
        if not self._is_subscribed:
            return
        failure: Exception | None = None
        try:
            yield from self._give_up(self._assigned, commits=True)
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            failure = error
        self._is_subscribed = False
        yield from self._do(m.Unsubscribe)
        if failure is not None:
            raise failure

    def _read(self, wait_ms: int) -> Steps:
        """Return what is there to read. Partitions that come or go meanwhile are opened or closed."""
        found = yield from self._do(lambda token: m.Read(token, wait_ms))
        failure: Exception | None = None
        while isinstance(found, m.Rebalanced):
            error: Exception | None = None
            try:
                yield from self._rebalance(found)
            except Exception as raised:  # noqa: BLE001 - user code may raise anything
                error = failure = raised
            try:
                found = yield from self._do(lambda token, error=error: m.GoOn(token, error))  # type: ignore[misc]
            except Exception:
                if failure is not None:
                    raise failure from None
                raise
        if failure is not None:
            raise failure
        return found

    def _rebalance(self, rebalanced: m.Rebalanced) -> Steps:
        positions = dict(rebalanced.positions)
        if rebalanced.change != m.Change.ASSIGNED:
            commits = rebalanced.change == m.Change.REVOKED
            yield from self._give_up(positions, commits=commits)
            return
        self._progress.opened(positions)
        self._is_held = False
        assigned = self._assigned
        yield from self._do(lambda token: m.OpenPartitions(token, list(positions), assigned))

    def _give_up(self, partitions: Collection[TopicPartition], *, commits: bool) -> Steps:
        held = [each for each in partitions if each in self._progress.delivered]
        if not held:
            return
        if commits and not self._has_failed:
            yield from self._commit(is_closing=True)
        left = self._assigned.difference(held)
        yield from self._do(lambda token: m.ClosePartitions(token, held, left))
        self._progress.closed(held)
        gone = set(held)
        self._batch = [
            each
            for each in self._batch
            if TopicPartition(each.original_topic, each.original_partition) not in gone
        ]
        self._next_positions = {k: v for k, v in self._next_positions.items() if k not in gone}

    # -- records --------------------------------------------------------------------------------

    def _hold(self) -> Steps:
        """Read nothing while the task is paused or the same records come again."""
        wanted = self._is_paused or self._is_retrying
        assigned = self._assigned
        if wanted and not self._is_held and assigned:
            yield from self._do(lambda token: m.PauseReading(token, assigned))
            self._is_held = True
        elif not wanted and self._is_held:
            yield from self._do(lambda token: m.ResumeReading(token, assigned))
            self._is_held = False

    def _serve_asks(self) -> Steps:
        """Do what the task asked for since the last call."""
        seek, self._seek = self._seek, {}
        yield from self._rewind(seek)
        paused = self._paused
        if paused is not None and not self._is_held:
            self._paused = None
            assigned = self._assigned
            yield from self._do(lambda token: m.PauseReading(token, paused & assigned))
            yield from self._do(lambda token: m.ResumeReading(token, assigned - paused))

    def _rewind(self, positions: Mapping[TopicPartition, int]) -> Steps:
        """Read on from other offsets."""
        known = {k: v for k, v in positions.items() if k in self._progress.delivered}
        if known:
            yield from self._do(lambda token: m.Seek(token, known))
            self._progress.rewound(known)

    def _iterate(self) -> Steps:
        wait_ms = min(READ_MS, self._progress.due_ms(self._now_ms))
        asked_ms, self._timeout_ms = self._timeout_ms, None
        if self._is_retrying:
            wait_ms = RETRY_MS if asked_ms is None else asked_ms
        elif asked_ms is not None:
            wait_ms = min(wait_ms, asked_ms)
        if self._is_retrying or self._is_paused:
            # No record can arrive, so the consumer would return at once.
            yield from self._sleep(wait_ms)
            wait_ms = 0
        found: m.Polled | None = yield from self._read(wait_ms)
        if found is not None:
            self._batch += found.records
            self._next_positions[found.place] = found.next_offset
        if not self._is_paused:
            yield from self._deliver()

    def _deliver(self) -> Steps:
        batch = self._batch
        try:
            yield from self._do(lambda token: m.Put(token, batch))
        except RetriableError as error:
            self._out.append(m.Warn("the records come again", error))
            self._is_retrying = True
            return
        except Exception as error:
            self._has_failed = True
            raise ConnectError(UNRECOVERABLE) from error
        self._batch = []
        self._is_retrying = False
        self._progress.note_delivered(self._next_positions)
        self._next_positions = {}

    # -- commits --------------------------------------------------------------------------------

    def _commit(self, *, is_closing: bool) -> Steps:
        """Commit what the task says is safe. If it fails, read on from the last commit."""
        sequence = self._progress.began(self._now_ms)
        yield from self._do(m.FlushDeadLetters)
        delivered = self._progress.delivered
        try:
            wanted = yield from self._do(lambda token: m.PreCommit(token, delivered))
        except Exception as error:
            if is_closing:
                raise
            self._out.append(
                m.Warn("no offset is committed, and reading goes on from the last commit", error)
            )
            yield from self._rewind(self._progress.committed)
            return
        offsets = self._progress.commitable(wanted or {})
        if not offsets:
            return
        is_committed = yield from self._do_quietly(
            "the commit failed", lambda token: m.CommitOffsets(token, offsets)
        )
        if is_committed:
            self._progress.commit_done(sequence, offsets)
