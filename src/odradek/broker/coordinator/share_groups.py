"""Performs the operations of share groups that need the share coordinator.

The state machine of the group returns the request for the share coordinator. When its records are
committed, the request is passed to the `Persister`, and the results are reported to the state
machine. A heartbeat does not wait for the share coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.coordinator import settled
from odradek.broker.coordinator.shard import Shard
from odradek.broker.share.persister import Persister
from odradek.core.group.coordinator.machine import GroupMachine
from odradek.core.group.group import Requester
from odradek.core.group.share.heartbeat import Outcome, validate
from odradek.core.group.share.offsets import Alteration, OffsetDeletion, StateDeletion
from odradek.core.group.share.state_partitions import Partitions
from odradek.core.metadata.image import MetadataImage, TopicImage
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
)
from odradek.wire.generated.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
)
from odradek.wire.generated.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
)
from odradek.wire.generated.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from odradek.wire.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequestGroup,
)
from odradek.wire.generated.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from odradek.wire.generated.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
)
from odradek.wire.generated.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
)
from odradek.wire.generated.read_share_group_state_summary_request import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from odradek.wire.generated.read_share_group_state_summary_response import (
    PartitionResult as Summary,
)
from odradek.wire.generated.share_group_describe_response import DescribedGroup
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

log: Final = logging.getLogger("odradek.share")

NO_OFFSET: Final = -1
NO_LAG: Final = -1
INT64_MAX: Final = 2**63 - 1


LatestOffsets = Callable[
    [Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, int | ErrorCode]]
]
"""Returns the end offset of each partition for consumers, or an error."""


class ShareGroups:
    """The share groups that this broker coordinates. Use it only on the event loop's thread."""

    def __init__(
        self,
        shard: Callable[[str], Shard[GroupMachine]],
        persister: Persister,
        latest_offsets: LatestOffsets,
        image: Callable[[], MetadataImage],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`shard` returns the shard of a group, and `image` the newest metadata image."""
        self._shard = shard
        self._persister = persister
        self._latest_offsets = latest_offsets
        self._loop = loop
        self._image = image
        self._tasks: dict[asyncio.Task[None], None] = {}
        """The initializations that are in progress, in the order of their starts."""

    def close(self) -> None:
        """End the initializations. The next coordinator begins them again."""
        for task in self._tasks:
            task.cancel()

    # -- members ------------------------------------------------------------------------------

    async def heartbeat(
        self, context: RequestContext, request: ShareGroupHeartbeatRequest
    ) -> ShareGroupHeartbeatResponse:
        """Perform ShareGroupHeartbeat.

        Raises:
            ApiError: the request is rejected.
        """
        validate(request)
        client_id = context.client_id or ""
        requester = Requester(client_id, f"/{context.peer.host}", context.api_version)
        shard = self._shard(request.group_id)
        outcome: Outcome = await settled(
            shard.write(shard.machine.share.heartbeat, request, requester)
        )
        if outcome.initialization is not None:
            task = self._loop.create_task(self._initialize_later(outcome.initialization))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)
        return outcome.response

    async def _initialize_later(self, request: InitializeShareGroupStateRequest) -> None:
        try:
            await self._report(request.group_id, await self._persister.initialize(request))
        except ApiError as error:
            log.warning("group %s: partitions are not initialized: %s", request.group_id, error)

    async def _report(self, group_id: str, response: InitializeShareGroupStateResponse) -> None:
        """Report the result of an initialization. If a partition has failed, all have failed.

        Raises:
            ApiError: the result could not be written.
        """
        partitions: Partitions = {
            topic.topic_id: {each.partition for each in topic.partitions}
            for topic in response.results
        }
        code = _first_error(response.results)
        shard = self._shard(group_id)
        initialization = shard.machine.share.initialization
        if code == ErrorCode.NONE:
            await settled(shard.write(initialization.succeed, group_id, partitions))
        else:
            log.warning("group %s: partitions are not initialized: error %d", group_id, code)
            await settled(shard.write(initialization.fail, group_id, partitions))

    async def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Return one result of ShareGroupDescribe per group."""
        found: list[DescribedGroup] = []
        for group_id in group_ids:
            try:
                if not group_id:
                    raise ApiError(ErrorCode.INVALID_GROUP_ID)
                shard = self._shard(group_id)
                found += await settled(shard.read(shard.machine.share.describe((group_id,))))
            except ApiError as error:
                found.append(DescribedGroup(group_id=group_id, error_code=error.code))
        return found

    # -- offsets ------------------------------------------------------------------------------

    async def alter_offsets(
        self, request: AlterShareGroupOffsetsRequest
    ) -> AlterShareGroupOffsetsResponse:
        """Perform AlterShareGroupOffsets.

        Raises:
            ApiError: the request is rejected.
        """
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shard(request.group_id)
        alteration: Alteration = await settled(
            shard.write(shard.machine.share.offsets.alter, request)
        )
        response = alteration.response
        if not alteration.request.topics:
            return response
        initialized = await self._persister.initialize(alteration.request)
        if _first_error(initialized.results) == ErrorCode.NONE:
            await self._report(request.group_id, initialized)
            return response
        results = {
            (topic.topic_id, each.partition): each
            for topic in initialized.results
            for each in topic.partitions
        }
        for topic in response.responses:
            for partition in topic.partitions:
                result = results.get((topic.topic_id, partition.partition_index))
                if result is not None and partition.error_code == ErrorCode.NONE:
                    partition.error_code = result.error_code
                    partition.error_message = result.error_message
        return response

    async def delete_offsets(
        self, request: DeleteShareGroupOffsetsRequest
    ) -> DeleteShareGroupOffsetsResponse:
        """Perform DeleteShareGroupOffsets.

        Raises:
            ApiError: the request is rejected.
        """
        group_id = request.group_id
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shard(group_id)
        deletion: OffsetDeletion = await settled(
            shard.write(shard.machine.share.offsets.begin_deletion, request)
        )
        results = list(deletion.failed)
        if deletion.request is not None:
            deleted = []
            for topic in (await self._persister.delete(deletion.request)).results:
                code = _first_error((topic,))
                if code == ErrorCode.NONE:
                    deleted.append(topic.topic_id)
                    continue
                known = self._image().topics.by_id.get(topic.topic_id)
                results.append(
                    DeleteShareGroupOffsetsResponseTopic(
                        topic_id=topic.topic_id,
                        topic_name="" if known is None else known.name,
                        error_code=code,
                        error_message=ErrorCode(code).message,  # type: ignore[call-arg]
                    )
                )
            if deleted:
                shard = self._shard(group_id)
                results += await settled(
                    shard.write(shard.machine.share.offsets.end_deletion, group_id, deleted)
                )
        return DeleteShareGroupOffsetsResponse(responses=results)

    async def describe_offsets(
        self, asked: DescribeShareGroupOffsetsRequestGroup
    ) -> DescribeShareGroupOffsetsResponseGroup:
        """Return the start offsets of one group (DescribeShareGroupOffsets).

        If `topics` is null, return the start offsets of all initialized partitions. Otherwise the
        group need not exist, and this broker need not coordinate it.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR.
        """
        group_id = asked.group_id
        topics = self._image().topics
        known: list[tuple[TopicImage, list[int]]] = []
        missing: list[DescribeShareGroupOffsetsResponseTopic] = []
        if asked.topics is None:
            shard = self._shard(group_id)
            initialized = await settled(
                shard.read(shard.machine.share.offsets.initialized(group_id))
            )
            for topic_id, partitions in initialized.items():
                if topic_id in topics.by_id:
                    known.append((topics.by_id[topic_id], partitions))
        else:
            for each in asked.topics:
                if each.topic_name in topics.by_name:
                    known.append((topics.by_name[each.topic_name], each.partitions))
                else:
                    missing.append(_missing(each.topic_name, each.partitions))
        described = await self._describe_offsets(group_id, known) if known else []
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, topics=[*described, *missing]
        )

    async def _describe_offsets(
        self, group_id: str, topics: Iterable[tuple[TopicImage, list[int]]]
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        names = {topic.id: topic.name for topic, _ in topics}
        request = ReadShareGroupStateSummaryRequest(
            group_id=group_id,
            topics=[
                ReadStateSummaryData(
                    topic_id=topic.id,
                    partitions=[PartitionData(partition=each) for each in partitions],
                )
                for topic, partitions in topics
            ],
        )
        summaries = await self._persister.read_summary(request)
        with_lag = [
            TopicPartition(names[topic.topic_id], each.partition)
            for topic in summaries.results
            for each in topic.partitions
            if _has_lag(each)
        ]
        ends = await self._latest_offsets(with_lag) if with_lag else {}
        return [
            DescribeShareGroupOffsetsResponseTopic(
                topic_id=topic.topic_id,
                topic_name=names[topic.topic_id],
                partitions=[
                    _described(
                        each, ends.get(TopicPartition(names[topic.topic_id], each.partition))
                    )
                    for each in topic.partitions
                ],
            )
            for topic in summaries.results
        ]

    # -- deletion -----------------------------------------------------------------------------

    async def delete_states(self, group_ids: Collection[str]) -> dict[str, ErrorCode]:
        """Delete the share state of the share groups among these groups of one shard.

        Return the errors of the groups that cannot be deleted.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR,
                or the records could not be written.
        """
        shard = self._shard(next(iter(group_ids)))
        begin = shard.machine.share.offsets.begin_group_deletion
        deletion: StateDeletion = await settled(shard.write(begin, group_ids))
        errors = dict(deletion.refused)
        for request in deletion.requests:
            response = await self._persister.delete(request)
            code = _first_error(response.results)
            if code != ErrorCode.NONE:
                log.warning(
                    "group %s: its share state is not deleted: error %d", request.group_id, code
                )
                errors[request.group_id] = ErrorCode(code)  # type: ignore[call-arg]
        return errors


def _first_error(topics: Iterable[Any]) -> int:
    """Return the first error code of the partitions; 0 if there is none."""
    codes = (each.error_code for topic in topics for each in topic.partitions)
    return next((code for code in codes if code != ErrorCode.NONE), 0)


def _has_lag(summary: Summary) -> bool:
    """Return whether the lag of a share partition can be computed."""
    return (
        summary.error_code == ErrorCode.NONE
        and summary.start_offset != NO_OFFSET
        and summary.delivery_complete_count != -1
    )


def _described(
    summary: Summary, end: int | ErrorCode | None
) -> DescribeShareGroupOffsetsResponsePartition:
    """Describe a share partition. `end` is its partition's end offset, or None without a lag."""
    described = DescribeShareGroupOffsetsResponsePartition(partition_index=summary.partition)
    if isinstance(end, ErrorCode):
        described.error_code, described.error_message = end, end.message
        return described
    is_failed = summary.error_code != ErrorCode.NONE
    described.start_offset = NO_OFFSET if is_failed else summary.start_offset
    described.leader_epoch = 0 if is_failed else summary.leader_epoch
    described.lag = NO_LAG
    if end is not None:
        lag = end - summary.start_offset - summary.delivery_complete_count
        described.lag = min(lag, INT64_MAX)  # the start offset may be any number
    return described


def _missing(topic_name: str, partitions: Iterable[int]) -> DescribeShareGroupOffsetsResponseTopic:
    """Describe a topic that does not exist."""
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=each, start_offset=NO_OFFSET, lag=NO_LAG
            )
            for each in partitions
        ],
    )
