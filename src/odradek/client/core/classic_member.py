"""A member of a classic group, of any protocol type (KIP-62, KIP-345, KIP-394, KIP-814).

    outside --join--> preparing --> joining --> syncing --> adopting --> stable
                          ^            ^           |            |           |
                          |            +--refused--+            |           |
                          +----the group rebalances, or the generation is lost

    any --leave--> closing --> leaving --> outside        any --fenced, unauthorized--> failed
    preparing, adopting, closing: the user works on events (`take_event`, `done`)

Heartbeats are sent in every generation, also while the user works on events, but not while a request to
join is in flight: the coordinator then knows that the member lives. A response to a request of an earlier
generation is ignored.

If the user does not poll for `max_poll_interval_ms`, the member leaves the group. It joins again when the
user polls, after the user has been told what it has lost. A static member does not leave: the coordinator
waits until its session expires.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from odradek.client.core.asks import Ask, Link, may_pass
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.core.coordinator_asks import CoordinatorAsks, Outcome
from odradek.client.core.member_events import Events, Joined, MemberEvent
from odradek.client.core.member_protocol import MemberProtocol
from odradek.client.core.member_settings import MemberSettings, PollInterval
from odradek.client.core.routes import Routes
from odradek.client.errors import BrokerError, ClientError, broker_error
from odradek.client.group_metadata import GroupMetadata
from odradek.model.errors import ErrorCode
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.join_group_response import JoinGroupResponse
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.leave_group_response import LeaveGroupResponse
from odradek.wire.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.generated.sync_group_response import SyncGroupResponse
from odradek.wire.primitives import Message

_ANSWER_EXTRA_MS = 5_000
"""The coordinator may respond to a join as late as the end of the rebalance timeout."""
_NO_GENERATION = -1


class ClassicState(Enum):
    """Where a member is on its way into the group."""

    OUTSIDE = "outside"
    PREPARING = "preparing"
    JOINING = "joining"
    SYNCING = "syncing"
    ADOPTING = "adopting"
    STABLE = "stable"
    CLOSING = "closing"
    LEAVING = "leaving"
    FAILED = "failed"


class ClassicMember:
    """One member of one group."""

    def __init__(
        self,
        routes: Routes,
        settings: MemberSettings,
        protocol: MemberProtocol,
        random: RandomNumber,
    ) -> None:
        self.state = ClassicState.OUTSIDE
        self.error: ClientError | None = None
        """Why the member has failed."""
        self.last_error: ClientError | None = None
        """Why the last attempt to join has failed; None after a success."""
        self.loss = ""
        """Why the member lost its last generation, if its user is the reason."""
        self.next_deadline_ms: int | None = None
        self._asks = CoordinatorAsks(routes, settings.group_id)
        self._settings = settings
        self._protocol = protocol
        self._events = Events()
        self._has_told = False
        """Whether the events of this state have been added."""
        self._interval = PollInterval(settings.max_poll_interval_ms)
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_ms_max, random)
        self._retry_at_ms = 0
        self._member_id = ""
        self._generation_id = _NO_GENERATION
        self._joined = JoinGroupResponse()
        """The response to the last join."""
        self._must_rejoin = False
        self._attempt = 0
        """Counts requests to join, and losses. A response with an earlier number is late."""
        self._is_asked = False
        """Whether a request to join or to sync is in flight."""
        self._is_beating = False
        self._beat_at_ms = 0
        self._is_idle = False
        """Whether the member has left because its user did not poll."""
        self._leavers: list[str] = []
        """The members for which LeaveGroup must be sent."""

    @property
    def settings(self) -> MemberSettings:
        """The settings."""
        return self._settings

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for commits."""
        settings = self._settings
        if self._generation_id < 0:
            return GroupMetadata(settings.group_id)
        return GroupMetadata(
            settings.group_id, self._generation_id, self._member_id, settings.instance_id
        )

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment."""
        return self.state == ClassicState.STABLE

    @property
    def is_at_rest(self) -> bool:
        """Whether the member is outside of the group, and does not try to get in."""
        return self.state in (ClassicState.OUTSIDE, ClassicState.FAILED)

    @property
    def may_commit(self) -> bool:
        """Whether the member is in a generation of the group."""
        return self._generation_id >= 0

    @property
    def waits_for_others(self) -> bool:
        """Whether the coordinator has been asked for an assignment, and waits for other members."""
        return self._is_asked

    # -- the user -------------------------------------------------------------------------------

    def join(self, now_ms: int) -> None:
        """Join the group, if the member is outside, or has failed."""
        if self.state in (ClassicState.OUTSIDE, ClassicState.FAILED):
            self._interval.polled(now_ms)
            self.error = None
            self._enter(ClassicState.PREPARING)

    def polled(self, now_ms: int) -> None:
        """Note that the user polls."""
        self._interval.polled(now_ms)
        self._is_idle = False

    def leave(self) -> None:
        """Leave the group. The state is `OUTSIDE` in the end, after the user has answered all events."""
        if self.state not in _OUT:
            self._attempt += 1
            self._is_asked = False
            self._events.drop_waiting()
            self._enter(ClassicState.CLOSING)

    def take_event(self) -> MemberEvent | None:
        """Return the next event for the user; None if there is none, or one is being worked on."""
        event = self._events.take()
        if event is not None:
            self._protocol.taken(event)
        return event

    def done(self, event: MemberEvent) -> None:
        """Note that the user has answered an event.

        Raises:
            ValueError: the user has not taken this event.
        """
        self._events.done(event)
        self._protocol.done(event)

    # -- what is due ----------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        if self.state not in _OUT and not self._is_idle and self._interval.is_over(now_ms):
            self._become_idle()
        asks: list[Ask] = []
        try:
            self._advance(now_ms)
            asks += self._leave_ask()
            if not self._is_asked and now_ms >= self._retry_at_ms:
                asks += self._due(now_ms)
            asks += self._beat_ask(now_ms)
        except ClientError as error:  # of the look-up of the coordinator, or of another member
            self._fail(error)
            self._advance(now_ms)
        self._set_deadline(now_ms)
        return asks

    def _set_deadline(self, now_ms: int) -> None:
        due = []
        if self._beats and not self._is_beating:
            due.append(self._beat_at_ms)
        interval_ms = self._interval.deadline_ms
        if self.state not in _OUT and not self._is_idle and interval_ms is not None:
            due.append(interval_ms)
        if now_ms < self._retry_at_ms and not self._is_asked:
            due.append(self._retry_at_ms)
        self.next_deadline_ms = min(due, default=None)

    def _enter(self, state: ClassicState) -> None:
        """Go to a state in which the user is told something first."""
        self.state = state
        self._has_told = False

    def _advance(self, now_ms: int) -> None:
        """Go on, if the user has answered all events."""
        if self._events:
            return
        if self.state == ClassicState.ADOPTING:
            self.state = ClassicState.STABLE
        if self.state == ClassicState.STABLE and (
            self._must_rejoin or self._protocol.wants_to_join_again(now_ms)
        ):
            self._enter(ClassicState.PREPARING)
        if not self._has_told and self.state in _TELLING:
            self._has_told = True
            self._events.add(*self._news())
            if self._events:
                return
        if self.state == ClassicState.PREPARING and not self._is_idle:
            self.state = ClassicState.JOINING
        elif self.state == ClassicState.CLOSING:
            self._go_out()

    def _news(self) -> list[MemberEvent]:
        """Return what the user must do before the member goes on."""
        if self._generation_id < 0:
            return self._protocol.lose()
        if self.state == ClassicState.CLOSING:
            return self._protocol.give_up()
        return self._protocol.before_join()

    def _due(self, now_ms: int) -> list[Ask]:
        if self.state == ClassicState.JOINING:
            return self._join_ask()
        if self.state == ClassicState.SYNCING:
            return self._sync_ask(now_ms)
        return []

    # -- requests -------------------------------------------------------------------------------

    def _ask(
        self,
        link: Link,
        request: Message,
        response_class: type[Message],
        outcome: Outcome,
        timeout_ms: int,
    ) -> Ask:
        return self._asks.ask(link, request, response_class, outcome, self._error_of, timeout_ms)

    def _error_of(self, response: Any) -> BrokerError | None:
        return broker_error(response.error_code, subject=f"group {self._settings.group_id}")

    def _step(
        self,
        link: Link,
        request: Message,
        response_class: type[Message],
        read: Callable[[Any, int], None],
    ) -> Ask:
        """Return a request on the way into the group. A late response is ignored."""
        settings = self._settings
        self._attempt += 1
        self._is_asked = True
        attempt = self._attempt

        def outcome(response: Any, error: ClientError | None, now_ms: int) -> None:
            if attempt != self._attempt:
                self._joined_late(response, error)
                return
            self._is_asked = False
            if error is None:
                read(response, now_ms)
            else:
                self._refused(response, error, now_ms)

        timeout_ms = settings.max_poll_interval_ms + _ANSWER_EXTRA_MS
        timeout_ms = max(settings.request_timeout_ms, timeout_ms)
        return self._ask(link, request, response_class, outcome, timeout_ms)

    def _join_ask(self) -> list[Ask]:
        link = self._asks.link()
        if link is None:
            return []
        self._must_rejoin = False
        settings = self._settings
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.instance_id,
            protocol_type=self._protocol.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self._protocol.metadata()
            ],
        )
        return [self._step(link, request, JoinGroupResponse, self._read_join)]

    def _read_join(self, response: JoinGroupResponse, now_ms: int) -> None:
        self._joined = response
        self._member_id = response.member_id
        self._generation_id = response.generation_id
        self._beat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self.state = ClassicState.SYNCING

    def _sync_ask(self, now_ms: int) -> list[Ask]:
        """Send the assignments as the leader, or ask for the own one."""
        joined, link = self._joined, self._asks.link()
        if link is None:
            return []
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == self._member_id and not joined.skip_assignment:
            made = self._protocol.assign(joined.protocol_name or "", joined.members, now_ms)
            if made is None:
                return []
            assignments = [
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in made.items()
            ]
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=self._protocol.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        return [self._step(link, request, SyncGroupResponse, self._read_sync)]

    def _read_sync(self, response: SyncGroupResponse, _now_ms: int) -> None:
        self._backoff.succeeded()
        self.last_error = None
        self.loss = ""
        joined = Joined(
            self._generation_id,
            self._joined.protocol_name or "",
            self._joined.leader == self._member_id,
            response.assignment,
        )
        try:
            self._events.add(*self._protocol.adopt(joined))
        except ClientError as error:
            self._fail(error)
        else:
            self.state = ClassicState.ADOPTING

    def _refused(self, response: Any, error: ClientError, now_ms: int) -> None:
        """Act upon an error of a request to join or to sync."""
        self.last_error = error
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        elif code in _FORGOTTEN:
            self._lose(keeps_id=code == ErrorCode.ILLEGAL_GENERATION)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.state = ClassicState.JOINING
        elif may_pass(error):
            self.state = ClassicState.JOINING
            self._retry_at_ms = now_ms + self._backoff.failed()
        else:
            self._fail(error)

    # -- heartbeats -----------------------------------------------------------------------------

    @property
    def _beats(self) -> bool:
        return self._generation_id >= 0 and self.state in _BEATING

    def _beat_ask(self, now_ms: int) -> list[Ask]:
        if not self._beats or self._is_beating or now_ms < self._beat_at_ms:
            return []
        link = self._asks.link()
        if link is None:
            return []
        settings = self._settings
        self._is_beating = True
        self._beat_at_ms = now_ms + settings.heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=settings.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=settings.instance_id,
        )
        who = self._generation_id, self._member_id

        def outcome(_response: Any, error: ClientError | None, at_ms: int) -> None:
            self._is_beating = False
            if error is not None and who == (self._generation_id, self._member_id):
                self._missed(error, at_ms)

        timeout_ms = min(settings.request_timeout_ms, settings.session_timeout_ms)
        return [self._ask(link, request, HeartbeatResponse, outcome, timeout_ms)]

    def _missed(self, error: ClientError, now_ms: int) -> None:
        """Act upon an error of a heartbeat of the current generation."""
        code = error.code if isinstance(error, BrokerError) else None
        if code in _FORGOTTEN:
            self._lose(keeps_id=code == ErrorCode.ILLEGAL_GENERATION)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._must_rejoin = True
        elif may_pass(error):
            pause_ms = min(self._settings.retry_backoff_ms, self._settings.heartbeat_interval_ms)
            self._beat_at_ms = now_ms + pause_ms
        else:
            self._fail(error)

    # -- the end of a generation ----------------------------------------------------------------

    def _lose(self, *, keeps_id: bool) -> None:
        """Note that the member is not in the generation any more, and begin again."""
        self._forget(keeps_id=keeps_id)
        self._enter(
            ClassicState.CLOSING if self.state == ClassicState.CLOSING else ClassicState.PREPARING
        )

    def _forget(self, *, keeps_id: bool) -> None:
        self._attempt += 1
        self._is_asked = False
        self._generation_id = _NO_GENERATION
        if not keeps_id:
            self._member_id = ""
        self._events.drop_waiting()

    def _become_idle(self) -> None:
        """Leave, because the user does not poll."""
        self.loss = self._interval.explanation
        self._is_idle = True
        if self._settings.instance_id is None:
            self._leavers += [self._member_id] if self._member_id else []
        self._lose(keeps_id=False)

    def _fail(self, error: ClientError) -> None:
        self.error = error
        self._forget(keeps_id=False)
        self._enter(ClassicState.FAILED)

    def _go_out(self) -> None:
        """Leave the group, after the user has been told."""
        if self._settings.instance_id is None and self._member_id:
            self._leavers.append(self._member_id)
        self._forget(keeps_id=False)
        self._is_idle = False
        self.state = ClassicState.LEAVING if self._leavers else ClassicState.OUTSIDE

    def _joined_late(self, response: Any, error: ClientError | None) -> None:
        """Take back a join that nobody waits for any more."""
        if error is not None or not isinstance(response, JoinGroupResponse):
            return
        if self._settings.instance_id is None and response.member_id != self._member_id:
            self._leavers.append(response.member_id)

    def _leave_ask(self) -> list[Ask]:
        """Tell the coordinator that a member has left. This is tried once."""
        if not self._leavers:
            return []
        link = self._asks.link()
        if link is None:
            return []
        member_id = self._leavers.pop(0)
        reason = self.loss or "the consumer is closed"
        request = LeaveGroupRequest(
            group_id=self._settings.group_id,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, reason=reason[:255])],
        )

        def outcome(_response: Any, _error: ClientError | None, _now_ms: int) -> None:
            if self.state == ClassicState.LEAVING and not self._leavers:
                self.state = ClassicState.OUTSIDE

        timeout_ms = self._settings.request_timeout_ms
        return [self._ask(link, request, LeaveGroupResponse, outcome, timeout_ms)]


_OUT = (
    ClassicState.OUTSIDE,
    ClassicState.CLOSING,
    ClassicState.LEAVING,
    ClassicState.FAILED,
)
_TELLING = (ClassicState.PREPARING, ClassicState.CLOSING, ClassicState.FAILED)
_BEATING = (
    ClassicState.PREPARING,
    ClassicState.SYNCING,
    ClassicState.ADOPTING,
    ClassicState.STABLE,
    ClassicState.CLOSING,
)
_FORGOTTEN = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
