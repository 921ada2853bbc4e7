"""Processes OffsetCommit and TxnOffsetCommit."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import CoordinatorResult, PackedResult
from odradek.core.group.classic.group import ClassicGroup, ClassicState
from odradek.core.group.classic.rebalance import Rebalance
from odradek.core.group.group import Committer, ValidatePartition
from odradek.core.group.offset_store import CommittedOffset
from odradek.core.group.offsets.quick_commits import FindPlace, key_prefix, pack_commit
from odradek.core.group.records import offset_commit
from odradek.core.group.state import GroupState
from odradek.core.metadata.image import TopicImage
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.offset_commit_request import OffsetCommitRequest
from odradek.wire.generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.generated.offset_commit_value import OffsetCommitValue
from odradek.wire.generated.txn_offset_commit_request import TxnOffsetCommitRequest
from odradek.wire.generated.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

GROUP_NOT_FOUND_VERSION = 9
"""From this version on, OffsetCommit returns GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION."""
EXACT_TRANSACTION_ERRORS_VERSION = 6
"""From this version on, TxnOffsetCommit returns GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH instead of
ILLEGAL_GENERATION (KIP-1319)."""

_LATEST_MS = 2**63 - 1
_TOO_LARGE = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)


class Commit:
    """Processes commits. The request handlers have checked before that the topics exist."""

    def __init__(self, state: GroupState, rebalance: Rebalance, find_place: FindPlace) -> None:
        self._state = state
        self._rebalance = rebalance
        self._find_place = find_place

    def commit(
        self, request: OffsetCommitRequest, api_version: int
    ) -> CoordinatorResult[OffsetCommitResponse]:
        """Process OffsetCommit.

        Raises:
            ApiError: the member may not commit. Then no offset is stored.
        """
        group_id = request.group_id
        committer = Committer(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            False,
            api_version,
        )
        validate = self._validate(group_id, committer)
        now_ms = self._state.clock.now_ms()
        metadata_max = self._state.config.offset_metadata_max_bytes
        retention_ms = request.retention_time_ms
        expire_ms = -1 if retention_ms == -1 else min(now_ms + retention_ms, _LATEST_MS)
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            name, topic_id = topic.name, topic.topic_id
            partitions = []
            for each in topic.partitions:
                index = each.partition_index
                metadata = each.committed_metadata or ""
                if len(metadata) > metadata_max:
                    partitions.append(
                        OffsetCommitResponsePartition(partition_index=index, error_code=_TOO_LARGE)
                    )
                    continue
                if validate is not None:
                    validate(name, topic_id, index)
                value = OffsetCommitValue(
                    offset=each.committed_offset,
                    leader_epoch=each.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    expire_timestamp=expire_ms,
                    topic_id=topic_id,
                )
                records.append(offset_commit(group_id, name, index, value))
                partitions.append(OffsetCommitResponsePartition(partition_index=index))
            if partitions:
                topics.append(
                    OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
                )
        self._state.offset_counts.on_committed(len(records))
        return CoordinatorResult(records, OffsetCommitResponse(topics=topics))

    def commit_usual(
        self,
        group_id: str,
        committer: Committer,
        topic: TopicImage,
        partitions: Sequence[tuple[int, int, int]],
    ) -> PackedResult:
        """Store offsets of one topic, without metadata. This is the fast path of OffsetCommit.

        `partitions` has the partition, the offset and the leader epoch of each commit.

        Raises:
            ApiError: the member may not commit. Then no offset is stored.
        """
        state, name, topic_id = self._state, topic.name, topic.id
        validate = self._validate(group_id, committer)
        now_ms = state.clock.now_ms()
        prefix = key_prefix(group_id, name)
        records = []
        for index, offset, leader_epoch in partitions:
            if validate is not None:
                validate(name, topic_id, index)
            records.append(pack_commit(prefix, index, offset, leader_epoch, now_ms, topic_id))

        state.offset_counts.on_committed(len(records))

        def replay(record_offset: int) -> None:
            place = self._find_place(group_id, name)
            for index, offset, leader_epoch in partitions:
                committed = CommittedOffset(
                    record_offset, offset, leader_epoch, "", now_ms, -1, topic_id
                )
                state.journal.put(place, index, committed)
                record_offset += 1

        return records, replay

    def _validate(self, group_id: str, committer: Committer) -> ValidatePartition | None:
        group = self._state.groups.get(group_id)
        if group is None:
            if committer.generation_or_epoch < 0:
                return None  # the replay of the commit creates a group that only stores offsets
            if committer.api_version >= GROUP_NOT_FOUND_VERSION:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        validate = group.validate_offset_commit(committer)
        if isinstance(group, ClassicGroup) and group.state in (
            ClassicState.STABLE,
            ClassicState.PREPARING_REBALANCE,
        ):
            self._rebalance.expect_heartbeat(group, group.members[committer.member_id])
        return validate

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """Process TxnOffsetCommit. The offsets become visible when the transaction is committed.

        Raises:
            ApiError: the member may not commit. Then no offset is stored.
        """
        group_id = request.group_id
        try:
            validate = self._validate_in_transaction(request, api_version)
            now_ms = self._state.clock.now_ms()
            metadata_max = self._state.config.offset_metadata_max_bytes
            records: list[CoordinatorRecord] = []
            response = TxnOffsetCommitResponse()
            for topic in request.topics:
                topic_id = topic.topic_id
                result = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic_id)
                response.topics.append(result)
                for each in topic.partitions:
                    answer = TxnOffsetCommitResponsePartition(partition_index=each.partition_index)
                    result.partitions.append(answer)
                    metadata = each.committed_metadata or ""
                    if len(metadata) > metadata_max:
                        answer.error_code = _TOO_LARGE
                        continue
                    if validate is not None:
                        validate(topic.name, topic_id, each.partition_index)
                    value = OffsetCommitValue(
                        offset=each.committed_offset,
                        leader_epoch=each.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now_ms,
                        topic_id=topic_id,
                    )
                    records.append(offset_commit(group_id, topic.name, each.partition_index, value))
        except ApiError as error:
            is_exact = api_version >= EXACT_TRANSACTION_ERRORS_VERSION
            if error.code is ErrorCode.STALE_MEMBER_EPOCH and not is_exact:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION) from error
            raise
        self._state.offset_counts.on_committed(len(records))
        return CoordinatorResult(records, response)

    def _validate_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> ValidatePartition | None:
        group = self._state.groups.get(request.group_id)
        if group is None:
            if request.generation_id_or_member_epoch < 0:
                return None
            if api_version >= EXACT_TRANSACTION_ERRORS_VERSION:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        epoch = request.generation_id_or_member_epoch
        return group.validate_offset_commit(
            Committer(request.member_id, request.group_instance_id, epoch, True, api_version)
        )
