"""A consumer that is a member of a classic group, or of a group of the new protocol (KIP-848).

    caller:  poll (events, records)     works on records      poll
    keeper:                             heartbeats            (waits)

The member and the commits are machines (`client.core`). The caller's thread drives them in each call, the
keeper's thread between the calls. So the member stays in the group while the program works, for up to
`max_poll_interval_ms`. What the group assigns and revokes is seen only in `poll` and `close`. Records are
fetched by the caller's thread, over the connections of the cluster.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Self

from odradek.client.cluster import Cluster
from odradek.client.consumer import Consumer
from odradek.client.core.classic_member import ClassicMember
from odradek.client.core.classic_subscription import ClassicSubscription
from odradek.client.core.commits import Commits
from odradek.client.core.consumer_member import ConsumerMember
from odradek.client.core.member_events import Assigned, Lost, MemberEvent, Revoked
from odradek.client.core.member_settings import MemberSettings, PollInterval
from odradek.client.core.routes import Routes
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import (
    BrokerError,
    ClosedError,
    CommitFailedError,
    RequestTimeoutError,
)
from odradek.client.fetcher import FetchLimits
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.client.offsets import EARLIEST, READ_UNCOMMITTED, offsets_at
from odradek.client.shell.driver import Driver, Machine
from odradek.client.shell.keeper import Calls, Shell
from odradek.model import uuids
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record

log = logging.getLogger(__name__)

_POLL_SLICE_MS = 1_000
"""The longest time that `poll` waits for records, so that a rebalance does not wait longer for it."""
CLASSIC, CONSUMER = "classic", "consumer"
"""Values of `group.protocol`."""
_OF_CLASSIC = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
_OF_CONSUMER = ("group.remote.assignor", "a pattern")

Partitions = Collection[TopicPartition]


class GroupConsumer(Shell):
    """A consumer that joins its group in the first `poll`.

    `reset_to` (EARLIEST, LATEST or a time in ms) says where reading starts in a partition that has no
    committed offset, or whose offset is out of range.

    The callbacks are called in `poll` and `close`. `on_assigned` gets the new partitions and their first
    offsets. `on_revoked` gets partitions that this member gives up; it can commit their offsets. `on_lost`
    gets partitions that others may have already, for example after `max_poll_interval_ms` without a
    `poll`; by default `on_revoked` is called.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Iterable[str],
        *,
        isolation: int = READ_UNCOMMITTED,
        limits: FetchLimits | None = None,
        reset_to: int = EARLIEST,
        protocol: str = "classic",
        assignors: Sequence[str] | None = None,
        remote_assignor: str | None = None,
        pattern: str | None = None,
        instance_id: str | None = None,
        rack: str = "",
        session_timeout_ms: int | None = None,
        heartbeat_interval_ms: int | None = None,
        max_poll_interval_ms: int = 300_000,
        on_assigned: Callable[[Mapping[TopicPartition, int]], None] | None = None,
        on_revoked: Callable[[Partitions], None] | None = None,
        on_lost: Callable[[Partitions], None] | None = None,
    ) -> None:
        """`protocol` is `group.protocol`. `instance_id` makes a static member (KIP-345).

        In a `classic` group, a member has `assignors` in order of preference (by default `range`,
        `cooperative-sticky`), a session timeout (45 s) and a heartbeat interval (3 s). In a `consumer` group
        the broker decides; `remote_assignor` is the name of one of its assignors, and it also matches
        `pattern` (RE2) with the names of topics.

        Raises:
            ValueError: there is no such assignor, or a setting does not belong to the protocol.
        """
        of_classic = (assignors, session_timeout_ms, heartbeat_interval_ms)
        _check_protocol(protocol, of_classic, (remote_assignor, pattern))
        self._cluster = cluster
        self._group = group
        self._isolation = isolation
        self._reset_to = reset_to
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_revoked if on_lost is None else on_lost
        self._consumer = Consumer(cluster, isolation=isolation, limits=limits, reset_to=reset_to)
        self._paused: dict[TopicPartition, int] = {}
        """The positions of paused partitions."""
        self._identity = GroupMetadata(group)
        self._event: MemberEvent | None = None
        """What this thread works on."""
        self._settings = MemberSettings(
            group,
            instance_id,
            rack,
            45_000 if session_timeout_ms is None else session_timeout_ms,
            3_000 if heartbeat_interval_ms is None else heartbeat_interval_ms,
            max_poll_interval_ms,
            request_timeout_ms=cluster.timeout_ms,
        )
        routes = Routes(_random_number, request_timeout_ms=cluster.timeout_ms)
        self._routes = routes
        self._member: ClassicMember | ConsumerMember = (
            _classic_member(routes, self._settings, topics, assignors)
            if protocol == CLASSIC
            else _consumer_member(routes, self._settings, topics, pattern, remote_assignor)
        )
        self._commits = Commits(
            routes, self._member, _random_number, request_timeout_ms=cluster.timeout_ms
        )
        super().__init__(_driver(cluster, routes, [self._member, self._commits]), "consumer")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the keeper -----------------------------------------------------------------------------

    def _has_work(self) -> bool:
        return not self._member.is_at_rest or not self._commits.is_idle

    def _has_calls(self) -> bool:
        return False

    def _take_calls(self) -> Sequence[Calls]:
        return ()

    # -- reading --------------------------------------------------------------------------------

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset of the next record that `poll` returns, by partition."""
        return {**self._consumer.positions, **self._paused}

    @property
    def consumed_offsets(self) -> Mapping[TopicPartition, CommittedOffset]:
        """The same, for `Producer.transaction`. The leader epochs are not known."""
        return {each: CommittedOffset(offset) for each, offset in self.positions.items()}

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for `Producer.send_offsets_to_transaction`.

        It is the one with which it got its partitions, also if the group has removed it since: then the
        coordinator refuses the offsets.
        """
        return self._identity

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """Join the group if necessary, call the callbacks, and return new records.

        `timeout_ms` limits the wait for records. The wait is never longer than 1 s. Joining the
        group may take longer, because it waits for the other members.

        Raises:
            BrokerError: the group rejects this member (another protocol, full, fenced).
            ClientError: the coordinator does not respond; or see `Consumer.poll`.
        """
        self._check_usable()
        while self._next_event():
            self._work_on_event()
        return self._consumer.poll(min(timeout_ms, _POLL_SLICE_MS))

    def _next_event(self) -> bool:
        """Wait until the member is in the group. Return whether there is an event before."""
        with self._lock:
            member, now_ms = self._member, monotonic_ms()
            member.polled(now_ms)
            self._rejoin(now_ms)
            self._keep()
            is_ready = self._wait_until(self._has_news, Deadline(self._cluster.timeout_ms))
            while not is_ready and member.waits_for_others:
                is_ready = self._wait_until(self._has_news, Deadline(self._cluster.timeout_ms))
            if self._event is not None:
                return True
            if member.is_at_rest and member.error is not None:
                raise member.error
            if not is_ready:
                error = member.last_error or self._routes.last_error
                raise error or RequestTimeoutError(
                    f"group {self._group}: no response from its coordinator within"
                    f" {self._cluster.timeout_ms} ms"
                )
            return False

    def _rejoin(self, now_ms: int) -> None:
        """Join, also after an error; except if another member has this one's instance id."""
        error = self._member.error
        if not (isinstance(error, BrokerError) and error.code == ErrorCode.FENCED_INSTANCE_ID):
            self._member.join(now_ms)

    def _has_news(self) -> bool:
        """Whether there is an event, or the member is in the group, or has failed."""
        if self._event is None:
            self._event = self._member.take_event()
        member = self._member
        return self._event is not None or member.is_stable or member.is_at_rest

    def _work_on_event(self) -> None:
        """Read what is assigned, do not read what is not, and call the callback.

        If the first offsets cannot be found, the next call works on the same event again.
        """
        event = self._event
        assert event is not None
        positions: dict[TopicPartition, int] = {}
        if isinstance(event, Assigned):
            identity = self._member.group_metadata
            positions = self._starts(event.partitions)
            self._consumer.seek(positions)
            self._identity = identity
        try:
            self._tell(event, positions)
        finally:
            if isinstance(event, Revoked | Lost):
                self._drop(event.partitions)
            with self._lock:
                self._event = None
                self._member.done(event)

    def _tell(self, event: MemberEvent, positions: Mapping[TopicPartition, int]) -> None:
        """Call the callback."""
        if isinstance(event, Assigned) and self._on_assigned is not None:
            self._on_assigned(positions)
        elif isinstance(event, Revoked) and self._on_revoked is not None:
            self._on_revoked(event.partitions)
        elif isinstance(event, Lost):
            if self._member.loss:
                log.warning("group %s: %s. %s", self._group, self._member.loss, PollInterval.advice)
            self._drop(event.partitions)
            if self._on_lost is not None:
                self._on_lost(event.partitions)

    def _starts(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Return where reading begins."""
        with self._lock:
            fetch = self._commits.fetch(partitions, monotonic_ms() + self._cluster.timeout_ms)
            self._wait_until(lambda: fetch.done, None)
        if fetch.error is not None:
            raise fetch.error
        positions = {each: committed.offset for each, committed in fetch.offsets.items()}
        fresh = [each for each in partitions if each not in positions]
        if fresh:
            positions |= offsets_at(self._cluster, fresh, self._reset_to, isolation=self._isolation)
        return positions

    def _drop(self, partitions: Partitions) -> None:
        self._consumer.drop(partitions)
        for each in partitions:
            self._paused.pop(each, None)

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Set the positions of assigned partitions.

        Raises:
            ValueError: a partition is not assigned to this member.
        """
        self._check_assigned(positions)
        for each, offset in positions.items():
            if each in self._paused:
                self._paused[each] = offset
        self._consumer.seek({k: at for k, at in positions.items() if k not in self._paused})

    def pause(self, partitions: Partitions) -> None:
        """Return no records of these partitions until `resume`. They stay assigned.

        Raises:
            ValueError: a partition is not assigned to this member.
        """
        self._check_assigned(partitions)
        found = {each: self.positions[each] for each in partitions}
        self._paused |= found
        self._consumer.drop(found)

    def resume(self, partitions: Partitions) -> None:
        """Return records of paused partitions again, from where they were.

        Raises:
            ValueError: a partition is not assigned to this member.
        """
        self._check_assigned(partitions)
        found = {each: self._paused.pop(each) for each in partitions if each in self._paused}
        self._consumer.seek(found)

    def _check_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._check_usable()
        for each in partitions:
            if each not in self.positions:
                raise ValueError(f"partition {each} is not assigned to this member")

    # -- offsets --------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> bool:
        """Commit `offsets`, by default `positions`.

        Return False if this is not possible, because a rebalance runs, or because the member is not in
        the group any more; the log then says why.

        Raises:
            ClientError: the coordinator returns another error, or does not respond.
        """
        self._check_usable()
        wanted = {
            each: offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
            for each, offset in (self.positions if offsets is None else offsets).items()
        }
        with self._lock:
            commit = self._commits.commit(wanted, monotonic_ms() + self._cluster.timeout_ms)
            self._wait_until(lambda: commit.done, None)
        error = commit.error
        if error is None:
            return True
        if isinstance(error, CommitFailedError):
            log.warning("%s. %s", error, PollInterval.advice if self._member.loss else "")
            return False
        if isinstance(error, BrokerError) and error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        raise error

    def close(self) -> None:
        """Give up all partitions, and leave the group if the coordinator can be reached.

        No offsets are committed, unless `on_revoked` does. A static member does not leave.
        """
        if self._problem is not None:
            return
        deadline = Deadline(self._cluster.timeout_ms)
        try:
            with self._lock:
                self._member.leave()
            while self._leaves(deadline):
                self._work_on_event()
        finally:
            self._end(ClosedError("the consumer is closed"))

    def _leaves(self, deadline: Deadline) -> bool:
        """Wait until the member is outside. Return whether there is an event before."""
        with self._lock:
            return self._wait_until(self._has_news, deadline) and self._event is not None


def _check_protocol(
    protocol: str, of_classic: Sequence[object], of_consumer: Sequence[object]
) -> None:
    """Check that only settings of the protocol are given.

    Raises:
        ValueError: one of the other protocol is given, or there is no such protocol.
    """
    if protocol not in (CLASSIC, CONSUMER):
        raise ValueError(f"group.protocol is {protocol!r}; it can be {CLASSIC} or {CONSUMER}")
    others = zip(_OF_CLASSIC, of_classic, strict=True)
    if protocol == CLASSIC:
        others = zip(_OF_CONSUMER, of_consumer, strict=True)
    for name, value in others:
        if value is not None:
            raise ValueError(f"{name} cannot be set when group.protocol={protocol.upper()}")


def _driver(cluster: Cluster, routes: Routes, machines: Sequence[Machine]) -> Driver:
    return Driver(
        cluster.bootstrap,
        routes,
        machines,
        client_id=cluster.client_id,
        connect_timeout_ms=cluster.connect_timeout_ms,
        security=cluster.security,
    )


def _classic_member(
    routes: Routes,
    settings: MemberSettings,
    topics: Iterable[str],
    assignors: Sequence[str] | None,
) -> ClassicMember:
    names = ("range", "cooperative-sticky") if assignors is None else assignors
    subscription = ClassicSubscription(routes, topics, names, settings.rack)
    return ClassicMember(routes, settings, subscription, _random_number)


def _consumer_member(
    routes: Routes,
    settings: MemberSettings,
    topics: Iterable[str],
    pattern: str | None,
    assignor: str | None,
) -> ConsumerMember:
    return ConsumerMember(
        routes,
        settings,
        uuids.to_text(uuid.uuid4().bytes),
        _random_number,
        topics=topics,
        pattern=pattern,
        assignor=assignor,
    )


def _random_number() -> int:
    return random.getrandbits(31)
