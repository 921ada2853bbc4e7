"""A member of a group whose coordinator assigns the work, by heartbeats (KIP-848, KIP-1071).

    outside --join--> joining --> stable <--> reconciling --> acknowledging --> stable
                         ^           |             |
                         |           +---fenced, or the user does not poll--> lost
                         +--------------the user has been told-----------------+

    any --leave--> closing --> leaving --> outside        any --refused for good--> failed
    reconciling, lost, closing: the user works on events (`take_event`, `done`)

Each heartbeat carries the epoch of the member, and of the other fields only those that have changed since
the coordinator last answered; all of them after an error, and when joining. A response to a heartbeat of
an earlier epoch is ignored. One reconciliation is done at a time, first what is revoked, then what is
new; then the coordinator is told at once. If the target changes, what the user has not been told yet is
compared again.

The member id is made by the client, and kept. If the user does not poll for `max_poll_interval_ms`, the
member leaves at once, and joins again when the user polls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.client.core.asks import Ask, may_pass
from odradek.client.core.backoff import RandomNumber
from odradek.client.core.coordinator_asks import OF_COORDINATOR
from odradek.client.core.group_member import GroupMember, MemberState
from odradek.client.core.member_events import Assigned, Lost, MemberEvent, Revoked
from odradek.client.core.member_settings import MemberSettings
from odradek.client.core.routes import Routes
from odradek.client.errors import BrokerError, ClientError, broker_error
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.primitives import Message

_FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_JOIN = 0
_LEAVE = -1
_LEAVE_FOR_A_WHILE = -2
"""The epoch of a static member that leaves: its partitions wait for it."""
Fields = dict[str, Any]
"""Fields of a heartbeat."""


_AT_ONCE = (MemberState.JOINING, MemberState.ACKNOWLEDGING, MemberState.LEAVING)


class HeartbeatMember(GroupMember):
    """One member of one group. Subclasses know what is assigned, and their heartbeats."""

    TELLING = (MemberState.LOST, MemberState.CLOSING, MemberState.FAILED)
    _response_class: type[Message]

    def __init__(
        self,
        routes: Routes,
        settings: MemberSettings,
        member_id: str,
        random: RandomNumber,
    ) -> None:
        """`member_id` is a new UUID."""
        super().__init__(routes, settings, random)
        self.assignment: frozenset[TopicPartition] = frozenset()
        """The partitions that the member has."""
        self._member_id = member_id
        self._epoch = _JOIN
        self._told: Fields = {}
        """The fields that the coordinator knows."""
        self._beat_every_ms = settings.heartbeat_interval_ms
        self._must_leave = False
        """Whether the coordinator must be told that an idle member has left."""
        self._may_hold_instance = False
        """Whether the coordinator may still have this member, with its instance id."""
        self._other_ms: int | None = None
        """When the next other request is due."""

    @property
    def may_commit(self) -> bool:
        """Whether the member is in the group."""
        return self._epoch > 0

    @property
    def waits_for_others(self) -> bool:
        """Never: the coordinator answers at once."""
        return False

    # -- what subclasses have -------------------------------------------------------------------

    def _differences(self, now_ms: int) -> list[MemberEvent] | None:
        """Return what the user must do to get to the target.

        An empty list: nothing, but the coordinator must be told what the member has. None: nothing.
        """
        raise NotImplementedError

    def _request(self, epoch: int, now_ms: int, *, is_leaving: bool) -> tuple[Message, Fields]:
        """Return a heartbeat, and the fields that the coordinator knows if it answers."""
        raise NotImplementedError

    def _take(self, response: Any, now_ms: int) -> bool:
        """Take the target from a response. Return whether it has changed."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Forget the target, because the member begins again."""
        raise NotImplementedError

    def _other_asks(self, now_ms: int) -> tuple[list[Ask], int | None]:
        """Return other requests that are due, and when the next one is."""
        return [], None

    def _beat_soon(self) -> None:
        """Tell the coordinator of what has changed."""
        self._beat_at_ms = 0

    # -- the user -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """See `GroupMember`."""
        self._begin_again()

    def _taken(self, event: MemberEvent) -> None:
        """See `GroupMember`."""
        if isinstance(event, Assigned):
            self.assignment |= set(event.partitions)

    def _answered_event(self, event: MemberEvent) -> None:
        """See `GroupMember`."""
        if isinstance(event, Revoked | Lost):
            self.assignment -= set(event.partitions)

    # -- what is due ----------------------------------------------------------------------------

    def _due(self, now_ms: int) -> Iterator[Ask]:
        """See `GroupMember`."""
        others, self._other_ms = self._other_asks(now_ms)
        yield from others
        yield from self._beat_ask(now_ms)

    def _due_times(self, now_ms: int) -> list[int]:
        """See `GroupMember`."""
        due = [] if self._other_ms is None else [self._other_ms]
        if self._beats and not self._is_asked:
            due.append(max(self._retry_at_ms, 0 if self._is_urgent else self._beat_at_ms))
        return due

    def _advance(self, now_ms: int) -> None:
        """See `GroupMember`."""
        if self._events:
            return
        if self.state == MemberState.RECONCILING:
            self.state = MemberState.ACKNOWLEDGING
        if self.state == MemberState.STABLE:
            self._reconcile(now_ms)
        if self._tells() and self.assignment:
            is_timely = self.state == MemberState.CLOSING and self._epoch > 0
            some = tuple(sorted(self.assignment))
            self._events.add(Revoked(some) if is_timely else Lost(some))
            return
        if self.state == MemberState.LOST and not self._is_idle and not self._must_leave:
            self._begin_again()
        elif self.state == MemberState.CLOSING:
            self.state = MemberState.LEAVING if self._epoch > 0 else MemberState.OUTSIDE
            self._attempt += 1
            self._is_asked = False

    def _reconcile(self, now_ms: int) -> None:
        """Compare what the member has with what it should have."""
        events = self._differences(now_ms)
        if events:
            self.state = MemberState.RECONCILING
            self._events.add(*events)
        elif events is not None:
            self.state = MemberState.ACKNOWLEDGING

    def _begin_again(self) -> None:
        self._restart()
        self.state = MemberState.JOINING

    def _restart(self) -> None:
        """Forget what the coordinator has said and been told."""
        self._may_hold_instance |= self._epoch > 0 or self._is_asked
        self._attempt += 1
        self._is_asked = False
        self._epoch = _JOIN
        self._told = {}
        self._forget()

    # -- heartbeats -----------------------------------------------------------------------------

    @property
    def _beats(self) -> bool:
        if self.state == MemberState.CLOSING:  # the user works on what it gives up
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
        is_leaving = self._must_leave or self.state == MemberState.LEAVING
        epoch = self._epoch
        if is_leaving:
            epoch = _LEAVE if settings.instance_id is None else _LEAVE_FOR_A_WHILE
        request, fields = self._request(epoch, now_ms, is_leaving=is_leaving)
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
                self._response_class,
                outcome,
                self._error_of,
                timeout_ms,
            )
        ]

    def _error_of(self, response: Any) -> BrokerError | None:
        group = f"group {self._settings.group_id}"
        return broker_error(response.error_code, response.error_message, group)

    def _answered(self, response: Any, sent_in: MemberState, now_ms: int) -> None:
        self._backoff.succeeded()
        self.last_error = None
        self.loss = ""
        self._epoch = response.member_epoch
        self._member_id = response.member_id or self._member_id
        self._beat_every_ms = response.heartbeat_interval_ms
        self._beat_at_ms = now_ms + self._beat_every_ms
        if self._take(response, now_ms) and self.state == MemberState.RECONCILING:
            # The coordinator may have given to others what the user has not been told of yet.
            self._events.drop_waiting()
            if not self._events:
                self.state = MemberState.STABLE
        if self.state == sent_in and sent_in in (
            MemberState.JOINING,
            MemberState.ACKNOWLEDGING,
        ):
            self.state = MemberState.STABLE

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
        if self.state != MemberState.CLOSING:
            self._enter(MemberState.LOST)

    def _become_idle(self) -> None:
        """See `GroupMember`."""
        self._must_leave = self._epoch > 0 or self._is_asked
        self._lose()

    def _fail(self, error: ClientError) -> None:
        """See `GroupMember`."""
        self.error = error
        self._must_leave = False
        self._restart()
        self._may_hold_instance = False
        self._enter(MemberState.FAILED)

    def _left(self) -> None:
        """Go on after the coordinator has been told. This is tried once."""
        self._must_leave = False
        if self.state == MemberState.LEAVING:
            self._restart()
            self.state = MemberState.OUTSIDE


_MISSING_RIGHT = ErrorCode.TOPIC_AUTHORIZATION_FAILED
"""The user is told, and may get the right later."""
_BEATING = (
    MemberState.JOINING,
    MemberState.STABLE,
    MemberState.RECONCILING,
    MemberState.ACKNOWLEDGING,
    MemberState.LEAVING,
)
