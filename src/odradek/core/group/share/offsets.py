"""Alters and deletes the start offsets of share groups, and deletes the share state of groups.

The start offsets are stored by the share coordinator. Each operation has two steps. The first step
checks the request, records what is done, and returns the request for the share coordinator. The
second step records the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NO_RECORDS, NOTHING, CoordinatorResult
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.initialization import Initialization, initialization_request
from odradek.core.group.share.state_partitions import TopicState, united
from odradek.core.group.state import GroupState
from odradek.core.metadata.image import TopicImage
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from odradek.wire.generated.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from odradek.wire.generated.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
)
from odradek.wire.generated.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponseTopic,
)
from odradek.wire.generated.delete_share_group_state_request import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    PartitionData,
)
from odradek.wire.generated.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
)

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Alteration(NamedTuple):
    """The response to AlterShareGroupOffsets if the share coordinator succeeds, and its request."""

    response: AlterShareGroupOffsetsResponse
    request: InitializeShareGroupStateRequest


class OffsetDeletion(NamedTuple):
    """The topics that cannot be deleted, and the request to the share coordinator for others."""

    failed: list[DeleteShareGroupOffsetsResponseTopic]
    request: DeleteShareGroupStateRequest | None


class StateDeletion(NamedTuple):
    """What must be deleted before groups are deleted."""

    requests: list[DeleteShareGroupStateRequest]
    refused: dict[str, ErrorCode]
    """The groups that have members."""


class ShareOffsets:
    """Implements AlterShareGroupOffsets, DeleteShareGroupOffsets and a part of DeleteGroups."""

    def __init__(self, state: GroupState, initialization: Initialization) -> None:
        self._state = state
        self._initialization = initialization

    # -- altering -------------------------------------------------------------------------------

    def alter(self, request: AlterShareGroupOffsetsRequest) -> CoordinatorResult[Alteration]:
        """Begin to initialize partitions again, with other start offsets.

        The group is created if it does not exist and a topic of the request exists.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        group_id = request.group_id
        group = self._state.groups.get(group_id)
        if group is None:
            group = ShareGroup(group_id, self._state.journal)  # registered by the replay
        if not isinstance(group, ShareGroup):
            raise _not_a_share_group(group_id)
        group.validate_delete()
        results: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
        initializing: dict[bytes, TopicState] = {}
        offsets: dict[bytes, dict[int, int]] = {}
        for asked in request.topics:
            topic = self._state.image.topics.by_name.get(asked.topic_name)
            result = _altered(asked, topic)
            results.setdefault(asked.topic_name, result)
            if results[asked.topic_name] is not result:  # the topic is listed twice
                results[asked.topic_name].partitions += result.partitions
            if topic is None:
                continue
            valid = offsets.setdefault(topic.id, {})
            for each in asked.partitions:
                if 0 <= each.partition_index < len(topic.partitions):
                    valid[each.partition_index] = each.start_offset
            now_ms = self._state.clock.now_ms()
            initializing[topic.id] = TopicState(topic.name, frozenset(valid), now_ms)
        log: list[CoordinatorRecord] = []
        self._initialization.record_begin(group, initializing, log)
        found = {topic_id: each for topic_id, each in offsets.items() if each}
        state_request = initialization_request(group_id, group.group_epoch, found)
        response = AlterShareGroupOffsetsResponse(responses=list(results.values()))
        return CoordinatorResult(log, Alteration(response, state_request))

    # -- deleting offsets -----------------------------------------------------------------------

    def begin_deletion(
        self, request: DeleteShareGroupOffsetsRequest
    ) -> CoordinatorResult[OffsetDeletion]:
        """Begin to delete the share state of topics.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        group = self._share_group(request.group_id)
        group.validate_delete()
        states = group.state_partitions
        if states is None:
            return CoordinatorResult(NO_RECORDS, OffsetDeletion([], None))
        failed: list[DeleteShareGroupOffsetsResponseTopic] = []
        found: dict[bytes, Collection[int]] = {}
        for asked in request.topics:
            topic = self._state.image.topics.by_name.get(asked.topic_name)
            known = None if topic is None else states.initialized.get(topic.id)
            if topic is not None and known is not None:
                found[topic.id] = sorted(known.partitions)
            elif topic is not None and topic.id in states.deleting:
                found[topic.id] = range(len(topic.partitions))
            else:
                message = _UNKNOWN.message
                if topic is not None:
                    message = "There is no offset information to delete."
                failed.append(
                    DeleteShareGroupOffsetsResponseTopic(
                        topic_name=asked.topic_name, error_code=_UNKNOWN, error_message=message
                    )
                )
        initialized = {key: each for key, each in states.initialized.items() if key not in found}
        after = states._replace(initialized=initialized, deleting=states.deleting.union(found))
        record = self._initialization.record(group.group_id, after)
        state_request = deletion_request(group.group_id, found) if found else None
        return CoordinatorResult((record,), OffsetDeletion(failed, state_request))

    def end_deletion(
        self, group_id: str, topic_ids: Iterable[bytes]
    ) -> CoordinatorResult[list[DeleteShareGroupOffsetsResponseTopic]]:
        """Record that the share state of topics is deleted; return their results."""
        topic_ids = list(topic_ids)
        group = self._state.groups.get(group_id)
        states = group.state_partitions if isinstance(group, ShareGroup) else None
        if states is None:
            return CoordinatorResult(NO_RECORDS, [])
        after = states._replace(deleting=states.deleting.difference(topic_ids))
        results = [
            DeleteShareGroupOffsetsResponseTopic(
                topic_id=topic_id, topic_name=self._initialization.name_of(topic_id)
            )
            for topic_id in topic_ids
        ]
        return CoordinatorResult((self._initialization.record(group_id, after),), results)

    # -- deleting groups ------------------------------------------------------------------------

    def begin_group_deletion(self, group_ids: Iterable[str]) -> CoordinatorResult[StateDeletion]:
        """Begin to delete the share state of groups. Groups of other types are ignored."""
        log: list[CoordinatorRecord] = []
        deletion = StateDeletion([], {})
        for group_id in group_ids:
            group = self._state.groups.get(group_id)
            if not isinstance(group, ShareGroup):
                continue
            if group.members:
                deletion.refused[group_id] = ErrorCode.NON_EMPTY_GROUP
                continue
            states = group.state_partitions
            if states is None:
                continue
            topics = united(states.initialized, states.initializing)
            topics = united(topics, self._existing(states.deleting))
            after = states._replace(initializing={}, initialized={}, deleting=frozenset(topics))
            log.append(self._initialization.record(group_id, after))
            if topics:
                partitions = {key: sorted(each.partitions) for key, each in topics.items()}
                deletion.requests.append(deletion_request(group_id, partitions))
        return CoordinatorResult(log, deletion)

    def _existing(self, topic_ids: Iterable[bytes]) -> dict[bytes, TopicState]:
        """Return all partitions of the topics that exist."""
        by_id = self._state.image.topics.by_id
        return {
            topic_id: TopicState(topic.name, frozenset(range(len(topic.partitions))), -1)
            for topic_id in topic_ids
            if (topic := by_id.get(topic_id)) is not None
        }

    def on_topics_deleted(self, topic_ids: Collection[bytes]) -> CoordinatorResult[None]:
        """Forget deleted topics. The share coordinator deletes their share state by itself."""
        log = []
        for group in self._state.groups.values():
            states = group.state_partitions if isinstance(group, ShareGroup) else None
            if states is not None:
                after = states.without_topics(topic_ids)
                if after != states:
                    log.append(self._initialization.record(group.group_id, after))
        if not log:
            return NOTHING
        return CoordinatorResult(log, None, atomic=False)

    # -- queries --------------------------------------------------------------------------------

    def initialized(self, group_id: str) -> dict[bytes, list[int]]:
        """Return the initialized partitions of a group; empty if it does not exist."""
        group = self._state.groups.get(group_id)
        states = group.state_partitions if isinstance(group, ShareGroup) else None
        if states is None:
            return {}
        return {key: sorted(each.partitions) for key, each in states.initialized.items()}

    def _share_group(self, group_id: str) -> ShareGroup:
        group = self._state.group(group_id)
        if not isinstance(group, ShareGroup):
            raise _not_a_share_group(group_id)
        return group


def _not_a_share_group(group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")


def _altered(
    asked: AlterShareGroupOffsetsRequestTopic, topic: TopicImage | None
) -> AlterShareGroupOffsetsResponseTopic:
    """Return the result of a topic if the share coordinator succeeds."""
    count = 0 if topic is None else len(topic.partitions)
    result = AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
    if topic is not None:
        result.topic_id = topic.id
    for each in asked.partitions:
        index = each.partition_index
        answer = AlterShareGroupOffsetsResponsePartition(partition_index=index)
        if not 0 <= index < count:
            answer.error_code, answer.error_message = _UNKNOWN, _UNKNOWN.message
        result.partitions.append(answer)
    return result


def deletion_request(
    group_id: str, partitions: Mapping[bytes, Iterable[int]]
) -> DeleteShareGroupStateRequest:
    """Return the request for the share coordinator."""
    return DeleteShareGroupStateRequest(
        group_id=group_id,
        topics=[
            DeleteStateData(
                topic_id=topic_id, partitions=[PartitionData(partition=each) for each in indexes]
            )
            for topic_id, indexes in partitions.items()
        ],
    )
