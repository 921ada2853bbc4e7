"""The parts of the consumer protocol, put together."""

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
from odradek.core.group.consumer.topics import Topics
from odradek.core.group.state import GroupState
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage


class ConsumerProtocol:
    """For the machine: `heartbeat` and `classic_members` decide, `replay` takes records."""

    def __init__(self, state: GroupState, rebalance: Rebalance) -> None:
        self._state = state
        self._topics = Topics(state)
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
        """The log is replayed; members have to send heartbeats."""
        self._topics.on_loaded()
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup):
                self._progress.on_loaded(group)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Groups that read a topic that has changed look at it with their next heartbeat."""
        groups = [each for each in self._state.groups.values() if isinstance(each, ConsumerGroup)]
        if not groups:  # as in most partitions: do not look at thousands of topics in each
            self._topics.forget()
            return
        changed = self._topics.on_metadata(delta, image)
        for group in groups:
            if not changed.isdisjoint(group.topic_counts):
                group.request_metadata_refresh()
