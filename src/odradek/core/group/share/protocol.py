"""Creates and connects the parts of share groups."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.modern.topics import Topics
from odradek.core.group.share import description
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.heartbeat import ShareHeartbeat
from odradek.core.group.share.initialization import Initialization
from odradek.core.group.share.offsets import ShareOffsets
from odradek.core.group.share.replay import ShareReplay
from odradek.core.group.share.targets import ShareTargets
from odradek.core.group.state import GroupState
from odradek.model.errors import ErrorCode
from odradek.wire.generated.share_group_describe_response import DescribedGroup


class ShareProtocol:
    """The parts of share groups, for use by the group machine.

    `heartbeat`, `offsets` and `initialization` process requests, `replay` applies records.
    """

    def __init__(self, state: GroupState, topics: Topics) -> None:
        self._state = state
        self.initialization = Initialization(state)
        self.offsets = ShareOffsets(state, self.initialization)
        targets = ShareTargets(state, topics)
        self._heartbeat = ShareHeartbeat(state, topics, targets, self.initialization)
        self.heartbeat = self._heartbeat.heartbeat
        self.replay = ShareReplay(state)

    def on_loaded(self) -> None:
        """Start the members' session timeouts, because the log is loaded."""
        for group in self._state.groups.values():
            if isinstance(group, ShareGroup):
                for member_id in group.members:
                    self._heartbeat.expect_heartbeat(group.group_id, member_id)

    def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Process ShareGroupDescribe. Groups of other types get the error of missing groups."""
        found = []
        for group_id in group_ids:
            group = self._state.groups.get(group_id)
            if isinstance(group, ShareGroup):
                found.append(description.describe(group, self._state.image.topics))
                continue
            what = "not found" if group is None else "not a share group"
            found.append(
                DescribedGroup(
                    group_id=group_id,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} is {what}.",
                )
            )
        return found
