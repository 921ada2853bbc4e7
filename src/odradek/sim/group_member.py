"""A member of a consumer group, which consumes and commits offsets while nodes fail."""

from __future__ import annotations

from odradek.client.core.group_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.sim.client import Client
from odradek.sim.facts import Commit, Facts, Reading
from odradek.sim.reading import READ_COMMITTED, fetch
from odradek.sim.simulation import Simulation
from odradek.sim.workload import NOT_NOW, Actor
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.join_group_response import JoinGroupResponse
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.offset_fetch_response import OffsetFetchResponse
from odradek.wire.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.generated.sync_group_response import SyncGroupResponse

REJOIN = frozenset({E.REBALANCE_IN_PROGRESS, E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID})
SESSION_TIMEOUT_MS = 6_000
REJOIN_SHARE = 0.05
"""The fraction of iterations in which a member joins again, so that the group is rebalanced."""
LATE_COMMIT_SHARE = 0.5
"""The fraction of new generations in which a member commits in the earlier generation once more."""


class GroupMember(Actor):
    """Consumes its assigned partitions with read_committed, and commits offsets."""

    def __init__(
        self,
        simulation: Simulation,
        client: Client,
        facts: Facts,
        group: str,
        partitions: list[TopicPartition],
    ) -> None:
        super().__init__(simulation, client, facts)
        self._group = group
        self._partitions = partitions
        self._member_id = ""
        self._generation = -1
        self._earlier = (self._member_id, self._generation)
        """The member id and the generation before the newest rebalance."""
        self._positions: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """See `Actor`."""
        while not self.is_stopping:
            if await self._join() and await self._find_positions():
                self.facts.count("joined")
                await self._commit_late()
                await self._consume()
            else:
                await self.pause()

    # -- membership ---------------------------------------------------------------------------

    async def _join(self) -> bool:
        before = self._member_id, self._generation
        topics = sorted({partition.topic for partition in self._partitions})
        protocol = JoinGroupRequestProtocol(
            name="range", metadata=encode_subscription(topics, (), -1)
        )
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=3000,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        response = await self.ask(request, 9, JoinGroupResponse)
        if response is None:
            return False
        if response.error_code == E.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            return False
        if response.error_code:
            self._on_error("JoinGroup", response.error_code)
            return False
        self._member_id, self._generation = response.member_id, response.generation_id
        if self._generation != before[1]:
            self._earlier = before
        return await self._sync(response)

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        assignments = []
        if joined.leader == self._member_id:
            for index, member in enumerate(joined.members):
                mine = self._partitions[index :: len(joined.members)]
                assignments.append(
                    SyncGroupRequestAssignment(
                        member_id=member.member_id, assignment=encode_assignment(mine)
                    )
                )
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        response = await self.ask(request, 5, SyncGroupResponse)
        if response is None:
            return False
        if response.error_code:
            self._on_error("SyncGroup", response.error_code)
            return False
        assigned = decode_assignment(response.assignment) if response.assignment else ()
        self.facts.assigned(self._group, self._generation, self.name, assigned)
        self._positions = dict.fromkeys(assigned, -1)
        return True

    def _on_error(self, what: str, code: int) -> None:
        if code == E.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if code not in REJOIN and code not in NOT_NOW:
            self.unexpected(what, code)

    # -- consuming ----------------------------------------------------------------------------

    async def _find_positions(self) -> bool:
        for partition in self._positions:
            start_ns = self.simulation.now_ns
            offset = await committed_offset(self, self._group, partition)
            if offset is None:
                return False
            self.facts.found_committed(self._group, partition, offset, start_ns)
            self._positions[partition] = max(0, offset)
        return True

    async def _consume(self) -> None:
        turns = 0
        session = self.facts.begin_session(self.name)
        while not self.is_stopping:
            turns += 1
            if turns % 3 == 0 and not await self._is_member():
                return
            if self.random.random() < REJOIN_SHARE:  # as after a change of its subscription
                return
            for partition, position in self._positions.items():
                try:
                    found = await fetch(self.client, partition, position, READ_COMMITTED)
                except OSError:
                    await self.pause()
                    continue
                if found.error_code:
                    if found.error_code not in NOT_NOW:
                        self.unexpected("Fetch", found.error_code)
                    await self.pause()
                    continue
                for offset, value in found.values:
                    self.facts.consume(Reading(partition, offset, value), session.readings)
                self._positions[partition] = found.next_offset
            if self.random.random() < 0.5 and not await self._commit():
                return
            await self.pause(0.2)

    async def _is_member(self) -> bool:
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )
        response = await self.ask(request, 4, HeartbeatResponse)
        if response is None or response.error_code in NOT_NOW:
            return True
        if response.error_code:
            self._on_error("Heartbeat", response.error_code)
        return not response.error_code

    async def _commit(self) -> bool:
        """Commit the position of one partition. Return False if the client must join again."""
        if not self._positions:
            return True
        partition = self.random.choice(list(self._positions))
        offset = self._positions[partition]
        attempt = Commit(offset, self.simulation.now_ns)
        self.facts.commits.setdefault((self._group, partition), []).append(attempt)
        code = await self._ask_to_commit(partition, offset, self._member_id, self._generation)
        if code is None:
            return True
        if not code:
            attempt.acknowledge(self.simulation.now_ns)
            self.facts.count("offsets committed")
            return True
        self._on_error("OffsetCommit", code)
        return code in NOT_NOW

    async def _ask_to_commit(
        self, partition: TopicPartition, offset: int, member_id: str, generation: int
    ) -> int | None:
        """Return the error code; None if there was no response."""
        index = OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset
        )
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=partition.topic, partitions=[index])],
        )
        response = await self.ask(request, 9, OffsetCommitResponse)
        return None if response is None else response.topics[0].partitions[0].error_code

    async def _commit_late(self) -> None:
        """Commit in the earlier generation, like a request that the network has delayed.

        The coordinator must refuse it.
        """
        member_id, generation = self._earlier
        if not member_id or not self._positions or self.random.random() >= LATE_COMMIT_SHARE:
            return
        self._earlier = "", -1
        partition = self.random.choice(list(self._positions))
        code = await self._ask_to_commit(partition, 0, member_id, generation)
        self.facts.count("late commits")
        if code == E.NONE:
            self.facts.violations.append(
                f"{self.name} committed in generation {generation}, after it had joined "
                f"{self._generation}"
            )


async def committed_offset(actor: Actor, group: str, partition: TopicPartition) -> int | None:
    """Return the committed offset, or -1 if there is none. Return None if a retry is needed."""
    topic = OffsetFetchRequestTopics(name=partition.topic, partition_indexes=[partition.partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])], require_stable=True
    )
    response = await actor.ask(request, 9, OffsetFetchResponse)
    if response is None:
        return None
    answer = response.groups[0]
    code = answer.error_code or answer.topics[0].partitions[0].error_code
    if code:
        if code not in NOT_NOW:
            actor.unexpected("OffsetFetch", code)
        await actor.pause()
        return None
    return answer.topics[0].partitions[0].committed_offset
