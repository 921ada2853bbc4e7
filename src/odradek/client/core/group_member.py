"""What the members of all kinds of groups have in common: the user's events, the poll interval, an end.

    outside --join--> (the way into the group, which differs) --> stable

    any --leave--> closing --> leaving --> outside        any --refused for good--> failed

A member tells its user something by events (`take_event`, `done`), and goes on when all are answered. If
the user does not poll for `max_poll_interval_ms`, the member leaves, and joins again when the user polls.
A response to a request of an earlier attempt is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from odradek.client.core.asks import Ask
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.core.coordinator_asks import CoordinatorAsks
from odradek.client.core.member_events import Events, MemberEvent
from odradek.client.core.member_settings import MemberSettings, PollInterval
from odradek.client.core.routes import Routes
from odradek.client.errors import ClientError
from odradek.client.group_metadata import GroupMetadata


class MemberState(Enum):
    """Where a member is on its way to its assignment. Each kind of member has some of these states."""

    OUTSIDE = "outside"
    PREPARING = "preparing"
    JOINING = "joining"
    SYNCING = "syncing"
    ADOPTING = "adopting"
    STABLE = "stable"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    LOST = "lost"
    CLOSING = "closing"
    LEAVING = "leaving"
    FAILED = "failed"


OUT = (MemberState.OUTSIDE, MemberState.CLOSING, MemberState.LEAVING, MemberState.FAILED)
"""The states of a member that is outside of its group, or leaves it."""


class GroupMember:
    """One member of one group. Subclasses know the requests."""

    TELLING: tuple[MemberState, ...]
    """The states in which the user is told something first."""

    def __init__(self, routes: Routes, settings: MemberSettings, random: RandomNumber) -> None:
        self.state = MemberState.OUTSIDE
        self.error: ClientError | None = None
        """Why the member has failed."""
        self.last_error: ClientError | None = None
        """Why the last attempt to join, or the last heartbeat, has failed; None after a success."""
        self.loss = ""
        """Why the member is not in the group any more, if its user is the reason."""
        self.next_deadline_ms: int | None = None
        self._asks = CoordinatorAsks(routes, settings.group_id)
        self._settings = settings
        self._events = Events()
        self._has_told = False
        """Whether the events of this state have been added."""
        self._interval = PollInterval(settings.max_poll_interval_ms)
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_ms_max, random)
        self._retry_at_ms = 0
        self._member_id = ""
        self._epoch = -1
        """The generation, or the epoch of the member."""
        self._attempt = 0
        """Counts the times when the member began again. A response with an earlier number is late."""
        self._is_asked = False
        """Whether a request on the way into the group, or a heartbeat that leads there, is in flight."""
        self._beat_at_ms = 0
        self._is_idle = False
        """Whether the member has left because its user did not poll."""

    # -- what subclasses have -------------------------------------------------------------------

    @property
    def may_commit(self) -> bool:
        """Whether the member is in the group."""
        raise NotImplementedError

    @property
    def waits_for_others(self) -> bool:
        """Whether the coordinator has been asked for an assignment, and waits for other members."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Begin to join."""
        raise NotImplementedError

    def _become_idle(self) -> None:
        """Leave, because the user does not poll."""
        raise NotImplementedError

    def _advance(self, now_ms: int) -> None:
        """Go on, if the user has answered all events."""
        raise NotImplementedError

    def _due(self, now_ms: int) -> Iterator[Ask]:
        """Yield the requests that are due."""
        raise NotImplementedError

    def _due_times(self, now_ms: int) -> list[int]:
        """Return when `poll` must be called again, besides the end of the poll interval."""
        raise NotImplementedError

    def _fail(self, error: ClientError) -> None:
        """Give up for good."""
        raise NotImplementedError

    # -- what others see ------------------------------------------------------------------------

    @property
    def settings(self) -> MemberSettings:
        """The settings."""
        return self._settings

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for commits."""
        settings = self._settings
        if not self.may_commit:
            return GroupMetadata(settings.group_id)
        return GroupMetadata(settings.group_id, self._epoch, self._member_id, settings.instance_id)

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment."""
        return self.state == MemberState.STABLE

    @property
    def is_at_rest(self) -> bool:
        """Whether the member is outside of the group, and does not try to get in."""
        return self.state in (MemberState.OUTSIDE, MemberState.FAILED)

    # -- the user -------------------------------------------------------------------------------

    def join(self, now_ms: int) -> None:
        """Join the group, if the member is outside, or has failed."""
        if self.is_at_rest:
            self._interval.polled(now_ms)
            self.error = None
            self._begin()

    def polled(self, now_ms: int) -> None:
        """Note that the user polls."""
        self._interval.polled(now_ms)
        self._is_idle = False

    def leave(self) -> None:
        """Leave the group. The state is `OUTSIDE` in the end, after the user has answered all events."""
        if self.state not in OUT:
            self._enter(MemberState.CLOSING)

    def take_event(self) -> MemberEvent | None:
        """Return the next event for the user; None if there is none, or one is being worked on."""
        event = self._events.take()
        if event is not None:
            self._taken(event)
        return event

    def done(self, event: MemberEvent) -> None:
        """Note that the user has answered an event.

        Raises:
            ValueError: the user has not taken this event.
        """
        self._events.done(event)
        self._answered_event(event)

    def _taken(self, event: MemberEvent) -> None:
        """Note that the user begins to work on an event."""
        raise NotImplementedError

    def _answered_event(self, event: MemberEvent) -> None:
        """Note that the user has answered an event."""
        raise NotImplementedError

    # -- what is due ----------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        if self.state not in OUT and not self._is_idle and self._interval.is_over(now_ms):
            self.loss = self._interval.explanation
            self._is_idle = True
            self._become_idle()
        asks: list[Ask] = []
        try:
            self._advance(now_ms)
            asks.extend(self._due(now_ms))  # also those before an error
        except ClientError as error:  # of the look-up of the coordinator, or of another member
            self._fail(error)
            self._advance(now_ms)
        due = self._due_times(now_ms)
        interval_ms = self._interval.deadline_ms
        if self.state not in OUT and not self._is_idle and interval_ms is not None:
            due.append(interval_ms)
        self.next_deadline_ms = min(due, default=None)
        return asks

    def _enter(self, state: MemberState) -> None:
        """Go to a state in which the user is told something first."""
        self._events.drop_waiting()
        self.state = state
        self._has_told = False

    def _tells(self) -> bool:
        """Whether the user must be told something now. It is asked once in each state."""
        is_due = not self._has_told and self.state in self.TELLING
        self._has_told |= is_due
        return is_due
