"""What members of a classic group agree on: the coordinator only passes it on.

`ClassicMember` joins groups of any protocol type. What its members send one another, and what an
assignment means, is up to a `MemberProtocol`. The consumer's own is `classic_subscription`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from odradek.client.core.member_events import Joined, MemberEvent
from odradek.wire.generated.join_group_response import JoinGroupResponseMember


class MemberProtocol(Protocol):
    """The part of a member that knows what is assigned."""

    @property
    def protocol_type(self) -> str:
        """Such as `consumer` or `connect`. All members of a group have the same."""
        ...

    def wants_to_join_again(self, now_ms: int) -> bool:
        """Whether this member has changed its mind, or as the leader sees that the assignment is outdated."""
        ...

    def before_join(self) -> list[MemberEvent]:
        """Return what the user must do before this member joins again."""
        ...

    def give_up(self) -> list[MemberEvent]:
        """Return what the user must do before this member leaves."""
        ...

    def lose(self) -> list[MemberEvent]:
        """Return what the user must do because this member is not in the group any more."""
        ...

    def metadata(self) -> list[tuple[str, bytes]]:
        """Return the protocols that this member supports, in its order of preference."""
        ...

    def assign(
        self, protocol_name: str, members: Sequence[JoinGroupResponseMember], now_ms: int
    ) -> Mapping[str, bytes] | None:
        """Make the assignments as the leader; None if something is still being asked for.

        Raises:
            ClientError: the metadata of a member cannot be read.
        """
        ...

    def adopt(self, joined: Joined) -> list[MemberEvent]:
        """Take an assignment. Return what the user must do.

        Raises:
            ClientError: the assignment cannot be read.
        """
        ...

    def taken(self, event: MemberEvent) -> None:
        """Note that the user begins to work on an event."""
        ...

    def done(self, event: MemberEvent) -> None:
        """Note that the user has answered an event."""
        ...


Assign = Callable[[str, Mapping[str, bytes]], Mapping[str, bytes]]
"""From the name of the protocol and the metadata of each member to the assignment of each member."""


class GivenProtocol:
    """A protocol of any type, with given metadata, and assignments that the user makes.

    The user gets each assignment as a `Joined`, and before each rebalance nothing: what it stops, and
    when, depends on the protocol.
    """

    def __init__(
        self, protocol_type: str, protocols: Sequence[tuple[str, bytes]], assign: Assign
    ) -> None:
        self._protocol_type = protocol_type
        self._protocols = list(protocols)
        self._assign = assign
        self._has_changed = False

    @property
    def protocol_type(self) -> str:
        """See `MemberProtocol`."""
        return self._protocol_type

    def change(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Join again with other metadata."""
        self._protocols = list(protocols)
        self._has_changed = True

    def wants_to_join_again(self, now_ms: int) -> bool:
        """See `MemberProtocol`."""
        return self._has_changed

    def before_join(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        return []

    def give_up(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        return []

    def lose(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        return []

    def metadata(self) -> list[tuple[str, bytes]]:
        """See `MemberProtocol`."""
        self._has_changed = False
        return self._protocols

    def assign(
        self, protocol_name: str, members: Sequence[JoinGroupResponseMember], now_ms: int
    ) -> Mapping[str, bytes]:
        """See `MemberProtocol`."""
        return self._assign(protocol_name, {each.member_id: each.metadata for each in members})

    def adopt(self, joined: Joined) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        return [joined]

    def taken(self, event: MemberEvent) -> None:
        """See `MemberProtocol`."""

    def done(self, event: MemberEvent) -> None:
        """See `MemberProtocol`."""
