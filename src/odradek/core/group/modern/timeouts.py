"""The session and rebalance timeouts of the members of groups with server-side assignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.modern.group import EpochGroup
from odradek.core.group.state import GroupState

RETRY_MS = 500
"""Retry delay if the removal of a member could not be written."""

Key = tuple[str, str, str]
Result = CoordinatorResult[None]


class Keys(NamedTuple):
    """The keys of the timers of members in one type of groups, such as `consumer`."""

    type: str

    def session(self, group_id: str, member_id: str) -> Key:
        """The session timer. When it expires, a member that has sent no heartbeat is removed."""
        return (f"{self.type}-session", group_id, member_id)

    def rebalance(self, group_id: str, member_id: str) -> Key:
        """The timer for the revocation of partitions or tasks."""
        return (f"{self.type}-rebalance", group_id, member_id)

    def cancel_all(
        self, timers: TimerTable, journal: Journal, group_id: str, member_id: str
    ) -> None:
        """Cancel these timers of a member that records are about to remove."""
        timers.cancel_recorded(self.session(group_id, member_id), journal)
        timers.cancel_recorded(self.rebalance(group_id, member_id), journal)


class RevokingMember(Protocol):
    """What the rebalance timeout uses of a member."""

    @property
    def member_id(self) -> str:
        """The id of the member."""
        ...

    @property
    def member_epoch(self) -> int:
        """The current epoch of the member."""
        ...

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the member may take to revoke."""
        ...

    @property
    def must_revoke(self) -> bool:
        """Whether the member must revoke something before it gets a higher epoch."""
        ...


class Timeouts:
    """Starts the timers, and calls `dismiss(group_id, member_id, why)` when one has expired.

    `dismiss` removes the member if it still exists. `what` is what members revoke.
    """

    def __init__(
        self,
        state: GroupState,
        keys: Keys,
        what: str,
        dismiss: Callable[[str, str, str], Result],
    ) -> None:
        self._state = state
        self._keys = keys
        self._what = what
        self._dismiss = dismiss

    def expect_heartbeat(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start or restart the session timeout of a member."""
        self._state.timers.schedule(
            self._keys.session(group_id, member_id),
            timeout_ms,
            self._dismiss,
            group_id,
            member_id,
            "sent no heartbeat in time",
            retry_ms=RETRY_MS,
        )

    def expect_revocation(self, group_id: str, member: RevokingMember) -> None:
        """Start the rebalance timeout if the member must revoke something; otherwise cancel it."""
        key = self._keys.rebalance(group_id, member.member_id)
        if not member.must_revoke:
            self._state.timers.cancel(key)
            return
        self._state.timers.schedule(
            key,
            member.rebalance_timeout_ms,
            self.end_revocation,
            group_id,
            member.member_id,
            member.member_epoch,
            retry_ms=RETRY_MS,
        )

    def end_revocation(self, group_id: str, member_id: str, member_epoch: int) -> Result:
        """Remove the member if it is still in the same epoch after the rebalance timeout."""
        group = self._state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, EpochGroup) else None
        if member is None or member.member_epoch != member_epoch:
            return NOTHING
        return self._dismiss(group_id, member_id, f"did not revoke its {self._what} in time")
