"""Changes members step by step towards their target assignment, and fences members after timeouts.

A member is fenced if it sends no heartbeats or does not revoke partitions in time. A member with
the classic protocol is also fenced if it does not send JoinGroup or SyncGroup in time. The
operation of a timer checks whether the member still exists.
"""

from __future__ import annotations

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.consumer import keys, records
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.leaving import Leaving
from odradek.core.group.consumer.member import ConsumerMember
from odradek.core.group.consumer.reconcile import Owned, Reconciliation
from odradek.core.group.consumer.targets import Target
from odradek.core.group.modern.timeouts import RETRY_MS, Timeouts
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState

Result = CoordinatorResult[None]


class Progress:
    """The steps and timeouts of members."""

    def __init__(self, state: GroupState, topics: Topics, leaving: Leaving) -> None:
        self._state = state
        self._topics = topics
        self._leaving = leaving
        self._timeouts = Timeouts(state, keys.MEMBERS, "partitions", self.dismiss)

    def step(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: Target,
        has_subscription_changed: bool,
        owned: Owned,
        log: list[CoordinatorRecord],
    ) -> ConsumerMember:
        """Return the member after its next step towards the target assignment.

        Append a record to `log` if the member has changed.

        Raises:
            ApiError: FENCED_MEMBER_EPOCH: the member must rejoin.
        """
        target_epoch, assignment = target
        if not has_subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        subscribed_ids = self._topics.ids_of(group.subscribed_topics(member))
        after = Reconciliation(group, member, assignment, target_epoch, subscribed_ids, owned).step(
            has_subscription_changed
        )
        if after != member:
            log.append(records.current_assignment(group.group_id, after))
            if not after.uses_classic_protocol:
                self._timeouts.expect_revocation(group.group_id, after)
        return after

    # -- timeouts -------------------------------------------------------------------------------

    def on_loaded(self, group: ConsumerGroup) -> None:
        """Start the timeouts of all members."""
        for member in group.members.values():
            self.expect_heartbeat(group.group_id, member.member_id)
            if member.must_revoke:
                self._timeouts.expect_revocation(group.group_id, member)

    def expect_heartbeat(
        self, group_id: str, member_id: str, timeout_ms: int | None = None
    ) -> None:
        """Start or restart the session timeout of a member.

        `timeout_ms` is the timeout from JoinGroup if the member uses the classic protocol. The
        default is the group's setting.
        """
        if timeout_ms is None:
            timeout_ms = self._state.settings(group_id).consumer_session_timeout_ms
        self._timeouts.expect_heartbeat(group_id, member_id, timeout_ms)

    def expect_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start the rebalance timeout of a classic member that must rejoin.

        If the timeout is running already, it is not restarted.
        """
        key = keys.join(group_id, member.member_id)
        if key not in self._state.timers:
            self._state.timers.schedule(
                key,
                member.rebalance_timeout_ms,
                self.dismiss,
                group_id,
                member.member_id,
                "did not join again in time",
                retry_ms=RETRY_MS,
            )

    def expect_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start the rebalance timeout of a classic member that must send SyncGroup."""
        self._state.timers.schedule(
            keys.sync(group_id, member_id),
            timeout_ms,
            self.dismiss,
            group_id,
            member_id,
            "did not send SyncGroup in time",
            retry_ms=RETRY_MS,
        )

    def dismiss(self, group_id: str, member_id: str, why: str) -> Result:
        """Fence a member, if it still exists."""
        group = self._state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None:
            return NOTHING
        assert isinstance(group, ConsumerGroup)
        self._state.note(group_id, f"{member_id} {why}")
        return self._leaving.remove(group, [member], None)
