"""Initializes the share state of partitions before they are assigned to members.

A heartbeat records the partitions as initializing, and returns the request for the share
coordinator. If the share coordinator has not answered after
`group.share.initialize.retry.interval.ms`, the next heartbeat repeats the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.share import records
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.state_partitions import (
    Partitions,
    StatePartitions,
    Topics,
    TopicState,
    newer,
    united,
)
from odradek.core.group.state import GroupState
from odradek.wire.generated.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)

NO_OFFSET: Final = -1
"""As the start offset: `share.auto.offset.reset` determines it."""
FIRST_OFFSET: Final = 0
"""The start offset of a partition that is added to a topic which the group consumes already: with
`share.auto.offset.reset=latest`, the records produced before the next heartbeat would be lost."""
UNKNOWN_NAME: Final = "<UNKNOWN>"
"""The name of a deleted topic in a record."""


class Initialization:
    """Records which partitions are initializing and initialized."""

    def __init__(self, state: GroupState) -> None:
        self._state = state

    def begin(
        self,
        group: ShareGroup,
        group_epoch: int,
        topic_names: Iterable[str],
        log: list[CoordinatorRecord],
    ) -> InitializeShareGroupStateRequest | None:
        """Begin to initialize the partitions of subscribed topics that have no share state.

        Append a record to `log`, and return the request for the share coordinator. Return None if
        there are no such partitions.
        """
        topics = self._uninitialized(group.state_partitions, topic_names)
        if not topics:
            return None
        states = group.state_partitions or StatePartitions()
        consumed = states.initialized.keys() | states.initializing.keys()
        self.record_begin(group, topics, log)
        return initialization_request(
            group.group_id,
            group_epoch,
            {
                topic_id: dict.fromkeys(
                    sorted(topic.partitions), FIRST_OFFSET if topic_id in consumed else NO_OFFSET
                )
                for topic_id, topic in topics.items()
            },
        )

    def _uninitialized(
        self, states: StatePartitions | None, topic_names: Iterable[str]
    ) -> dict[bytes, TopicState]:
        now_ms = self._state.clock.now_ms()
        known: Topics = {}
        if states is not None:
            retry_ms = self._state.config.group_share_initialize_retry_interval_ms
            known = united(states.initialized, newer(states.initializing, now_ms - retry_ms))
        by_name = self._state.image.topics.by_name
        found = {}
        for name in topic_names:
            topic = by_name.get(name)
            if topic is None:
                continue
            before = known.get(topic.id)
            done = frozenset[int]() if before is None else before.partitions
            if len(done) < len(topic.partitions):
                missing = frozenset(range(len(topic.partitions))) - done
                found[topic.id] = TopicState(name, missing, now_ms)
        return found

    def record_begin(self, group: ShareGroup, topics: Topics, log: list[CoordinatorRecord]) -> None:
        """Append the record that partitions are initializing, if there are any topics."""
        if topics:
            states = group.state_partitions or StatePartitions()
            log.append(self.record(group.group_id, states.begun(topics)))

    def succeed(self, group_id: str, partitions: Partitions) -> CoordinatorResult[None]:
        """Record that the share coordinator has initialized partitions."""
        group = self._state.groups.get(group_id)
        if not partitions or not isinstance(group, ShareGroup):
            return NOTHING  # the group may have been deleted in the meantime
        now_ms = self._state.clock.now_ms()
        topics = {
            topic_id: TopicState(self.name_of(topic_id), frozenset(each), now_ms)
            for topic_id, each in partitions.items()
        }
        states = group.state_partitions or StatePartitions()
        return CoordinatorResult((self.record(group_id, states.ended(topics)),), None)

    def fail(self, group_id: str, partitions: Partitions) -> CoordinatorResult[None]:
        """Record that partitions are not initializing any more. The next heartbeat begins again."""
        group = self._state.groups.get(group_id)
        states = group.state_partitions if isinstance(group, ShareGroup) else None
        if states is None or not states.initializing or not partitions:
            return NOTHING
        return CoordinatorResult((self.record(group_id, states.failed(partitions)),), None)

    def record(self, group_id: str, states: StatePartitions) -> CoordinatorRecord:
        """Return the record of partitions with share state."""
        return records.state_partitions(group_id, states, self.name_of)

    def name_of(self, topic_id: bytes) -> str:
        """Return the name of a topic."""
        topic = self._state.image.topics.by_id.get(topic_id)
        return UNKNOWN_NAME if topic is None else topic.name


def initialization_request(
    group_id: str, state_epoch: int, offsets: Mapping[bytes, Mapping[int, int]]
) -> InitializeShareGroupStateRequest:
    """Return the request for the share coordinator. `offsets` has the start offsets."""
    return InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[
            InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    PartitionData(partition=index, state_epoch=state_epoch, start_offset=offset)
                    for index, offset in partitions.items()
                ],
            )
            for topic_id, partitions in offsets.items()
        ],
    )
