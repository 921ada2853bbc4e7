"""Computes a member's next step towards its target assignment.

The algorithm is the same as in Apache Kafka's `CurrentAssignmentBuilder`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from odradek.core.group.consumer.group import NO_OWNER, ConsumerGroup
from odradek.core.group.consumer.member import ConsumerMember, HeldPartitions, MemberState
from odradek.core.group.modern.assignment import Assignment
from odradek.model.errors import ApiError, ErrorCode

STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS

Epochs = dict[bytes, dict[int, int]]


class OwnedTopic(Protocol):
    """The partitions of a topic that a member reports as owned."""

    topic_id: bytes
    partitions: list[int]


Owned = Iterable[OwnedTopic] | None
"""The partitions that a member reports as owned. None if its request has no such field."""


class Reconciliation:
    """One step of one member."""

    def __init__(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: Assignment,
        target_epoch: int,
        subscribed_ids: Collection[bytes],
        owned: Owned,
    ) -> None:
        """Prepare the step. `subscribed_ids` has the ids of the subscribed topics that exist."""
        self._group = group
        self._member = member
        self._target = target
        self._target_epoch = target_epoch
        self._subscribed_ids = subscribed_ids
        self._owned = owned

    def step(self, has_subscription_changed: bool) -> ConsumerMember:
        """Return the member after the step; the same object if there is nothing to do.

        Raises:
            ApiError: FENCED_MEMBER_EPOCH: the member must rejoin.
        """
        member = self._member
        if member.state is STABLE:
            if member.member_epoch != self._target_epoch:
                return self._next(member.member_epoch)
            return self._drop_unsubscribed() if has_subscription_changed else member
        if member.state is UNREVOKED:
            if self._owns_any(member.pending_revocation):
                return self._drop_unsubscribed() if has_subscription_changed else member
            return self._next(member.member_epoch)
        if member.state is UNRELEASED:
            return self._next(member.member_epoch)
        # A newer coordinator wrote an unknown state, so the member must revoke all partitions.
        if self._owned is None or any(True for _ in self._owned):
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "This coordinator does not know the state of the member. The member must rejoin.",
            )
        return self._next(self._target_epoch)

    def _owns_any(self, partitions: HeldPartitions) -> bool:
        """Return whether the member may still own one of the partitions.

        If the member has not reported its partitions, it may own them.
        """
        if self._owned is None:
            return True
        return any(
            partition in partitions.get(topic.topic_id, {})
            for topic in self._owned
            for partition in topic.partitions
        )

    def _drop_unsubscribed(self) -> ConsumerMember:
        """Remove unsubscribed topics from the assignment before there is a new target."""
        member = self._member
        gone = [each for each in member.assigned if each not in self._subscribed_ids]
        if not gone:
            return member
        kept = {t: held for t, held in member.assigned.items() if t in self._subscribed_ids}
        revoked: Epochs = {t: dict(held) for t, held in member.pending_revocation.items()}
        for topic_id in gone:
            revoked.setdefault(topic_id, {}).update(member.assigned[topic_id])
        if self._owns_any(revoked):
            return member.moved_to(member.member_epoch)._replace(
                state=UNREVOKED, assigned=kept, pending_revocation=revoked
            )
        return member.moved_to(member.member_epoch)._replace(assigned=kept)

    def _next(self, member_epoch: int) -> ConsumerMember:
        """Revoke the partitions that are not in the target.

        If no partition must be revoked, add the free partitions of the target. If the member must
        revoke partitions, its next epoch is `member_epoch`.
        """
        member = self._member
        assigned: Epochs = {}
        revoked: Epochs = {}
        free: dict[bytes, list[int]] = {}
        is_waiting = False
        for topic_id in dict.fromkeys((*self._target, *member.assigned)):
            held = member.assigned.get(topic_id, {})
            target = self._target.get(topic_id, frozenset())
            if topic_id not in self._subscribed_ids:
                target = frozenset()
            kept = {p: epoch for p, epoch in held.items() if p in target}
            gone = {p: epoch for p, epoch in held.items() if p not in target}
            wanted = [each for each in sorted(target) if each not in kept]
            available = [each for each in wanted if self._is_free(topic_id, each)]
            is_waiting = is_waiting or len(available) < len(wanted)
            if kept:
                assigned[topic_id] = kept
            if gone:
                revoked[topic_id] = gone
            if available:
                free[topic_id] = available
        if revoked and self._owns_any(revoked):
            return member.moved_to(member_epoch)._replace(
                state=UNREVOKED, assigned=assigned, pending_revocation=revoked
            )
        for topic_id, partitions in free.items():
            held_now = assigned.setdefault(topic_id, {})
            held_now.update(dict.fromkeys(partitions, self._target_epoch))
        return member.moved_to(self._target_epoch)._replace(
            state=UNRELEASED if is_waiting else STABLE, assigned=assigned, pending_revocation={}
        )

    def _is_free(self, topic_id: bytes, partition: int) -> bool:
        """Return whether the partition has no owner, or this member owns it and must revoke it."""
        if self._group.owner_epoch(topic_id, partition) == NO_OWNER:
            return True
        return partition in self._member.pending_revocation.get(topic_id, {})
