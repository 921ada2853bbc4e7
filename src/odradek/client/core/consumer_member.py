"""A member of a consumer group of the new protocol (KIP-848): the coordinator assigns the partitions.

    outside --join--> joining --> stable <--> reconciling --> acknowledging --> stable
                         ^           |             |
                         |           +---fenced, or the user does not poll--> lost
                         +--------------the user has been told-----------------+

    any --leave--> closing --> leaving --> outside        any --refused for good--> failed
    reconciling, lost, closing: the user works on events (`take_event`, `done`)

Each heartbeat carries the epoch of the member, and of the other fields only those that have changed since
the coordinator last answered; all of them after an error, and when joining. A response to a heartbeat of
an earlier epoch is ignored. The target assignment names topics by id: the names are asked for, and what has
no name yet waits while the rest is taken. One reconciliation is done at a time, first what is revoked, then
what is new; then the coordinator is told at once.

The member id is made by the client, and kept. If the user does not poll for `max_poll_interval_ms`, the
member leaves at once, and joins again when the user polls.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from odradek.client.core.asks import Ask, may_pass
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.core.coordinator_asks import OF_COORDINATOR, CoordinatorAsks
from odradek.client.core.member_events import Assigned, Events, Lost, MemberEvent, Revoked
from odradek.client.core.member_settings import MemberSettings, PollInterval
from odradek.client.core.routes import Routes
from odradek.client.core.topic_names import TopicNames
from odradek.client.errors import BrokerError, ClientError, broker_error
from odradek.client.group_metadata import GroupMetadata
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from odradek.wire.generated.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)

_FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_JOIN = 0
_LEAVE = -1
_LEAVE_FOR_A_WHILE = -2
"""The epoch of a static member that leaves: its partitions wait for it."""
_Target = dict[bytes, tuple[int, ...]]
"""Partitions by topic id."""
_Fields = dict[str, Any]


class ConsumerState(Enum):
    """Where a member is on its way to its assignment."""

    OUTSIDE = "outside"
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    LOST = "lost"
    CLOSING = "closing"
    LEAVING = "leaving"
    FAILED = "failed"


_OUT = (
    ConsumerState.OUTSIDE,
    ConsumerState.CLOSING,
    ConsumerState.LEAVING,
    ConsumerState.FAILED,
)
_AT_ONCE = (ConsumerState.JOINING, ConsumerState.ACKNOWLEDGING, ConsumerState.LEAVING)


class ConsumerMember:
    """One member of one group."""

    def __init__(
        self,
        routes: Routes,
        settings: MemberSettings,
        member_id: str,
        random: RandomNumber,
        *,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        assignor: str | None = None,
    ) -> None:
        """`member_id` is a new UUID. `pattern` (RE2) and `assignor` are the coordinator's to apply."""
        self.state = ConsumerState.OUTSIDE
        self.error: ClientError | None = None
        """Why the member has failed."""
        self.last_error: ClientError | None = None
        """Why the last heartbeat has failed; None after a success."""
        self.loss = ""
        """Why the member has left the group, if its user is the reason."""
        self.assignment: frozenset[TopicPartition] = frozenset()
        """The partitions that the member has."""
        self.next_deadline_ms: int | None = None
        self._asks = CoordinatorAsks(routes, settings.group_id)
        self._names = TopicNames(routes, settings.request_timeout_ms)
        self._settings = settings
        self._member_id = member_id
        self._topics = sorted(set(topics))
        self._pattern = pattern
        self._assignor = assignor
        self._epoch = _JOIN
        self._target: _Target = {}
        self._told: _Fields = {}
        """The fields that the coordinator knows."""
        self._events = Events()
        self._has_told = False
        """Whether the events of this state have been added."""
        self._interval = PollInterval(settings.max_poll_interval_ms)
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_ms_max, random)
        self._retry_at_ms = 0
        self._attempt = 0
        """Counts the times when the member began again. A response with an earlier number is late."""
        self._is_asked = False
        self._beat_at_ms = 0
        self._beat_every_ms = settings.heartbeat_interval_ms
        self._is_idle = False
        """Whether the member has left because its user did not poll."""
        self._must_leave = False
        """Whether the coordinator must be told that an idle member has left."""
        self._may_hold_instance = False
        """Whether the coordinator may still have this member, with its instance id."""

    @property
    def settings(self) -> MemberSettings:
        """The settings."""
        return self._settings

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for commits."""
        settings = self._settings
        if self._epoch <= 0:
            return GroupMetadata(settings.group_id)
        return GroupMetadata(settings.group_id, self._epoch, self._member_id, settings.instance_id)

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment."""
        return self.state == ConsumerState.STABLE

    @property
    def is_at_rest(self) -> bool:
        """Whether the member is outside of the group, and does not try to get in."""
        return self.state in (ConsumerState.OUTSIDE, ConsumerState.FAILED)

    @property
    def may_commit(self) -> bool:
        """Whether the member is in the group."""
        return self._epoch > 0

    @property
    def waits_for_others(self) -> bool:
        """Never: the coordinator answers at once."""
        return False

    # -- the user -------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None) -> None:
        """Subscribe to other topics."""
        self._topics = sorted(set(topics))
        self._pattern = pattern
        self._beat_at_ms = 0

    def join(self, now_ms: int) -> None:
        """Join the group, if the member is outside, or has failed."""
        if self.state in (ConsumerState.OUTSIDE, ConsumerState.FAILED):
            self._interval.polled(now_ms)
            self.error = None
            self._begin_again()

    def polled(self, now_ms: int) -> None:
        """Note that the user polls."""
        self._interval.polled(now_ms)
        self._is_idle = False

    def leave(self) -> None:
        """Leave the group. The state is `OUTSIDE` in the end, after the user has answered all events."""
        if self.state not in _OUT:
            self._enter(ConsumerState.CLOSING)

    def take_event(self) -> MemberEvent | None:
        """Return the next event for the user; None if there is none, or one is being worked on."""
        event = self._events.take()
        if isinstance(event, Assigned):
            self.assignment |= set(event.partitions)
        return event

    def done(self, event: MemberEvent) -> None:
        """Note that the user has answered an event.

        Raises:
            ValueError: the user has not taken this event.
        """
        self._events.done(event)
        if isinstance(event, Revoked | Lost):
            self.assignment -= set(event.partitions)

    # -- what is due ----------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        if self.state not in _OUT and not self._is_idle and self._interval.is_over(now_ms):
            self._become_idle()
        asks: list[Ask] = []
        try:
            self._advance(now_ms)
            asks += self._names.poll(now_ms)
            asks += self._beat_ask(now_ms)
        except BrokerError as error:  # the coordinator cannot be looked up
            self._fail(error)
            self._advance(now_ms)
        self._set_deadline(now_ms)
        return asks

    def _set_deadline(self, now_ms: int) -> None:
        due = [self._names.next_deadline_ms]
        interval_ms = self._interval.deadline_ms
        if self.state not in _OUT and not self._is_idle:
            due.append(interval_ms)
        if self._beats and not self._is_asked:
            due.append(max(self._retry_at_ms, 0 if self._is_urgent else self._beat_at_ms))
        self.next_deadline_ms = min((each for each in due if each is not None), default=None)

    def _enter(self, state: ConsumerState) -> None:
        """Go to a state in which the user is told something first."""
        self._events.drop_waiting()
        self.state = state
        self._has_told = False

    def _advance(self, now_ms: int) -> None:
        """Go on, if the user has answered all events."""
        if self._events:
            return
        if self.state == ConsumerState.RECONCILING:
            self.state = ConsumerState.ACKNOWLEDGING
        if self.state == ConsumerState.STABLE:
            self._reconcile(now_ms)
        if not self._has_told and self.state in _TELLING:
            self._has_told = True
            if self.assignment:
                is_timely = self.state == ConsumerState.CLOSING and self._epoch > 0
                some = tuple(sorted(self.assignment))
                self._events.add(Revoked(some) if is_timely else Lost(some))
                return
        if self.state == ConsumerState.LOST and not self._is_idle and not self._must_leave:
            self._begin_again()
        elif self.state == ConsumerState.CLOSING:
            self.state = ConsumerState.LEAVING if self._epoch > 0 else ConsumerState.OUTSIDE
            self._attempt += 1
            self._is_asked = False

    def _reconcile(self, now_ms: int) -> None:
        """Compare what the member has with what it should have."""
        known, is_complete = self._names.resolve(self._target, now_ms)
        revoked = self.assignment - known
        added = known - self.assignment
        if revoked or added:
            self.state = ConsumerState.RECONCILING
            if revoked:
                self._events.add(Revoked(tuple(sorted(revoked))))
            if added:
                self._events.add(Assigned(tuple(sorted(added))))
        elif is_complete and self._told.get("topic_partitions") != self._owned():
            self.state = ConsumerState.ACKNOWLEDGING

    def _owned(self) -> list[tuple[bytes, list[int]]]:
        """Return what the member has, as heartbeats name it."""
        return self._names.by_id(self.assignment)

    def _begin_again(self) -> None:
        self._restart()
        self.state = ConsumerState.JOINING

    def _restart(self) -> None:
        """Forget what the coordinator has said and been told."""
        self._may_hold_instance |= self._epoch > 0 or self._is_asked
        self._attempt += 1
        self._is_asked = False
        self._epoch = _JOIN
        self._target = {}
        self._told = {}

    # -- heartbeats -----------------------------------------------------------------------------

    @property
    def _beats(self) -> bool:
        if self.state == ConsumerState.CLOSING:  # the user works on what it gives up
            return self._must_leave or self._epoch > 0
        return self._must_leave or self.state in _BEATING

    @property
    def _is_urgent(self) -> bool:
        return self._must_leave or self.state in _AT_ONCE

    def _beat_ask(self, now_ms: int) -> list[Ask]:
        if not self._beats or self._is_asked or now_ms < self._retry_at_ms:
            return []
        if not self._is_urgent and now_ms < self._beat_at_ms:
            return []
        link = self._asks.link()
        if link is None:
            return []
        settings = self._settings
        is_leaving = self._must_leave or self.state == ConsumerState.LEAVING
        epoch = self._epoch
        if is_leaving:
            epoch = _LEAVE if settings.instance_id is None else _LEAVE_FOR_A_WHILE
        fields = {} if is_leaving else self._fields()
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=settings.instance_id,
            **self._news(fields),
        )
        self._is_asked = True
        self._beat_at_ms = now_ms + self._beat_every_ms
        attempt, state = self._attempt, self.state

        def outcome(response: Any, error: ClientError | None, at_ms: int) -> None:
            if error is not None and not isinstance(error, BrokerError):
                self._may_hold_instance = True
            if attempt != self._attempt:
                return
            self._is_asked = False
            if is_leaving:
                self._left()
            elif error is None:
                self._told = fields
                self._answered(response, state, at_ms)
            else:
                self._refused(error, at_ms)

        timeout_ms = settings.request_timeout_ms
        return [
            self._asks.ask(
                link,
                request,
                ConsumerGroupHeartbeatResponse,
                outcome,
                self._error_of,
                timeout_ms,
            )
        ]

    def _fields(self) -> _Fields:
        """Return all fields as they are now."""
        settings = self._settings
        owned = self._owned()
        is_busy = self.state in (ConsumerState.RECONCILING, ConsumerState.CLOSING)
        return {
            "rebalance_timeout_ms": settings.max_poll_interval_ms,
            "subscribed_topic_names": self._topics,
            "subscribed_topic_regex": self._pattern or "",
            "server_assignor": self._assignor,
            "rack_id": settings.rack or None,
            "topic_partitions": self._told.get("topic_partitions", owned) if is_busy else owned,
        }

    def _news(self, fields: _Fields) -> _Fields:
        """Return the fields that the coordinator does not know, as the message has them."""
        found = {
            name: value
            for name, value in fields.items()
            if name not in self._told or self._told[name] != value
        }
        regex = "subscribed_topic_regex"
        if not found.get(regex) and not self._told.get(regex):
            found.pop(regex, None)  # brokers of version 0 do not know the field
        if "topic_partitions" in found:
            found["topic_partitions"] = [
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in found["topic_partitions"]
            ]
        return found

    def _error_of(self, response: ConsumerGroupHeartbeatResponse) -> BrokerError | None:
        group = f"group {self._settings.group_id}"
        return broker_error(response.error_code, response.error_message, group)

    def _answered(
        self, response: ConsumerGroupHeartbeatResponse, sent_in: ConsumerState, now_ms: int
    ) -> None:
        self._backoff.succeeded()
        self.last_error = None
        self.loss = ""
        self._epoch = response.member_epoch
        self._member_id = response.member_id or self._member_id
        self._beat_every_ms = response.heartbeat_interval_ms
        self._beat_at_ms = now_ms + self._beat_every_ms
        if response.assignment is not None:
            self._target = {
                each.topic_id: tuple(each.partitions)
                for each in response.assignment.topic_partitions
            }
        if self.state == sent_in and sent_in in (
            ConsumerState.JOINING,
            ConsumerState.ACKNOWLEDGING,
        ):
            self.state = ConsumerState.STABLE

    def _refused(self, error: ClientError, now_ms: int) -> None:
        """Act upon an error of a heartbeat. All fields are sent again."""
        self.last_error = error
        self._told = {}
        code = error.code if isinstance(error, BrokerError) else None
        if code in _FENCED:
            self._lose()
        elif code == ErrorCode.UNRELEASED_INSTANCE_ID and self._may_hold_instance:
            # The response to an earlier request is lost. The session of that member will expire.
            self._retry_at_ms = now_ms + self._backoff.failed()
        elif may_pass(error) or code in OF_COORDINATOR or code == _MISSING_RIGHT:
            self._retry_at_ms = now_ms + self._backoff.failed()
        else:
            self._fail(error)

    # -- the end of a membership ----------------------------------------------------------------

    def _lose(self) -> None:
        """Note that the member is not in the group any more."""
        self._restart()
        if self.state != ConsumerState.CLOSING:
            self._enter(ConsumerState.LOST)

    def _become_idle(self) -> None:
        """Leave, because the user does not poll."""
        self.loss = self._interval.explanation
        self._is_idle = True
        self._must_leave = self._epoch > 0 or self._is_asked
        self._lose()

    def _fail(self, error: ClientError) -> None:
        self.error = error
        self._must_leave = False
        self._restart()
        self._may_hold_instance = False
        self._enter(ConsumerState.FAILED)

    def _left(self) -> None:
        """Go on after the coordinator has been told. This is tried once."""
        self._must_leave = False
        if self.state == ConsumerState.LEAVING:
            self._restart()
            self.state = ConsumerState.OUTSIDE


_MISSING_RIGHT = ErrorCode.TOPIC_AUTHORIZATION_FAILED
"""The user is told, and may get the right later."""
_TELLING = (ConsumerState.LOST, ConsumerState.CLOSING, ConsumerState.FAILED)
_BEATING = (
    ConsumerState.JOINING,
    ConsumerState.STABLE,
    ConsumerState.RECONCILING,
    ConsumerState.ACKNOWLEDGING,
    ConsumerState.LEAVING,
)
