"""Creates and connects the parts of the consumer protocol."""

from __future__ import annotations

from odradek.core.group.classic.rebalance import Rebalance
from odradek.core.group.consumer.classic_members import ClassicMembers
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.heartbeat import Heartbeat
from odradek.core.group.consumer.joining import Joining
from odradek.core.group.consumer.leaving import Leaving
from odradek.core.group.consumer.migration import Migration
from odradek.core.group.consumer.patterns import Patterns
from odradek.core.group.consumer.progress import Progress
from odradek.core.group.consumer.replay import Replay
from odradek.core.group.consumer.targets import Targets
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState


class ConsumerProtocol:
    """The parts of the consumer protocol, for use by the group machine.

    `heartbeat` and `classic_members` process requests, `replay` applies records.
    """

    def __init__(self, state: GroupState, topics: Topics, rebalance: Rebalance) -> None:
        self._state = state
        self._topics = topics
        self.targets = Targets(state, self._topics)
        migration = Migration(state, self._topics, rebalance)
        leaving = Leaving(state, self._topics, migration)
        self._progress = Progress(state, self._topics, leaving)
        joining = Joining(state, self._topics, Patterns(state, self._topics))
        parts = (state, migration, joining, self.targets, self._progress, leaving)
        self.heartbeat = Heartbeat(*parts).heartbeat
        self.classic_members = ClassicMembers(*parts)
        self.replay = Replay(state)

    def on_loaded(self) -> None:
        """Start the members' session timeouts, because the log is loaded."""
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup):
                self._progress.on_loaded(group)
