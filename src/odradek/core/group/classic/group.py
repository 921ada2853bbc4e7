"""The state of one classic group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from odradek.core.coordinator.machine import Effects
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.classic import keys
from odradek.core.group.classic.answers import join_failed
from odradek.core.group.classic.member import ClassicMember, Protocols
from odradek.core.group.consumer_protocol import subscribed_topics
from odradek.core.group.group import (
    CONSUMER_PROTOCOL_TYPE,
    Committer,
    ExpiryBase,
    Group,
    GroupType,
    ValidatePartition,
)
from odradek.core.group.offset_store import since_commit
from odradek.core.group.records import group_metadata, group_metadata_tombstone
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.java_order import java_hash_order
from odradek.wire.generated.group_metadata_value import GroupMetadataValue, MemberMetadata
from odradek.wire.generated.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from odradek.wire.generated.sync_group_response import SyncGroupResponse


class ClassicState(Enum):
    """The states of a classic group, see the package.

    The values are the names in DescribeGroups and ListGroups responses.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY = ClassicState.EMPTY
_PREPARING = ClassicState.PREPARING_REBALANCE
_COMPLETING = ClassicState.COMPLETING_REBALANCE
_STABLE = ClassicState.STABLE
_DEAD = ClassicState.DEAD

PREVIOUS_STATES = {
    _EMPTY: frozenset((_PREPARING,)),
    _PREPARING: frozenset((_STABLE, _COMPLETING, _EMPTY)),
    _COMPLETING: frozenset((_PREPARING,)),
    _STABLE: frozenset((_COMPLETING,)),
    _DEAD: frozenset(ClassicState),
}
"""New state -> the states from which the transition is legal."""


