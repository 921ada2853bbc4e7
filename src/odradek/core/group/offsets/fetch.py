"""Processes OffsetFetch, which returns committed offsets."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.core.group.group import Group
from odradek.core.group.offset_store import (
    INVALID_OFFSET,
    CommittedOffset,
    OffsetStore,
    PartitionOffsets,
)
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.uuids import ZERO
from odradek.wire.generated.offset_fetch_request import OffsetFetchRequestGroup
from odradek.wire.generated.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


class Fetch:
    """Processes OffsetFetch, one group per call."""

    def __init__(self, state: GroupState, store: OffsetStore) -> None:
        self._state = state
        self._store = store

    def fetch(
        self, request: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """Return the offsets of the requested partitions.

        If `topics` is null, return the offsets of all partitions. If the group does not exist, no
        partition has a committed offset.

        If `require_stable` is True, a partition with an offset in an open transaction gets the
        error UNSTABLE_OFFSET_COMMIT (KIP-447).

        Raises:
            ApiError: the member is unknown, or has another epoch.
        """
        group_id = request.group_id
        group = self._state.groups.get(group_id)
        if group is None:
            topics: Mapping[str, PartitionOffsets] = {}
        else:
            topics = self._validated(group, request)
        response = OffsetFetchResponseGroup(group_id=group_id)
        unstable = self._store.open.get(group_id, {}) if require_stable else {}
        if request.topics is None:
            for name, partitions in topics.items():
                pending = unstable.get(name, {})
                response.topics.append(
                    OffsetFetchResponseTopics(
                        name=name,
                        partitions=[
                            _unstable(index) if index in pending else _committed(index, offset)
                            for index, offset in partitions.items()
                        ],
                    )
                )
            return response
        for topic in request.topics:
            partitions = topics.get(topic.name, {})
            pending = unstable.get(topic.name, {})
            answers = []
            for index in topic.partition_indexes:
                offset = partitions.get(index)
                if index in pending:
                    answers.append(_unstable(index))
                elif offset is None or _is_of_another(offset.topic_id, topic.topic_id):
                    answers.append(_nothing(index))
                else:
                    answers.append(_committed(index, offset))
            response.topics.append(
                OffsetFetchResponseTopics(
                    name=topic.name, topic_id=topic.topic_id, partitions=answers
                )
            )
        return response

    def _validated(
        self, group: Group, request: OffsetFetchRequestGroup
    ) -> Mapping[str, PartitionOffsets]:
        """Return the offsets of a group; empty if the group never has offsets."""
        try:
            group.validate_offset_fetch(request.member_id, request.member_epoch)
        except ApiError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            raise
        return self._store.of_group(group.group_id)


def _is_of_another(committed: bytes, asked: bytes) -> bool:
    """Return whether the offset belongs to another topic with the same name.

    The arguments are the topic ids in the commit and in the request. Zero means unknown.
    """
    return committed not in (ZERO, asked) and asked != ZERO


def _committed(index: int, offset: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _nothing(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET)


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=INVALID_OFFSET,
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
