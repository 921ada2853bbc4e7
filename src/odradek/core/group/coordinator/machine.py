"""The state machine of one partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.config.broker_config import BrokerConfig
from odradek.core.coordinator.machine import QuickReplay
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.classic.answers import join_failed
from odradek.core.group.classic.group import ClassicGroup, ClassicState
from odradek.core.group.classic.join import Join
from odradek.core.group.classic.presence import Presence
from odradek.core.group.classic.rebalance import Rebalance
from odradek.core.group.classic.sync import Sync
from odradek.core.group.consumer.group import STATES as CONSUMER_STATES
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.protocol import ConsumerProtocol
from odradek.core.group.coordinator.listing import Listing
from odradek.core.group.group import GroupType, Requester
from odradek.core.group.modern.group import EpochGroup
from odradek.core.group.modern.topics import Topics
from odradek.core.group.offset_store import CommittedOffset, OffsetStore, PartitionOffsets
from odradek.core.group.offsets.commit import Commit
from odradek.core.group.offsets.deletion import Deletion
from odradek.core.group.offsets.fetch import Fetch
from odradek.core.group.offsets.quick_commits import QuickCommits
from odradek.core.group.records import MESSAGES
from odradek.core.group.share.group import STATES as SHARE_STATES
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.protocol import ShareProtocol
from odradek.core.group.state import GroupState
from odradek.core.group.streams.group import STATES as STREAMS_STATES
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.protocol import StreamsProtocol
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.consumer_group_describe_response import DescribedGroup
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.leave_group_request import LeaveGroupRequest
from odradek.wire.generated.leave_group_response import LeaveGroupResponse
from odradek.wire.generated.offset_commit_value import OffsetCommitValue
from odradek.wire.generated.sync_group_request import SyncGroupRequest
from odradek.wire.generated.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from odradek.wire.generated.group_metadata_key import GroupMetadataKey
    from odradek.wire.generated.group_metadata_value import GroupMetadataValue
    from odradek.wire.generated.legacy_offset_commit_key import LegacyOffsetCommitKey
    from odradek.wire.generated.legacy_offset_commit_value import LegacyOffsetCommitValue
    from odradek.wire.generated.offset_commit_key import OffsetCommitKey

Replay = Callable[[int, int, Any, Any], None]
"""The arguments are offset, producer id, key, and value or None."""


class GroupMachine:
    """The state machine of one partition, see the package.

    The attributes `commit`, `fetch`, `deletion` and `listing` process requests about offsets and
    requests of administrators. The methods of this class process requests of group members,
    according to the type of the group.
    """

    def __init__(self, state: GroupState) -> None:
        self.state = state
        self.journal = state.journal
        self.timers = state.timers
        self.effects = state.effects
        self.messages = MESSAGES
        self.offsets = OffsetStore(state.journal)
        self.rebalance = Rebalance(state)
        self._join = Join(state, self.rebalance)
        self._sync = Sync(state, self.rebalance)
        self._presence = Presence(state, self.rebalance)
        self._topics = Topics(state)
        self._consumer = ConsumerProtocol(state, self._topics, self.rebalance)
        self.share = ShareProtocol(state, self._topics)
        self.streams = StreamsProtocol(state, self._topics)
        self._quick = QuickCommits(self._place)
        self.quick_replay: QuickReplay | None = self._quick.take
        self.consumer_heartbeat = self._consumer.heartbeat
        self.commit = Commit(state, self.rebalance, self._place)
        self.fetch = Fetch(state, self.offsets)
        self.deletion = Deletion(state, self.offsets)
        self.listing = Listing(state, self.deletion)
        self._replay: Mapping[int, Replay] = {
            0: self._replay_legacy_offset_commit,
            1: self._replay_offset_commit,
            2: self._replay_group_metadata,
        }
        self._modern_replay = {
            **self._consumer.replay.by_kind,
            **self.share.replay.by_kind,
            **self.streams.replay.by_kind,
        }

    # -- members ------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, requester: Requester, ticket: Any
    ) -> CoordinatorResult[None]:
        """Process JoinGroup. The response is sent to `ticket`.

        Raises:
            ApiError: the group is a consumer group and the member cannot join it. For classic
                groups, see `Join.join`.
        """
        group = self.state.groups.get(request.group_id)
        if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and group.members):
            self.effects.answer(ticket, join_failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
            return NOTHING
        if not isinstance(group, ConsumerGroup | StreamsGroup):
            return self._join.join(request, requester, ticket)
        if isinstance(group, ConsumerGroup) and group.members:
            return self._consumer.classic_members.join(group, request, requester, ticket)
        if request.member_id:
            answer = join_failed(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            self.effects.answer(ticket, answer)
            return NOTHING
        return self._join.join(request, requester, ticket, group.tombstones())

    def sync(self, request: SyncGroupRequest, ticket: Any) -> CoordinatorResult[None]:
        """Process SyncGroup. The response is sent to `ticket`.

        Raises:
            ApiError: the group is a consumer group, and the member is unknown or must rejoin.
        """
        group = self.state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            return self._consumer.classic_members.sync(group, request, ticket)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            self.effects.answer(ticket, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            return NOTHING
        return self._sync.sync(group, request, ticket)

    def heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Process Heartbeat.

        Raises:
            ApiError: see `Presence.heartbeat`.
        """
        group = self.state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.classic_members.heartbeat(group, request)
        return self._presence.heartbeat(self._classic_group(request.group_id), request)

    def leave(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Process LeaveGroup.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID: the group does not exist.
        """
        group = self.state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.classic_members.leave(group, request)
        return self._presence.leave(self._classic_group(request.group_id), request)

    def _classic_group(self, group_id: str) -> ClassicGroup:
        group = self.state.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        return group

    # -- events of the runtime ----------------------------------------------------------------

    def on_loaded(self, image: MetadataImage) -> None:
        """See `CoordinatorMachine`. This starts the session timeouts of the members."""
        self.state.update_image(image)
        self._quick.forget()
        for group in list(self.state.groups.values()):
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    self.rebalance.expect_heartbeat(group, member)
                if len(group.members) > self.state.config.group_max_size:
                    self.rebalance.prepare(group, "the group is larger than group.max.size")
        self._topics.on_loaded()
        self._consumer.on_loaded()
        self.share.on_loaded()
        self.streams.on_loaded()
        self.deletion.schedule_expiry()

    def on_unloaded(self) -> None:
        """See `CoordinatorMachine`."""
        for group in self.state.groups.values():
            if isinstance(group, ClassicGroup):
                self.rebalance.unload(group)

    def update_config(self, config: BrokerConfig) -> None:
        """See `CoordinatorMachine`."""
        self.state.update_config(config)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `CoordinatorMachine`."""
        self.state.update_image(image)
        groups = [each for each in self.state.groups.values() if isinstance(each, EpochGroup)]
        if not groups:  # most partitions have no such group, so skip the loop over all topics
            self._topics.forget()
            return
        changed = self._topics.on_metadata(delta, image)
        for group in groups:  # a group that uses a changed topic checks it later
            if group.uses_any(changed):
                group.request_metadata_refresh()

    def on_topics_deleted(self, deleted: Iterable[tuple[bytes, str]]) -> CoordinatorResult[None]:
        """Delete the offsets of deleted topics. `deleted` has the id and the name of each topic."""
        return self.deletion.on_topics_deleted(deleted)

    # -- replay -------------------------------------------------------------------------------

    def replay(
        self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord
    ) -> None:
        """See `CoordinatorMachine`."""
        kind = record.key.API_KEY
        assert kind is not None
        of_modern_group = self._modern_replay.get(kind)
        if of_modern_group is not None:
            of_modern_group(record.key, record.value)
        else:
            self._replay[kind](offset, producer_id, record.key, record.value)

    def replay_end_of_transaction(
        self, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """See `CoordinatorMachine`."""
        self.offsets.end_transaction(producer_id, committed)

    def _replay_offset_commit(
        self,
        offset: int,
        producer_id: int,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
    ) -> None:
        group_id = key.group
        if value is None:
            self.offsets.forget(group_id, key.topic, key.partition)
            return
        self._make_room(group_id)
        committed = CommittedOffset.from_record(offset, value)
        if producer_id < 0:
            self.offsets.commit(group_id, key.topic, key.partition, committed)
        else:
            self.offsets.commit_pending(producer_id, group_id, key.topic, key.partition, committed)

    def _make_room(self, group_id: str) -> None:
        """Create a simple group, which only stores offsets, if the group does not exist."""
        if group_id not in self.state.groups:
            group = ClassicGroup(group_id, self.state.clock.now_ms())
            self.journal.put(self.state.groups, group_id, group)

    def _place(self, group_id: str, topic: str) -> PartitionOffsets:
        """Return the dict of the offsets of a group and topic. Create the group if necessary."""
        self._make_room(group_id)
        return self.offsets.place(group_id, topic)

    def _replay_legacy_offset_commit(
        self,
        offset: int,
        producer_id: int,
        key: LegacyOffsetCommitKey,
        value: LegacyOffsetCommitValue | None,
    ) -> None:
        converted = None
        if value is not None:
            converted = OffsetCommitValue(
                offset=value.offset,
                metadata=value.metadata,
                commit_timestamp=value.commit_timestamp,
            )
        # Both key types have the same field names.
        self._replay_offset_commit(offset, producer_id, key, converted)  # type: ignore[arg-type]

    def _replay_group_metadata(
        self,
        offset: int,
        producer_id: int,
        key: GroupMetadataKey,
        value: GroupMetadataValue | None,
    ) -> None:
        groups = self.state.groups
        if value is None:
            self.journal.remove(groups, key.group)
            return
        group = ClassicGroup.from_record(key.group, value, self.state.clock.now_ms())
        self.journal.put(groups, key.group, group)

    # -- administration and metrics -----------------------------------------------------------

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Process ConsumerGroupDescribe."""
        assignor = self._consumer.targets.default_assignor
        return self.listing.describe_consumer_groups(group_ids, assignor)

    def count_by_state(self) -> dict[tuple[GroupType, str], int]:
        """Return the number of groups by type and state."""
        counts = dict.fromkeys(((GroupType.CLASSIC, each.value) for each in ClassicState), 0)
        counts |= dict.fromkeys(((GroupType.CONSUMER, each) for each in CONSUMER_STATES), 0)
        counts |= dict.fromkeys(((GroupType.SHARE, each) for each in SHARE_STATES), 0)
        counts |= dict.fromkeys(((GroupType.STREAMS, each) for each in STREAMS_STATES), 0)
        for group in self.state.groups.values():
            counts[group.type, group.state_name] += 1
        return counts