class ClassicGroup(Group):
    """One group. Requests change its members directly, not by the replay of records."""

    type = GroupType.CLASSIC

    def __init__(self, group_id: str, now_ms: int, state: ClassicState = _EMPTY) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = _DEAD
        self.state_timestamp_ms: int | None = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        """The protocol that the members of this generation use."""
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Member id by group instance id."""
        self.pending_join: dict[str, None] = {}
        """New member ids with which the clients have not joined yet (KIP-394)."""
        self.pending_sync: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup yet."""
        self.awaiting_join = 0
        """Number of members whose JoinGroup has no response yet."""
        self.protocol_support: dict[str, int] = {}
        """Number of members that support each protocol."""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that the members subscribe to; None if their metadata cannot be decoded."""
        self.has_new_member = False
        """Whether a member has joined during the initial delay. Then the delay is extended."""

    @classmethod
    def from_members(
        cls, group_id: str, now_ms: int, generation_id: int, members: Sequence[ClassicMember]
    ) -> ClassicGroup:
        """Return a stable group with these members. The first member is the leader."""
        group = cls(group_id, now_ms, _STABLE)
        group.generation_id = generation_id
        for member in members:
            group.add(member)
        group.protocol_name = group.select_protocol()
        group.refresh_subscribed_topics()
        return group

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue, now_ms: int) -> ClassicGroup:
        """Create a group from its record. The group is Stable if it has members, else Empty."""
        group = cls(group_id, now_ms, _STABLE if value.members else _EMPTY)
        timestamp = value.current_state_timestamp
        group.state_timestamp_ms = None if timestamp == -1 else timestamp
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.leader_id = value.leader
        for member in value.members:
            rebalance_timeout_ms = member.rebalance_timeout
            if rebalance_timeout_ms == -1:
                rebalance_timeout_ms = member.session_timeout
            group._enter(
                ClassicMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    rebalance_timeout_ms,
                    member.session_timeout,
                    value.protocol_type,
                    ((value.protocol or "", member.subscription),),
                    member.assignment,
                )
            )
        if group.leader_id is None:
            group.leader_id = next(iter(group.members), None)
        group.refresh_subscribed_topics()
        return group

    # -- methods of `Group` -------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """See `Group`."""
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        """See `Group`."""
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """See `Group`."""
        return self.state is _EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers. Then their metadata contains subscriptions."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_simple(self) -> bool:
        """Whether the group only stores offsets and never had members."""
        return self.protocol_type is None and self.is_empty and not self.pending_join

    def validate_offset_commit(self, committer: Committer) -> ValidatePartition | None:
        """See `Group`.

        A client that is not a member may commit while the group is empty. TxnOffsetCommit without a
        member id is allowed in every state except Dead.
        """
        member_id, instance_id, generation, is_transactional, _ = committer
        state = self.state
        if state is _DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and state is _EMPTY:
            return None
        if generation >= 0 or member_id or instance_id is not None:
            self.validate_member(member_id, instance_id)
            if generation != self.generation_id:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional and state is not _EMPTY:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and state is _COMPLETING:
            # The member is in this generation but has no assignment yet.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See `Group`. Any client may fetch offsets."""
        if self.state is _DEAD:
            raise self._dead()

    def validate_offset_delete(self) -> None:
        """See `Group`."""
        if self.state is _DEAD:
            raise self._dead()
        if self.state is not _EMPTY and not self.uses_consumer_protocol:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        """See `Group`."""
        if self.state is _DEAD:
            raise self._dead()
        if self.state is not _EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def _dead(self) -> ApiError:
        message = f"Group {self.group_id} is in dead state."
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)

    def is_subscribed_to(self, topic: str) -> bool:
        """See `Group`. If consumers have unknown subscriptions, return True for every topic."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def tombstones(self) -> list[CoordinatorRecord]:
        """See `Group`."""
        return [group_metadata_tombstone(self.group_id)]

    def cancel_timers(self, timers: TimerTable) -> None:
        """See `Group`.

        This does nothing, because the operations of these timers check whether the group exists.
        """

    def offset_expiry_base(self) -> ExpiryBase | None:
        """See `Group`.

        The retention begins (KIP-211):

        - in a simple group, at the commit;
        - in a group without members, when the group became empty;
        - in a stable group of consumers with known subscriptions, at the commit, but only for
          topics without a subscriber.

        In other groups, offsets do not expire.
        """
        if self.protocol_type is None:
            return since_commit
        if self.state is _EMPTY:
            timestamp_ms = self.state_timestamp_ms
            return since_commit if timestamp_ms is None else lambda offset: timestamp_ms
        if (
            self.uses_consumer_protocol
            and self.subscribed_topics is not None
            and self.state is _STABLE
        ):
            return since_commit
        return None

    # -- states -------------------------------------------------------------------------------

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin in this state."""
        return self.state in PREVIOUS_STATES[_PREPARING]

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        """Change the state. The transition must be legal."""
        assert self.state in PREVIOUS_STATES[state], f"{self} cannot become {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation. If the group has no members, its state becomes Empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscribed_topics()
        self.move_to(_COMPLETING if self.members else _EMPTY, now_ms)
        self.pending_sync.clear()

    def refresh_subscribed_topics(self) -> None:
        """Decode the subscribed topics from the members' metadata."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            metadata = (each.metadata(self.protocol_name) for each in self.members.values())
            self.subscribed_topics = subscribed_topics(metadata)

    # -- protocols ----------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a member with these protocols can join the group."""
        if self.state is _EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.protocol_support.get(name, 0) == count for name in protocols
        )

    def select_protocol(self) -> str:
        """Select the protocol with the most votes. All members must support the protocol.

        If protocols have the same number of votes, the order of a Java `HashMap` decides, as in
        Apache Kafka.
        """
        assert self.members, "members choose"
        count = len(self.members)
        candidates = {name for name, n in self.protocol_support.items() if n == count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        most = max(votes.values())
        return next(name for name in java_hash_order(votes) if votes[name] == most)

    def _count_protocols(self, member: ClassicMember, step: int) -> None:
        for name in set(member.protocol_names):  # count a duplicate name only once
            self.protocol_support[name] = self.protocol_support.get(name, 0) + step

    # -- members ------------------------------------------------------------------------------

    def is_leader(self, member_id: str) -> bool:
        """Return whether the member is the group leader."""
        return self.leader_id == member_id

    @property
    def rebalance_timeout_ms(self) -> int:
        """The maximum duration of the join phase: the largest rebalance timeout of all members."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have sent JoinGroup in this rebalance."""
        return len(self.members) == self.awaiting_join and not self.pending_join

    def validate_member(self, member_id: str, group_instance_id: str | None) -> None:
        """Check that the member exists and still owns its instance id.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def add(self, member: ClassicMember, ticket: Any = None) -> None:
        """Add a member. `ticket` is the ticket of its JoinGroup.

        If the group has no leader, the member becomes the leader.
        """
        if self.state is _PREPARING and self.previous_state is _EMPTY:
            self.has_new_member = True
        self._enter(member)
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.set_join_ticket(member, ticket)
        self.pending_join.pop(member.member_id, None)

    def _enter(self, member: ClassicMember) -> None:
        instance_id = member.group_instance_id
        if instance_id is not None:
            assert instance_id not in self.static_members, f"{instance_id} is in {self} already"
            self.static_members[instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type or None
        assert self.protocol_type == (member.protocol_type or None)
        self.members[member.member_id] = member
        self._count_protocols(member, 1)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member.

        If the member was the leader, another member becomes the leader.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            self.set_join_ticket(member, None)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(java_hash_order(self.members)), None)
        self.pending_join.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        ticket: Any,
    ) -> None:
        """Set the values of a member from its latest JoinGroup, which has this ticket."""
        self._count_protocols(member, -1)
        member.update(protocols, rebalance_timeout_ms, session_timeout_ms)
        self._count_protocols(member, 1)
        self.set_join_ticket(member, ticket)

    def replace_static(
        self, group_instance_id: str, old_id: str, new_id: str, effects: Effects
    ) -> ClassicMember:
        """Give a static member a new member id. Waiting requests with the old id are fenced."""
        old = self.members.pop(old_id)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.answer_join(old, join_failed(fenced, old_id), effects)
        self.answer_sync(old, SyncGroupResponse(error_code=fenced), effects)
        member = ClassicMember(
            new_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self.members[new_id] = member
        if self.is_leader(old_id):
            self.leader_id = new_id
        self.static_members[group_instance_id] = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined; otherwise choose another leader.

        Return False if no member has joined.
        """
        if self.leader_id is None:
            return False
        leader = self.members[self.leader_id]
        if leader.join_ticket is not None:
            return True
        for member_id in java_hash_order(self.members):
            if self.members[member_id].join_ticket is not None:
                self.leader_id = member_id
                return True
        return False

    def extend_initial_delay(self) -> bool:
        """Return whether the initial delay is extended.

        It is extended if a member has joined since the last call.
        """
        extended = self.has_new_member
        self.has_new_member = False
        return extended

    # -- responses ----------------------------------------------------------------------------

    def set_join_ticket(self, member: ClassicMember, ticket: Any) -> None:
        """Set the ticket of the member's JoinGroup that waits; None if no JoinGroup waits."""
        self.awaiting_join += (ticket is not None) - (member.join_ticket is not None)
        member.set_join_ticket(ticket)

    def answer_join(
        self, member: ClassicMember, response: JoinGroupResponse, effects: Effects
    ) -> bool:
        """Send the JoinGroup response if the member waits for it. Return whether it was sent."""
        ticket = member.join_ticket
        if ticket is None:
            return False
        self.set_join_ticket(member, None)
        effects.answer(ticket, response)
        return True

    def answer_sync(
        self, member: ClassicMember, response: SyncGroupResponse, effects: Effects
    ) -> bool:
        """Send the SyncGroup response if the member waits for it. Return whether it was sent."""
        ticket = member.sync_ticket
        if ticket is None:
            return False
        member.set_sync_ticket(None)
        effects.answer(ticket, response)
        return True

    def join_response(self, member_id: str, *, with_members: bool) -> JoinGroupResponse:
        """Return the JoinGroup response for a member. Only the leader gets the list of members."""
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            member_id=member_id,
            members=self.joined_members() if with_members else [],
        )

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """Return all members with their metadata for the selected protocol."""
        assert self.state not in (_DEAD, _PREPARING), f"{self} has no protocol"
        return [
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata(self.protocol_name),
            )
            for each in self.members.values()
        ]

    # -- records ------------------------------------------------------------------------------

    def record(self, assignment: Mapping[str, bytes]) -> CoordinatorRecord:
        """Return the record of the group. `assignment` maps each member id to its assignment."""
        return group_metadata(
            self.group_id,
            protocol_type=self.protocol_type or "",
            protocol=self.protocol_name,
            generation=self.generation_id,
            leader=self.leader_id,
            state_timestamp_ms=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout=each.rebalance_timeout_ms,
                    session_timeout=each.session_timeout_ms,
                    subscription=each.metadata(self.protocol_name),
                    assignment=assignment[each.member_id],
                )
                for each in self.members.values()
            ],
        )

    @property
    def assignment(self) -> dict[str, bytes]:
        """The current assignment, by member id."""
        return {each.member_id: each.assignment for each in self.members.values()}

    def cancel_session(self, member_id: str, timers: TimerTable) -> None:
        """Cancel the session timer of a removed member."""
        timers.cancel(keys.session(self.group_id, member_id))
