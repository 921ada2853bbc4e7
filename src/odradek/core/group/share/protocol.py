"""Creates and connects the parts of share groups."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.modern.describing import described
from odradek.core.group.modern.topics import Topics
from odradek.core.group.share import description
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.heartbeat import ShareHeartbeat
from odradek.core.group.share.initialization import Initialization
from odradek.core.group.share.offsets import ShareOffsets
from odradek.core.group.share.replay import ShareReplay
from odradek.core.group.share.targets import ShareTargets
from odradek.core.group.state import GroupState
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
        return described(
            self._state,
            group_ids,
            ShareGroup,
            lambda group: description.describe(group, self._state.image.topics),
            DescribedGroup,
        )
