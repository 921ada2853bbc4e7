"""What consumer groups and Streams groups have in common: members that commit offsets with their epoch."""

from __future__ import annotations

from typing import Protocol, TypeVar

from odradek.core.group.group import Committer, ExpiryBase
from odradek.core.group.modern.group import EpochGroup, EpochMember
from odradek.core.group.offset_store import since_commit
from odradek.model.errors import ApiError, ErrorCode

MEMBER_EPOCH_VERSION = 9
"""From this version on, OffsetCommit can have a member epoch."""


class CommittingMember(EpochMember, Protocol):
    """What a `CommittingGroup` uses of a member."""

    @property
    def member_epoch(self) -> int:
        """The current epoch of the member."""
        ...


MemberT = TypeVar("MemberT", bound=CommittingMember)
TargetT = TypeVar("TargetT")


class CommittingGroup(EpochGroup[MemberT, TargetT]):
    """A group with committed offsets, which a member may commit and fetch with its current epoch."""

    def stale(self, member: MemberT, why: str) -> ApiError:
        """Return the error for a stale epoch of a member."""
        return ApiError(ErrorCode.STALE_MEMBER_EPOCH, f"Member {member.member_id}: {why}.")

    def commits_with_old_requests(self, member: MemberT) -> bool:
        """Whether a member may commit with versions of OffsetCommit that have no member epoch."""
        return False

    def late_committer(self, committer: Committer) -> MemberT | None:
        """Return the member that commits with an earlier epoch: each partition must be validated.

        Return None if all partitions may be committed: with the member's current epoch, and by other
        clients while the group has no members. TxnOffsetCommit without a member id is always allowed.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, or the error of a stale epoch.
        """
        member_id, instance_id, epoch, is_transactional, api_version = committer
        if epoch < 0 and not self.members:
            return None
        if is_transactional and epoch == -1 and not member_id and instance_id is None:
            return None  # TxnOffsetCommit may have no member id
        member = self.member(member_id)
        is_old = not is_transactional and api_version < MEMBER_EPOCH_VERSION
        if is_old and not self.commits_with_old_requests(member):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if epoch == member.member_epoch:
            return None
        if epoch > member.member_epoch:
            raise self.stale(
                member, f"epoch {epoch} is ahead of the member's {member.member_epoch}"
            )
        return member

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See `Group`. A request with a member id must have the member's current epoch."""
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise self.stale(member, f"the member is in epoch {member.member_epoch}")

    def validate_offset_delete(self) -> None:
        """See `Group`. This is always allowed."""

    def offset_expiry_base(self) -> ExpiryBase | None:
        """See `Group`. The retention begins at the commit."""
        return since_commit
