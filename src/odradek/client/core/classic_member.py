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

from collections.abc import Callable, Iterator
from typing import Any

from odradek.client.core.asks import Ask, Link, may_pass
from odradek.client.core.backoff import RandomNumber
from odradek.client.core.coordinator_asks import Outcome
from odradek.client.core.group_member import OUT, GroupMember, MemberState
from odradek.client.core.member_events import Joined, MemberEvent
from odradek.client.core.member_protocol import MemberProtocol
from odradek.client.core.member_settings import MemberSettings
from odradek.client.core.routes import Routes
from odradek.client.errors import BrokerError, ClientError, broker_error
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


class ClassicMember(GroupMember):
    """One member of one group."""

    TELLING = (MemberState.PREPARING, MemberState.CLOSING, MemberState.FAILED)

    def __init__(
        self,
        routes: Routes,
        settings: MemberSettings,
        protocol: MemberProtocol,
        random: RandomNumber,
    ) -> None:
        super().__init__(routes, settings, random)
        self.heard_at_ms: int | None = None
        """When the coordinator last answered a request to join or to sync, or a heartbeat."""
        self._protocol = protocol
        self._joined = JoinGroupResponse()
        """The response to the last join."""
        self._must_rejoin = False
        self._is_beating = False
        self._leavers: list[str] = []
        """The members for which LeaveGroup must be sent."""

    @property
    def may_commit(self) -> bool:
        """Whether the member is in a generation of the group."""
        return self._epoch >= 0

    @property
    def waits_for_others(self) -> bool:
        """Whether the coordinator has been asked for an assignment, and waits for other members."""
        return self._is_asked

    # -- the user -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """See `GroupMember`."""
        self._enter(MemberState.PREPARING)

    def leave(self) -> None:
        """See `GroupMember`."""
        if self.state not in OUT:
            self._attempt += 1
            self._is_asked = False
        super().leave()

    def _taken(self, event: MemberEvent) -> None:
        """See `GroupMember`."""
        self._protocol.taken(event)

    def _answered_event(self, event: MemberEvent) -> None:
        """See `GroupMember`."""
        self._protocol.done(event)

    # -- what is due ----------------------------------------------------------------------------

    def _due(self, now_ms: int) -> Iterator[Ask]:
        """See `GroupMember`."""
        yield from self._leave_ask()
        if not self._is_asked and now_ms >= self._retry_at_ms:
            if self.state == MemberState.JOINING:
                yield from self._join_ask()
            elif self.state == MemberState.SYNCING:
                yield from self._sync_ask(now_ms)
        yield from self._beat_ask(now_ms)

    def _due_times(self, now_ms: int) -> list[int]:
        """See `GroupMember`."""
        due = [self._beat_at_ms] if self._beats and not self._is_beating else []
        if now_ms < self._retry_at_ms and not self._is_asked:
            due.append(self._retry_at_ms)
        return due

    def _advance(self, now_ms: int) -> None:
        """See `GroupMember`."""
        if self._events:
            return
        if self.state == MemberState.ADOPTING:
            self.state = MemberState.STABLE
        if self.state == MemberState.STABLE and (
            self._must_rejoin or self._protocol.wants_to_join_again(now_ms)
        ):
            self._enter(MemberState.PREPARING)
        if self._tells():
            self._events.add(*self._news())
            if self._events:
                return
        if self.state == MemberState.PREPARING and not self._is_idle:
            self.state = MemberState.JOINING
        elif self.state == MemberState.CLOSING:
            self._go_out()

    def _news(self) -> list[MemberEvent]:
        """Return what the user must do before the member goes on."""
        if self._epoch < 0:
            return self._protocol.lose()
        if self.state == MemberState.CLOSING:
            return self._protocol.give_up()
        return self._protocol.before_join()

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
        timeout_ms: int,
    ) -> Ask:
        """Return a request on the way into the group. A late response is ignored."""
        self._attempt += 1
        self._is_asked = True
        attempt = self._attempt

        def outcome(response: Any, error: ClientError | None, now_ms: int) -> None:
            if error is None:
                self.heard_at_ms = now_ms
            if attempt != self._attempt:
                self._joined_late(response, error)
                return
            self._is_asked = False
            if error is None:
                read(response, now_ms)
            else:
                self._refused(response, error, now_ms)

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
        timeout_ms = settings.max_poll_interval_ms + _ANSWER_EXTRA_MS
        timeout_ms = max(settings.request_timeout_ms, timeout_ms)
        return [self._step(link, request, JoinGroupResponse, self._read_join, timeout_ms)]

    def _read_join(self, response: JoinGroupResponse, now_ms: int) -> None:
        self._joined = response
        self._member_id = response.member_id
        self._epoch = response.generation_id
        self._beat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self.state = MemberState.SYNCING

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
            generation_id=self._epoch,
            member_id=self._member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=self._protocol.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        timeout_ms = self._settings.request_timeout_ms
        return [self._step(link, request, SyncGroupResponse, self._read_sync, timeout_ms)]

    def _read_sync(self, response: SyncGroupResponse, _now_ms: int) -> None:
        self._backoff.succeeded()
        self.last_error = None
        self.loss = ""
        joined = Joined(
            self._epoch,
            self._joined.protocol_name or "",
            self._joined.leader == self._member_id,
            response.assignment,
        )
        try:
            self._events.add(*self._protocol.adopt(joined))
        except ClientError as error:
            self._fail(error)
        else:
            self.state = MemberState.ADOPTING

    def _refused(self, response: Any, error: ClientError, now_ms: int) -> None:
        """Act upon an error of a request to join or to sync."""
        self.last_error = error
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        elif code in _FORGOTTEN:
            self._lose(keeps_id=code == ErrorCode.ILLEGAL_GENERATION)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.state = MemberState.JOINING
        elif may_pass(error):
            self.state = MemberState.JOINING
            self._retry_at_ms = now_ms + self._backoff.failed()
        else:
            self._fail(error)

    # -- heartbeats -----------------------------------------------------------------------------

    @property
    def _beats(self) -> bool:
        return self._epoch >= 0 and self.state in _BEATING

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
            generation_id=self._epoch,
            member_id=self._member_id,
            group_instance_id=settings.instance_id,
        )
        who = self._epoch, self._member_id

        def outcome(response: Any, error: ClientError | None, at_ms: int) -> None:
            self._is_beating = False
            if response is not None and (error is None or not may_pass(error)):
                self.heard_at_ms = at_ms
            if error is not None and who == (self._epoch, self._member_id):
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
            MemberState.CLOSING if self.state == MemberState.CLOSING else MemberState.PREPARING
        )

    def _forget(self, *, keeps_id: bool) -> None:
        self._attempt += 1
        self._is_asked = False
        self._epoch = _NO_GENERATION
        if not keeps_id:
            self._member_id = ""
        self._events.drop_waiting()

    def _become_idle(self) -> None:
        """See `GroupMember`."""
        if self._settings.instance_id is None:
            self._leavers += [self._member_id] if self._member_id else []
        self._lose(keeps_id=False)

    def _fail(self, error: ClientError) -> None:
        """See `GroupMember`."""
        self.error = error
        self._forget(keeps_id=False)
        self._enter(MemberState.FAILED)

    def _go_out(self) -> None:
        """Leave the group, after the user has been told."""
        if self._settings.instance_id is None and self._member_id:
            self._leavers.append(self._member_id)
        self._forget(keeps_id=False)
        self._is_idle = False
        self.state = MemberState.LEAVING if self._leavers else MemberState.OUTSIDE

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
            if self.state == MemberState.LEAVING and not self._leavers:
                self.state = MemberState.OUTSIDE

        timeout_ms = self._settings.request_timeout_ms
        return [self._ask(link, request, LeaveGroupResponse, outcome, timeout_ms)]


_BEATING = (
    MemberState.PREPARING,
    MemberState.SYNCING,
    MemberState.ADOPTING,
    MemberState.STABLE,
    MemberState.CLOSING,
)
_FORGOTTEN = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
