"""Creates and connects the parts of Streams groups."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.core.group.streams import description
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.heartbeat import StreamsHeartbeat
from odradek.core.group.streams.replay import StreamsReplay
from odradek.core.group.streams.targets import StreamsTargets
from odradek.model.errors import ErrorCode
from odradek.wire.generated.streams_group_describe_response import DescribedGroup


class StreamsProtocol:
    """The parts of Streams groups, for use by the group machine.

    `heartbeat` processes requests of members, `replay` applies records.
    """

    def __init__(self, state: GroupState, topics: Topics) -> None:
        self._state = state
        self._heartbeat = StreamsHeartbeat(state, topics, StreamsTargets(state))
        self.heartbeat = self._heartbeat.heartbeat
        self.replay = StreamsReplay(state)

    def on_loaded(self) -> None:
        """Start the members' timeouts, because the log is loaded."""
        for group in self._state.groups.values():
            if isinstance(group, StreamsGroup):
                self._heartbeat.on_loaded(group)

    def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Process StreamsGroupDescribe. Groups of other types get the error of missing groups."""
        found = []
        for group_id in group_ids:
            group = self._state.groups.get(group_id)
            if isinstance(group, StreamsGroup):
                found.append(description.describe(group))
                continue
            what = "not found" if group is None else "not a streams group"
            found.append(
                DescribedGroup(
                    group_id=group_id,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} is {what}.",
                )
            )
        return found
