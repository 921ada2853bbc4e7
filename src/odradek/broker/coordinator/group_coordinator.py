"""The group coordinator: passes requests of handlers to state machines.

A group belongs to a partition of `__consumer_offsets`, depending on the hash of its id
(`placement`). The leader of the partition coordinates the group. There is one state machine per
partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from odradek.broker.access.authorizer import TOPIC, Authorizer
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.coordinator import Coordinator, settled
from odradek.broker.coordinator.log import CoordinatorTopic
from odradek.broker.coordinator.shard import Answer, Shard
from odradek.config.broker_config import BrokerConfig
from odradek.core.group.consumer.heartbeat import validate
from odradek.core.group.coordinator.machine import GroupMachine
from odradek.core.group.group import Committer, GroupType, Requester
from odradek.core.group.state import GroupState, OffsetCounts
from odradek.core.group.streams.descriptions import validate as validate_description
from odradek.core.group.streams.validation import validate as validate_streams
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage, TopicImage
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.randomness import RandomBytes
from odradek.model.acl import AclOperation
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import OFFSETS_TOPIC
from odradek.records.compression import Codec
from odradek.wire.generated.consumer_group_describe_response import (
    DescribedGroup as DescribedConsumerGroup,
)
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.generated.delete_groups_response import DeletableGroupResult
from odradek.wire.generated.describe_groups_response import DescribedGroup
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.leave_group_request import LeaveGroupRequest
from odradek.wire.generated.list_groups_response import ListedGroup
from odradek.wire.generated.offset_commit_request import OffsetCommitRequest
from odradek.wire.generated.offset_delete_request import OffsetDeleteRequest
from odradek.wire.generated.offset_fetch_request import OffsetFetchRequestGroup
from odradek.wire.generated.offset_fetch_response import OffsetFetchResponseGroup
from odradek.wire.generated.streams_group_describe_response import (
    DescribedGroup as DescribedStreamsGroup,
)
from odradek.wire.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from odradek.wire.generated.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from odradek.wire.generated.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from odradek.wire.generated.sync_group_request import SyncGroupRequest

log = logging.getLogger("odradek.group")

DeleteStates = Callable[[Sequence[str]], Awaitable[Mapping[str, ErrorCode]]]
"""Deletes the share state of the share groups among these groups. Returns the groups that cannot be
deleted, with their errors."""


class GroupCoordinator(Coordinator[GroupMachine]):
    """The groups that this broker coordinates. Use it only on the event loop's thread.

    The method for an API returns the response, or a future of the response. The method may raise an
    `ApiError`, and the future may fail with an `ApiError`. Handlers put the error into the
    response.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        random_bytes: RandomBytes,
        topic: CoordinatorTopic,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        on_loaded: Callable[[int], None] = lambda records: None,
    ) -> None:
        self._random_bytes = random_bytes
        self._authorizer: Authorizer | None = None
        self._delete_states: DeleteStates = _no_states
        codec = Codec(config.offsets_topic_compression_codec)
        super().__init__(
            OFFSETS_TOPIC,
            topic,
            config.offsets_topic_num_partitions,
            config,
            ShardContext(
                loop,
                clock,
                executor,
                config.offsets_commit_timeout_ms,
                codec=codec,
                on_loaded=on_loaded,
            ),
            config.offsets_load_buffer_size,
        )

    def use_authorizer(self, authorizer: Authorizer | None) -> None:
        """Hide topics that a client may not DESCRIBE from its patterns. Call it before `startup`."""
        self._authorizer = authorizer

    def delete_states_with(self, delete: DeleteStates) -> None:
        """Call `delete` before share groups are deleted. Call this method before `startup`."""
        self._delete_states = delete

    def shard_of(self, group_id: str) -> Shard[GroupMachine]:
        """Return the shard of a group.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR.
        """
        return self._shard(group_id)

    def _requester(self, context: RequestContext) -> Requester:
        visible = None
        if self._authorizer is not None:
            visible = partial(
                self._authorizer.permitted, context, AclOperation.DESCRIBE, TOPIC, log_denied=False
            )
        client_id = context.client_id or ""
        return Requester(client_id, f"/{context.peer.host}", context.api_version, visible)

    def _make_machine(self, partition: int) -> GroupMachine:
        state = GroupState(self._config, self._clock, self._random_bytes, _note)
        return GroupMachine(state)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a metadata change. Offsets and share partitions of deleted topics are removed."""
        super().on_metadata(delta, image)
        deleted = list(delta.topics.deleted)
        if deleted:
            self.runtime.write_all(_log_failure, lambda each: each.on_topics_deleted(deleted))
            topic_ids = {topic_id for topic_id, _ in deleted}
            self.runtime.write_all(
                _log_failure, lambda each: each.share.offsets.on_topics_deleted(topic_ids)
            )

    # -- members ------------------------------------------------------------------------------

    def join(self, context: RequestContext, request: JoinGroupRequest) -> Answer:
        """Perform JoinGroup."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        config = self._config
        if not (
            config.group_min_session_timeout_ms
            <= request.session_timeout_ms
            <= config.group_max_session_timeout_ms
        ):
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        shard = self._shard(request.group_id)
        return self._write_with_ticket(shard, shard.machine.join, request, self._requester(context))

    def sync(self, request: SyncGroupRequest) -> Answer:
        """Perform SyncGroup."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shard(request.group_id)
        return self._write_with_ticket(shard, shard.machine.sync, request)

    def _write_with_ticket(
        self, shard: Shard[GroupMachine], operation: Callable[..., Any], *arguments: Any
    ) -> Answer:
        """Perform an operation whose response the state machine may send later.

        The state machine gets a ticket (a future) and returns the ticket with the response.
        """
        ticket: asyncio.Future[Any] = self._loop.create_future()
        try:
            stored = shard.write(operation, *arguments, ticket)
        except ApiError:
            if not ticket.done():  # otherwise the state machine has sent the response
                raise
            return ticket
        if isinstance(stored, asyncio.Future):
            stored.add_done_callback(partial(_fail_ticket, ticket))
        return ticket

    def heartbeat(self, request: HeartbeatRequest) -> Answer:
        """Perform Heartbeat. The handler ignores the error COORDINATOR_LOAD_IN_PROGRESS."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shard(request.group_id)
        return shard.write(shard.machine.heartbeat, request)

    def leave(self, request: LeaveGroupRequest) -> Answer:
        """Perform LeaveGroup. Before version 3 the handler has put the member into the list."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shard(request.group_id)
        return shard.write(shard.machine.leave, request)

    def consumer_heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> Answer:
        """Perform ConsumerGroupHeartbeat."""
        validate(request, context.api_version, self._config.group_consumer_assignors)
        shard = self._shard(request.group_id)
        return shard.write(shard.machine.consumer_heartbeat, request, self._requester(context))

    def streams_heartbeat(
        self, context: RequestContext, request: StreamsGroupHeartbeatRequest
    ) -> Answer:
        """Perform StreamsGroupHeartbeat. The response is an `Outcome`."""
        validate_streams(request)
        shard = self._shard(request.group_id)
        return shard.write(shard.machine.streams.heartbeat, request, self._requester(context))

    async def update_topology_description(
        self, request: StreamsGroupTopologyDescriptionUpdateRequest
    ) -> StreamsGroupTopologyDescriptionUpdateResponse:
        """Perform StreamsGroupTopologyDescriptionUpdate.

        If the log refuses the description because it is too large, it is noted as failed.
        """
        validate_description(request, self._config)
        shard = self._shard(request.group_id)
        descriptions = shard.machine.streams.descriptions
        answer: StreamsGroupTopologyDescriptionUpdateResponse
        try:
            answer = await settled(shard.write(descriptions.update, request))
            descriptions.on_stored()
        except ApiError as error:
            if error.code != ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
            answer = await settled(shard.write(descriptions.refuse, request))
        return answer

    # -- offsets ------------------------------------------------------------------------------

    def commit_offsets(self, context: RequestContext, request: OffsetCommitRequest) -> Answer:
        """Perform OffsetCommit. The empty group id is valid."""
        shard = self._shard(request.group_id)
        return shard.write(shard.machine.commit.commit, request, context.api_version)

    def commit_at_once(
        self,
        group_id: str,
        committer: Committer,
        topic: TopicImage,
        partitions: Sequence[tuple[int, int, int]],
    ) -> bool:
        """Perform the usual OffsetCommit (see `Commit.commit_usual`).

        Return False if this is not possible immediately; then nothing has changed.
        """
        try:
            shard = self._shard(group_id)
        except ApiError:
            return False
        commit = shard.machine.commit.commit_usual
        return shard.write_packed(commit, group_id, committer, topic, partitions)

    def fetch_offsets(self, request: OffsetFetchRequestGroup, require_stable: bool) -> Answer:
        """Perform OffsetFetch for one group.

        Raises:
            ApiError: see `Fetch.fetch`.
        """
        shard = self._shard(request.group_id)
        response: OffsetFetchResponseGroup = shard.machine.fetch.fetch(request, require_stable)
        return shard.read(response)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Answer:
        """Perform OffsetDelete."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shard(request.group_id)
        return shard.write(shard.machine.deletion.delete, request)

    # -- administration -----------------------------------------------------------------------

    async def list_groups(
        self, states_filter: Sequence[str], types_filter: Sequence[str]
    ) -> list[ListedGroup]:
        """Return the groups that this broker coordinates (ListGroups).

        Raises:
            ApiError: see `_listed`.
        """
        return await self._listed(
            lambda machine: machine.listing.list_groups(states_filter, types_filter)
        )

    async def describe_groups(
        self, context: RequestContext, group_ids: Iterable[str]
    ) -> list[DescribedGroup]:
        """Return one result of DescribeGroups per group."""
        found: list[DescribedGroup] = []
        for group_id in group_ids:
            try:
                shard = self._shard(group_id)
                described = shard.machine.listing.describe((group_id,), context.api_version)
                found += await settled(shard.read(described))
            except ApiError as error:
                found.append(DescribedGroup(group_id=group_id, error_code=error.code))
        return found

    async def describe_consumer_groups(
        self, group_ids: Iterable[str]
    ) -> list[DescribedConsumerGroup]:
        """Return one result of ConsumerGroupDescribe per group."""
        found: list[DescribedConsumerGroup] = []
        for group_id in group_ids:
            try:
                if not group_id:
                    raise ApiError(ErrorCode.INVALID_GROUP_ID)
                shard = self._shard(group_id)
                described = shard.machine.describe_consumer_groups((group_id,))
                found += await settled(shard.read(described))
            except ApiError as error:
                found.append(DescribedConsumerGroup(group_id=group_id, error_code=error.code))
        return found

    async def describe_streams_groups(
        self, group_ids: Iterable[str], *, with_description: bool = False
    ) -> list[DescribedStreamsGroup]:
        """Return one result of StreamsGroupDescribe per group."""
        found: list[DescribedStreamsGroup] = []
        for group_id in group_ids:
            try:
                if not group_id:
                    raise ApiError(ErrorCode.INVALID_GROUP_ID)
                shard = self._shard(group_id)
                groups = shard.machine.streams.describe(
                    (group_id,), with_description=with_description
                )
                found += await settled(shard.read(groups))
            except ApiError as error:
                found.append(DescribedStreamsGroup(group_id=group_id, error_code=error.code))
        return found

    async def delete_groups(self, group_ids: Iterable[str]) -> list[DeletableGroupResult]:
        """Delete groups (DeleteGroups); return one result per group, in no particular order."""
        by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_partition.setdefault(self.partition_for(group_id), []).append(group_id)
        answers = [self._delete_groups(each) for each in by_partition.values()]
        return [result for results in await asyncio.gather(*answers) for result in results]

    async def _delete_groups(self, group_ids: Sequence[str]) -> list[DeletableGroupResult]:
        """Delete groups of one partition. The share state of share groups is deleted first."""
        try:
            errors = await self._delete_states(group_ids)
            failed = [
                DeletableGroupResult(group_id=group_id, error_code=code, error_message=code.message)
                for group_id, code in errors.items()
            ]
            rest = [each for each in group_ids if each not in errors]
            if not rest:
                return failed
            shard = self._shard(rest[0])
            results: list[DeletableGroupResult] = await settled(
                shard.write(shard.machine.listing.delete, rest)
            )
        except ApiError as error:
            return [
                DeletableGroupResult(
                    group_id=each, error_code=error.code, error_message=error.message
                )
                for each in group_ids
            ]
        return [*failed, *results]

    # -- for metrics --------------------------------------------------------------------------

    def count_by_state(self) -> dict[tuple[GroupType, str], int]:
        """Return the number of groups by type and state."""
        counts: dict[tuple[GroupType, str], int] = {}
        for machine in self.runtime.machines():
            for key, count in machine.count_by_state().items():
                counts[key] = counts.get(key, 0) + count
        return counts

    def count_rebalances(self) -> dict[GroupType, int]:
        """Return the number of rebalances since the partitions were loaded, by group type."""
        counts = dict.fromkeys(GroupType, 0)
        for machine in self.runtime.machines():
            for kind, count in machine.state.rebalances.items():
                counts[kind] += count
        return counts

    def count_offsets(self) -> tuple[int, OffsetCounts]:
        """Return the number of stored offsets, and how many were committed, expired and deleted."""
        stored, sums = 0, OffsetCounts()
        for machine in self.runtime.machines():
            for topics in list(machine.offsets.committed.values()):
                stored += sum(map(len, topics.values()))
            counts = machine.state.offset_counts
            sums.on_committed(counts.committed)
            sums.on_expired(counts.expired)
            sums.on_deleted(counts.deleted)
        return stored, sums

    def count_descriptions(self) -> Counter[str]:
        """Return how often descriptions of topologies were stored and read, by kind."""
        counts = Counter[str]()
        for machine in self.runtime.machines():
            counts.update(machine.streams.descriptions.counts)
        return counts

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield (group id, topic, partition, offset) for each committed offset."""
        for machine in self.runtime.machines():
            for group_id, topics in machine.offsets.committed.items():
                for topic, partitions in topics.items():
                    for index, committed in partitions.items():
                        yield group_id, topic, index, committed.offset


async def _no_states(group_ids: Sequence[str]) -> Mapping[str, ErrorCode]:
    """There is no share state."""
    return {}


def _fail_ticket(ticket: asyncio.Future[Any], stored: asyncio.Future[Any]) -> None:
    """Fail the request if the records of its operation were not committed."""
    if stored.cancelled():
        return
    error = stored.exception()
    if error is not None and not ticket.done():
        ticket.set_exception(error)


def _log_failure(error: ApiError) -> None:
    log.warning("offsets of deleted topics could not be removed: %s", error)


def _note(group_id: str, text: str) -> None:
    log.info("group %s: %s", group_id, text)
