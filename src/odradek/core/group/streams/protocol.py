"""Creates and connects the parts of Streams groups."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.modern.describing import described
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.core.group.streams import description
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.heartbeat import StreamsHeartbeat
from odradek.core.group.streams.replay import StreamsReplay
from odradek.core.group.streams.targets import StreamsTargets
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
        return described(
            self._state,
            group_ids,
            StreamsGroup,
            description.describe,
            DescribedGroup,
        )
