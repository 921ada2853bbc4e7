"""The state of one share group."""

from __future__ import annotations

from typing import Final

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.group import Committer, ExpiryBase, GroupType, ValidatePartition
from odradek.core.group.modern.group import ModernGroup
from odradek.core.group.modern.subscriptions import TopicCount, adjust_all
from odradek.core.group.modern.timeouts import Keys
from odradek.core.group.share import records
from odradek.core.group.share.member import ShareMember
from odradek.core.group.share.state_partitions import StatePartitions
from odradek.model.errors import ApiError, ErrorCode

PROTOCOL_TYPE: Final = "share"
KEYS: Final = Keys("share")
STATES = EMPTY, STABLE = "Empty", "Stable"


class ShareGroup(ModernGroup[ShareMember]):
    """One group. It changes only by the replay of records."""

    type = GroupType.SHARE

    def __init__(self, group_id: str, journal: Journal) -> None:
        super().__init__(group_id, journal)
        self.state_partitions: StatePartitions | None = None
        """The partitions with share state. None if the log has no record of them."""

    # -- methods of `Group` ---------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """See `Group`."""
        return STABLE if self.members else EMPTY

    @property
    def protocol_type_name(self) -> str:
        """See `Group`."""
        return PROTOCOL_TYPE

    def validate_offset_commit(self, committer: Committer) -> ValidatePartition | None:
        """See `Group`. Share groups have no committed offsets."""
        raise self._not_a_consumer_group()

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See `Group`. Share groups have no committed offsets."""
        raise self._not_a_consumer_group()

    def validate_offset_delete(self) -> None:
        """See `Group`. Share groups have no committed offsets."""
        raise self._not_a_consumer_group()

    def _not_a_consumer_group(self) -> ApiError:
        message = f"Group {self.group_id} is not a consumer group."
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)

    def tombstones(self) -> list[CoordinatorRecord]:
        """See `Group`."""
        return records.group_tombstones(self.group_id, self.members)

    def cancel_timers(self, timers: TimerTable) -> None:
        """See `Group`."""
        for member_id in self.members:
            KEYS.cancel_all(timers, self._journal, self.group_id, member_id)

    def offset_expiry_base(self) -> ExpiryBase | None:
        """See `Group`. There are no offsets."""
        return None

    @property
    def expires(self) -> bool:
        """See `Group`. A share group has state even if it has no members."""
        return False

    # -- queries --------------------------------------------------------------------------------

    def topic_counts_with(
        self, before: ShareMember | None, after: ShareMember | None
    ) -> dict[str, TopicCount]:
        """Return the counts after `before` is replaced by `after`."""
        counts = dict(self.topic_counts)
        if before is not None:
            adjust_all(counts, before.topic_names, names=-1)
        if after is not None:
            adjust_all(counts, after.topic_names, names=1)
        return counts

    # -- replay ---------------------------------------------------------------------------------

    def update_member(self, member: ShareMember) -> None:
        """Add or replace a member."""
        self._put_member(member)

    def remove_member(self, member_id: str) -> None:
        """Remove a member."""
        self._drop_member(member_id)

    def set_state_partitions(self, partitions: StatePartitions | None) -> None:
        """Set the partitions with share state."""
        self._journal.assign(self, "state_partitions", partitions)
