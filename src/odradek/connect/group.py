"""The member of a worker in its group. A thread of its own sends the heartbeats, whatever the herder does.

    herder:  join ............ go_on ................ send_assignments .... go_on
    group:      Rebalancing ---^      (join) AssignWanted ---^   (sync) Assigned ---^

The group tells the herder what happens with events, and goes on when the herder has acted on them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from odradek.client.core.classic_member import ClassicMember
from odradek.client.core.member_events import Joined, Lost, MemberEvent, Revoked
from odradek.client.core.member_settings import MemberSettings
from odradek.client.core.routes import Routes
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import ClosedError
from odradek.client.shell.driver import Driver
from odradek.client.shell.keeper import Calls, Shell
from odradek.client.shell.settings import ConnectionSettings
from odradek.core.connect import herder_messages as m
from odradek.core.connect.group_protocol import PROTOCOL_TYPE
from odradek.wire.generated.join_group_response import JoinGroupResponseMember

Tell = Callable[[m.Event], None]
_RETRY_MS = 1_000
"""The pause after the group has refused this worker."""


class _Protocol:
    """The part of the member that knows what the herder wants. See `MemberProtocol`."""

    protocol_type = PROTOCOL_TYPE

    def __init__(self) -> None:
        self.wants_again = False
        self._metadata: list[tuple[str, bytes]] = []
        self._asked: tuple[str, dict[str, bytes]] | None = None
        self._made: Mapping[str, bytes] | None = None
        self._is_asked = False

    def prepare(self, metadata: Sequence[tuple[str, bytes]]) -> None:
        """Take the metadata of the next join."""
        self._metadata = list(metadata)

    def want_again(self) -> None:
        """Join again as soon as possible."""
        self.wants_again = True

    def wants_to_join_again(self, now_ms: int) -> bool:
        """See `MemberProtocol`."""
        return self.wants_again

    def before_join(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        return [Revoked(())]

    def give_up(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        return []

    def lose(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        return [Lost(())]

    def metadata(self) -> list[tuple[str, bytes]]:
        """See `MemberProtocol`."""
        self.wants_again = False
        self._asked = self._made = None
        self._is_asked = False
        return self._metadata

    def assign(
        self, protocol_name: str, members: Sequence[JoinGroupResponseMember], now_ms: int
    ) -> Mapping[str, bytes] | None:
        """See `MemberProtocol`. The herder makes the assignments."""
        if not self._is_asked:
            self._is_asked = True
            self._asked = protocol_name, {each.member_id: each.metadata for each in members}
        return self._made

    def take_asked(self) -> tuple[str, dict[str, bytes]] | None:
        """Return the protocol and the members for which assignments are wanted, once."""
        found, self._asked = self._asked, None
        return found

    def take_made(self, assignments: Mapping[str, bytes]) -> None:
        """Take the assignments."""
        self._made = assignments

    def adopt(self, joined: Joined) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        return [joined]

    def taken(self, event: MemberEvent) -> None:
        """See `MemberProtocol`."""

    def done(self, event: MemberEvent) -> None:
        """See `MemberProtocol`."""


class WorkerGroup(Shell):
    """See the module. `tell` is called in the thread of the group."""

    def __init__(
        self, connection: ConnectionSettings, settings: MemberSettings, tell: Tell
    ) -> None:
        self._routes = Routes(_random_number, request_timeout_ms=settings.request_timeout_ms)
        self._protocol = _Protocol()
        self._member = ClassicMember(self._routes, settings, self._protocol, _random_number)
        self._tell = tell
        self._taken: MemberEvent | None = None
        """The event that the herder works on."""
        self._wants_in = False
        self._join_at_ms = 0
        self._is_cut_off = False
        self._silence_ms = max(
            settings.session_timeout_ms - settings.heartbeat_interval_ms,
            settings.heartbeat_interval_ms,
        )
        driver = Driver(connection, self._routes, [self._member])
        super().__init__(driver, "Connect worker", caller_ms=0)

    # -- the herder -----------------------------------------------------------------------------

    def join(self) -> None:
        """Join the group, or join it again."""
        with self._lock:
            self._wants_in = True
            self._join_at_ms = 0
            self._protocol.want_again()
            self._keep()
        self._driver.wake_up.wake()

    def leave(self) -> None:
        """Leave the group. This does not wait."""
        with self._lock:
            self._wants_in = False
            self._member.leave()
        self._driver.wake_up.wake()

    def go_on(self, metadata: Sequence[tuple[str, bytes]]) -> None:
        """Go on after an event. The metadata are for the next join."""
        with self._lock:
            self._protocol.prepare(metadata)
            event, self._taken = self._taken, None
            if event is not None:
                self._member.done(event)
        self._driver.wake_up.wake()

    def send_assignments(self, generation: int, assignments: Mapping[str, bytes]) -> None:
        """Send the assignments of a generation, if it is still the present one."""
        with self._lock:
            if self._member.group_metadata.generation_id == generation:
                self._protocol.take_made(assignments)
        self._driver.wake_up.wake()

    def polled(self) -> None:
        """Note that the herder works."""
        with self._lock:
            self._member.polled(monotonic_ms())

    def close(self, timeout_s: float) -> None:
        """Leave the group, and close the connections."""
        self.leave()
        deadline = Deadline(round(timeout_s * 1000))
        with self._lock:
            self._wait_until(lambda: self._member.is_at_rest, deadline)
        self._end(ClosedError("the worker has left its group"))

    # -- the thread of the group ----------------------------------------------------------------

    def _has_work(self) -> bool:
        """See `Shell`."""
        return True

    def _has_calls(self) -> bool:
        """See `Shell`."""
        return False

    def _take_calls(self) -> list[Calls]:
        """See `Shell`. The herder is told what has happened."""
        with self._lock:
            news = self._news() if self._problem is None else []
        for each in news:
            self._tell(each)
        return []

    def _news(self) -> list[m.Event]:
        """Return what has happened. The caller has the lock."""
        now_ms, member = monotonic_ms(), self._member
        found: list[m.Event] = []
        if self._wants_in and member.is_at_rest and now_ms >= self._join_at_ms:
            self._join_at_ms = now_ms + _RETRY_MS
            member.join(now_ms)
            self._driver.wake_up.wake()
        event = member.take_event() if self._taken is None else None
        if event is not None:
            self._taken = event
            found.append(self._event(event))
        asked = self._protocol.take_asked()
        if asked is not None:
            identity = member.group_metadata
            found.append(m.AssignWanted(*asked, identity.member_id, identity.generation_id))
        heard_ms = member.heard_at_ms
        is_silent = heard_ms is not None and now_ms - heard_ms > self._silence_ms
        is_silent &= self._wants_in and not member.waits_for_others
        if is_silent and not self._is_cut_off:
            found.append(m.CoordinatorLost())
        self._is_cut_off = is_silent
        return found

    def _event(self, event: MemberEvent) -> m.Event:
        if isinstance(event, Joined):
            member_id = self._member.group_metadata.member_id
            return m.Assigned(event.protocol_name, member_id, event.generation_id, event.assignment)
        return m.Rebalancing(is_lost=isinstance(event, Lost))

    @property
    def problem(self) -> str | None:
        """Why the worker is not in the group; None if it is, or nothing is known."""
        with self._lock:
            error = self._member.error or self._member.last_error or self._routes.last_error
        return None if error is None else str(error)


def _random_number() -> int:
    return random.getrandbits(31)
