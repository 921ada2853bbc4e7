"""Creates and connects the parts of Streams groups."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.group.group import Requester
from odradek.core.group.modern.describing import described
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.core.group.streams import description
from odradek.core.group.streams.descriptions import Descriptions
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.heartbeat import Outcome, StreamsHeartbeat
from odradek.core.group.streams.replay import StreamsReplay
from odradek.core.group.streams.targets import StreamsTargets
from odradek.wire.generated.streams_group_describe_response import DescribedGroup
from odradek.wire.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest


class StreamsProtocol:
    """The parts of Streams groups, for use by the group machine.

    `heartbeat` processes requests of members, `descriptions` has the descriptions of topologies, and
    `replay` applies records.
    """

    def __init__(self, state: GroupState, topics: Topics) -> None:
        self._state = state
        self.descriptions = Descriptions(state)
        self._heartbeat = StreamsHeartbeat(state, topics, StreamsTargets(state))
        self.replay = StreamsReplay(state, self.descriptions)

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, requester: Requester
    ) -> CoordinatorResult[Outcome]:
        """Process a heartbeat (see `StreamsHeartbeat`)."""
        result = self._heartbeat.heartbeat(request, requester)
        self.descriptions.ask(request, requester, result.response.response)
        return result

    def on_loaded(self) -> None:
        """Start the members' timeouts, because the log is loaded."""
        for group in self._state.groups.values():
            if isinstance(group, StreamsGroup):
                self._heartbeat.on_loaded(group)

    def describe(
        self, group_ids: Iterable[str], *, with_description: bool = False
    ) -> list[DescribedGroup]:
        """Process StreamsGroupDescribe. Groups of other types get the error of missing groups."""

        def describe(group: StreamsGroup) -> DescribedGroup:
            response = description.describe(group)
            if with_description:
                self.descriptions.attach(group, response)
            return response

        return described(self._state, group_ids, StreamsGroup, describe, DescribedGroup)
