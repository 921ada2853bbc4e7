"""The state machine of a consumer: its subscription, its group, its positions and its commits.

    poll of the user:  polled --> take_event, done (callbacks) --> take (batches)
    driver:            poll --> requests

The partitions change only between `polled` and `take`, when the user takes an event: `Assigned` before
anything of them is returned, `Revoked` and `Lost` after the last record was. With automatic commits, a
`Revoked` is told only after the positions are committed, or cannot be.

A partition begins at the committed offset, if the consumer has a group, and otherwise where
`auto.offset.reset` says. Committed offsets have the leader epoch of the record before, so that a
truncation is noticed (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from odradek.client.core.asks import Ask
from odradek.client.core.backoff import RandomNumber
from odradek.client.core.classic_member import ClassicMember
from odradek.client.core.classic_subscription import ClassicSubscription
from odradek.client.core.commits import CommitOperation, Commits, FetchOperation, Outsider
from odradek.client.core.consumed_batch import Batch
from odradek.client.core.consumer_member import ConsumerMember
from odradek.client.core.consumer_settings import CLASSIC, ConsumerSettings
from odradek.client.core.fetch_state import FetchState, Stage
from odradek.client.core.fetcher import Clock, Fetcher
from odradek.client.core.member_events import Assigned, Lost, MemberEvent, Revoked
from odradek.client.core.routes import Routes
from odradek.client.core.streams_member import StreamsMember
from odradek.client.errors import BrokerError, ClientError, RequestTimeoutError
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition

Member = ClassicMember | ConsumerMember | StreamsMember
Offsets = Mapping[TopicPartition, CommittedOffset]


class ConsumerMachine:
    """A consumer without connections. `fetcher` has the partitions and their positions."""

    def __init__(
        self,
        settings: ConsumerSettings,
        routes: Routes,
        random: RandomNumber,
        time_of_day: Clock,
        member_id: str = "",
    ) -> None:
        """`member_id` is a new UUID, for groups of the new protocol."""
        self.settings = settings
        self.next_deadline_ms: int | None = None
        self.fetcher = Fetcher(settings.fetch, routes, random, time_of_day)
        self.member: Member | None = None
        """The member of the group, if the consumer is subscribed."""
        self.topics: frozenset[str] = frozenset()
        """The topics of the subscription; with a pattern, those that match it."""
        self.commits: Commits | None = None
        self.identity = GroupMetadata("" if settings.member is None else settings.member.group_id)
        """The member as which it got its partitions."""
        self._routes = routes
        self._random = random
        self._member_id = member_id
        self._subscription: ClassicSubscription | None = None
        self._matches: Callable[[str], bool] | None = None
        self._seen_changes = -1
        self._wants_in = False
        self._event: MemberEvent | None = None
        self._commit_before: CommitOperation | None = None
        """The automatic commit before partitions are given up."""
        self._commit_at_ms: int | None = None
        self._commit: CommitOperation | None = None
        """The automatic commit under way."""
        self.commit_error: ClientError | None = None
        """Why an automatic commit has failed. The user of the machine reads it with `take_commit_error`."""
        self._starts: list[tuple[FetchOperation, dict[TopicPartition, FetchState]]] = []
        self._must_start = False
        self._part: tuple[FetchState, int, Batch, int] | None = None
        """The batch of which the user has had the records up to an offset."""
        self._is_ending = False
        if settings.member is not None:
            self.commits = self._new_commits(Outsider(settings.member.group_id))

    def _new_commits(self, committer: Member | Outsider) -> Commits:
        member = self.settings.member
        assert member is not None, "there is a group"
        return Commits(
            self._routes,
            committer,
            self._random,
            request_timeout_ms=member.request_timeout_ms,
            retry_backoff_ms=member.retry_backoff_ms,
            retry_backoff_ms_max=member.retry_backoff_ms_max,
        )

    # -- the subscription -----------------------------------------------------------------------

    @property
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions."""
        return self._wants_in

    def subscribe(
        self,
        topics: Iterable[str],
        matches: Callable[[str], bool] | None = None,
        pattern: str | None = None,
    ) -> None:
        """Subscribe to other topics: to `topics`, to those that match, or to the broker's matches.

        `pattern` (RE2) is the broker's to match; it needs the new protocol.
        """
        self.topics = frozenset(topics)
        self._matches = matches
        self._seen_changes = -1
        self._routes.want_all_topics(matches is not None)
        self._wants_in = True
        settings = self.settings
        member = self.member
        assert settings.member is not None, "a subscription needs a group"
        if isinstance(member, ConsumerMember):
            member.subscribe(self.topics, pattern)
        elif member is not None:
            assert self._subscription is not None, "it was made with the member"
            self._subscription.change(self.topics)
        elif settings.protocol == CLASSIC:
            subscription = ClassicSubscription(
                self._routes, self.topics, settings.assignors, settings.member.rack
            )
            self._subscription = subscription
            self._begin(ClassicMember(self._routes, settings.member, subscription, self._random))
        else:
            self._begin(
                ConsumerMember(
                    self._routes,
                    settings.member,
                    self._member_id,
                    self._random,
                    topics=self.topics,
                    pattern=pattern,
                    assignor=settings.remote_assignor,
                )
            )

    def join_streams(self, member: StreamsMember, topics: Iterable[str]) -> None:
        """Read what the tasks of a Streams group read: partitions of these topics."""
        self.topics = frozenset(topics)
        self._wants_in = True
        self._begin(member)

    def _begin(self, member: Member) -> None:
        self.member = member
        self.commits = self._new_commits(member)

    def unsubscribe(self) -> None:
        """Leave the group, or drop the assignment. The user answers the events of the member."""
        self._wants_in = False
        self._matches = None
        self.topics = frozenset()
        self._routes.want_all_topics(False)
        if self.member is not None:
            self.member.leave()
        else:
            self.fetcher.remove(list(self.fetcher.states))

    @property
    def is_out(self) -> bool:
        """Whether there is no member, or it is outside of the group."""
        return self.member is None or (self.member.is_at_rest and self._event is None)

    def forget_member(self) -> None:
        """Be a consumer without subscription again. The member is outside."""
        self.member = None
        self._subscription = None
        if self.settings.member is not None:
            self.commits = self._new_commits(Outsider(self.settings.member.group_id))
            self.identity = GroupMetadata(self.settings.member.group_id)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions. Those that were assigned before keep their positions."""
        states = self.fetcher.states
        self.fetcher.remove([each for each in states if each not in partitions])
        self.fetcher.add(partitions)
        self._must_start = True

    def _match_topics(self) -> None:
        """Subscribe to the topics that match, if the metadata has changed."""
        matches = self._matches
        if matches is None or self._routes.changes == self._seen_changes:
            return
        if not self._routes.has_all_topics:
            return
        self._seen_changes = self._routes.changes
        found = frozenset(
            name
            for name, topic in self._routes.metadata.topics.items()
            if not (topic.is_internal and self.settings.hides_internal_topics) and matches(name)
        )
        if found == self.topics and found:
            return
        self.topics = found
        if isinstance(self.member, ConsumerMember):
            self.member.subscribe(found)
        elif self._subscription is not None:
            self._subscription.change(found)

    # -- the user -------------------------------------------------------------------------------

    def polled(self, now_ms: int) -> None:
        """Note that the user polls: join if necessary, and commit if it is time."""
        member = self.member
        if member is not None:
            member.polled(now_ms)
            is_known = self._matches is None or self._routes.has_all_topics
            if self._wants_in and is_known and member.is_at_rest and member.error is None:
                member.join(now_ms)
        self._commit_in_time(now_ms)

    def take_member_error(self, now_ms: int) -> ClientError | None:
        """Return why the member has failed. It joins again, except if another one has its instance id."""
        member = self.member
        if member is None or not member.is_at_rest or member.error is None or self._event:
            return None
        error = member.error
        is_fenced = isinstance(error, BrokerError) and error.code == ErrorCode.FENCED_INSTANCE_ID
        if self._wants_in and not is_fenced:
            member.join(now_ms)
        return error

    def take_event(self, now_ms: int) -> MemberEvent | None:
        """Return what the user must be told now; None if there is nothing. `done` must follow.

        Before it returns `Revoked`, it commits, if commits are automatic: meanwhile it returns None.
        """
        member = self.member
        if member is None:
            return None
        if self._event is None:
            self._event = member.take_event()
            self._taken(member, now_ms)
        commit = self._commit_before
        if commit is not None:
            if not commit.done:
                return None
            self.commit_error = commit.error or self.commit_error
            self._commit_before = None
        return self._event

    def _taken(self, member: Member, now_ms: int) -> None:
        event = self._event
        if isinstance(event, Assigned):
            self.fetcher.add(event.partitions)
            self.identity = member.group_metadata
            self._must_start = True
        elif isinstance(event, Revoked):
            if self.settings.commits_automatically and self.commits is not None:
                interval_ms = member.settings.max_poll_interval_ms
                deadline_ms = now_ms + min(interval_ms, self.settings.api_timeout_ms)
                self._commit_before = self.commits.commit(self.consumed(), deadline_ms)
            self.fetcher.revoke(event.partitions)
        elif isinstance(event, Lost):
            self.fetcher.remove(event.partitions)

    def done(self) -> None:
        """Note that the user has answered the event."""
        event, self._event = self._event, None
        assert event is not None, "an event was taken"
        assert self.member is not None, "it has told of it"
        if isinstance(event, Revoked):
            self.fetcher.remove(event.partitions)
        self.member.done(event)

    def take(self) -> Batch | None:
        """Return the next batch. What the user had before counts as read.

        Raises:
            ClientError: a partition cannot be read. Its position stays.
        """
        self._part = None
        try:
            return self.fetcher.take()
        except ClientError:
            self._must_start = True
            raise

    def read_part(self, batch: Batch, offset: int) -> None:
        """Note that the user has had only the records of its last batch up to an offset."""
        state = self.fetcher.states.get(batch.topic_partition)
        is_last = state is not None and state.has_position and state.offset == batch.next_offset
        if state is not None and is_last:
            self._part = state, state.version, batch, offset

    def is_current(self, batch: Batch) -> bool:
        """Whether the position is still that behind a batch, and its records may be handed out."""
        state = self.fetcher.states.get(batch.topic_partition)
        return state is not None and state.may_deliver and state.offset == batch.next_offset

    # -- positions ------------------------------------------------------------------------------

    def position(self, partition: TopicPartition) -> CommittedOffset | None:
        """Return the position of an assigned partition; None if it is not known yet.

        Raises:
            KeyError: the partition is not assigned.
        """
        state = self.fetcher.states[partition]
        if not state.has_position:
            return None
        part = self._part
        if part is not None and part[0] is state and part[1] == state.version:
            return CommittedOffset(part[3], part[2].leader_epoch)
        return CommittedOffset(state.offset, state.epoch)

    def consumed(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions that are known."""
        found = {each: self.position(each) for each in self.fetcher.states}
        return {each: position for each, position in found.items() if position is not None}

    def _start(self, now_ms: int) -> None:
        """Find out where to begin."""
        for start in list(self._starts):
            if start[0].done:
                self._starts.remove(start)
                self._begin_at(*start)
        if not self._must_start:
            return
        self._must_start = False
        fresh = {
            each: state
            for each, state in self.fetcher.states.items()
            if state.stage == Stage.STARTING and not state.is_asked and state.error is None
        }
        if not fresh:
            return
        if self.commits is None:
            for each in fresh:
                self.fetcher.start(each)
            return
        for state in fresh.values():
            state.asked()
        fetch = self.commits.fetch(fresh, now_ms + self.settings.api_timeout_ms)
        self._starts.append((fetch, fresh))

    def _begin_at(self, fetch: FetchOperation, asked: Mapping[TopicPartition, FetchState]) -> None:
        for each, state in asked.items():
            if self.fetcher.states.get(each) is not state or state.stage != Stage.STARTING:
                continue  # it is not assigned any more, or the user has sought
            state.check_failed()
            found = fetch.offsets.get(each)
            if isinstance(fetch.error, RequestTimeoutError):
                self._must_start = True
            elif fetch.error is not None:
                self.fetcher.fail(each, fetch.error)
            elif found is not None:
                self.fetcher.seek(each, found.offset, found.leader_epoch)
            else:
                self.fetcher.start(each)

    # -- automatic commits ----------------------------------------------------------------------

    def _commit_in_time(self, now_ms: int) -> None:
        settings = self.settings
        if not settings.commits_automatically or self.commits is None:
            return
        self._end_commit(now_ms)
        if self._commit_at_ms is None:
            self._commit_at_ms = now_ms + settings.commit_interval_ms
        if now_ms < self._commit_at_ms or self._commit is not None or self._event is not None:
            return
        self._commit_at_ms = now_ms + settings.commit_interval_ms
        if self.member is None or self.member.may_commit:
            self._commit = self.commits.commit(self.consumed())

    def _end_commit(self, now_ms: int) -> None:
        commit = self._commit
        if commit is None or not commit.done:
            return
        self._commit = None
        error = commit.error
        if error is None:
            return
        if error.retriable:
            self._commit_at_ms = now_ms + self.settings.fetch.retry_backoff_ms
        self.commit_error = error

    def take_commit_error(self) -> ClientError | None:
        """Return why an automatic commit has failed, once."""
        error, self.commit_error = self.commit_error, None
        return error

    # -- requests -------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        asks: list[Ask] = []
        due: list[int | None] = []
        if self._is_ending:
            self._is_ending = False
            return self.fetcher.close()
        self._match_topics()
        if self.member is not None:
            asks += self.member.poll(now_ms)
            due.append(self.member.next_deadline_ms)
        if self._must_start or self._starts:
            self._start(now_ms)
        if self.commits is not None:
            asks += self.commits.poll(now_ms)
            if any(each.done for each, _ in self._starts):
                self._start(now_ms)
                asks += self.commits.poll(now_ms)  # if it was not in time, it is asked again
            due.append(self.commits.next_deadline_ms)
        asks += self.fetcher.poll(now_ms)
        due.append(self.fetcher.next_deadline_ms)
        self.next_deadline_ms = min((each for each in due if each is not None), default=None)
        return asks

    def end_sessions(self) -> None:
        """Let the next `poll` return what ends the fetch sessions, and nothing else."""
        self._is_ending = True
