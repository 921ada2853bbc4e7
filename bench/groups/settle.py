"""A thousand members join one group with 5 000 partitions at the same time, then one member leaves.

The members send the same requests as Apache Kafka's consumers, with default intervals. Each member
has its own connection. The leader of the classic group assigns ranges. A group has settled if every
partition has exactly one owner, all members have the same generation or epoch, and the numbers of
partitions of two members differ by at most one.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from struct import Struct

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.groups.connection import Connection, connect, spread
from bench.groups.trial import (
    PATIENCE_SECONDS,
    POLL_SECONDS,
    longest_pause_ms,
    make_topics,
    wait_for_coordinators,
)
from odradek.core.group.consumer_protocol import read_assignment, write_assignment
from odradek.core.group.modern.assignment import JOIN_EPOCH, LEAVE_EPOCH
from odradek.model.errors import ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from odradek.wire.generated.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from odradek.wire.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.join_group_response import JoinGroupResponse
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.leave_group_response import LeaveGroupResponse
from odradek.wire.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.generated.sync_group_response import SyncGroupResponse

MEMBERS = 1000
TOPICS = {f"settle-{number}": 500 for number in range(10)}
SESSION_MS = 45_000
REBALANCE_MS = 300_000
HEARTBEAT_SECONDS = 3.0
PAUSE_MS_MAX = 100.0

SUBSCRIPTION = Struct(">h").pack(3) + ConsumerProtocolSubscription(topics=[*TOPICS]).encode(3)

Place = tuple[str, int]
"""A topic (its name, or its id in hexadecimal digits) and a partition index."""


class Member(ABC):
    """One member. `generation` is -1 until the member has an assignment."""

    def __init__(self, connection: Connection, group: str) -> None:
        self.connection = connection
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.owned: set[Place] = set()

    @abstractmethod
    async def run(self) -> None:
        """Join, apply assignments and send heartbeats, until the task is cancelled."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group. Cancel `run` before."""


class ClassicMember(Member):
    """A member that uses JoinGroup, SyncGroup and Heartbeat."""

    async def run(self) -> None:
        """See `Member`."""
        while True:
            await self._sync(await self._join())
            while self.generation >= 0:
                await asyncio.sleep(HEARTBEAT_SECONDS)
                request = HeartbeatRequest(
                    group_id=self.group, generation_id=self.generation, member_id=self.member_id
                )
                answer = await self.connection.ask("Heartbeat", 4, request, HeartbeatResponse)
                if answer.error_code:
                    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS, answer.error_code
                    self.generation = -1

    async def _join(self) -> JoinGroupResponse:
        protocol = JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
        while True:
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[protocol],
            )
            answer = await self.connection.ask("JoinGroup", 9, request, JoinGroupResponse)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif not answer.error_code:
                return answer
            else:
                assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS, answer.error_code

    async def _sync(self, joined: JoinGroupResponse) -> None:
        parts = spread(TOPICS, sorted(each.member_id for each in joined.members))
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=write_assignment(topics, like=SUBSCRIPTION)
            )
            for member_id, topics in parts.items()
        ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        answer = await self.connection.ask("SyncGroup", 5, request, SyncGroupResponse)
        if answer.error_code:
            assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS, answer.error_code
            return
        topics = read_assignment(answer.assignment).assigned_partitions
        self.owned = {(each.topic, index) for each in topics for index in each.partitions}
        self.generation = joined.generation_id

    async def leave(self) -> None:
        """See `Member`."""
        request = LeaveGroupRequest(
            group_id=self.group, members=[MemberIdentity(member_id=self.member_id)]
        )
        answer = await self.connection.ask("LeaveGroup", 5, request, LeaveGroupResponse)
        assert not answer.error_code, answer.error_code


class ConsumerMember(Member):
    """A member that uses ConsumerGroupHeartbeat. Later heartbeats have only the changed fields."""

    numbers = itertools.count()

    async def run(self) -> None:
        """See `Member`."""
        self.member_id = f"member-{next(self.numbers)}"
        answer = await self._beat(JOIN_EPOCH, [], [*TOPICS])
        while True:
            self.generation = answer.member_epoch
            owned = None
            if answer.assignment is not None:
                given = answer.assignment.topic_partitions
                self.owned = {(each.topic_id.hex(), i) for each in given for i in each.partitions}
                owned = [
                    TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in given
                ]
            else:
                await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
            answer = await self._beat(self.generation, owned)

    async def _beat(
        self, epoch: int, owned: list[TopicPartitions] | None, topics: list[str] | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if topics is None else REBALANCE_MS,
            subscribed_topic_names=topics,
            topic_partitions=owned,
        )
        answer = await self.connection.ask(
            "ConsumerGroupHeartbeat", 1, request, ConsumerGroupHeartbeatResponse
        )
        assert not answer.error_code, f"{answer.error_code}: {answer.error_message}"
        return answer

    async def leave(self) -> None:
        """See `Member`."""
        await self._beat(LEAVE_EPOCH, None)


KINDS: dict[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember}


def quantities(protocol: str) -> list[Quantity]:
    """Return the measured quantities of a protocol."""
    return [
        Quantity(f"{protocol}: all join", "s"),
        Quantity(f"{protocol}: one leaves", "s"),
        Quantity(f"{protocol}: CPU", "s"),
        Quantity(f"{protocol}: longest pause of the loop", "ms", most=PAUSE_MS_MAX),
    ]


class Trial:
    """A group on one broker."""

    def __init__(self, contender: Contender, protocol: str, group: str, members: int) -> None:
        self._contender = contender
        self._kind = KINDS[protocol]
        self._group = group
        self._count = members
        self._tasks: dict[Member, asyncio.Task[None]] = {}

    async def run(self) -> list[float | None]:
        """Run the steps, and return the values of `quantities` in the same order."""
        connections = await connect(self._contender.broker.port, self._count)
        meter = CpuMeter(self._contender.broker)
        longest_pause_ms(self._contender)
        try:
            for each in connections:
                member = self._kind(each, self._group)
                self._tasks[member] = asyncio.create_task(member.run())
            joined = await self._settled()
            leaver = next(iter(self._tasks))
            self._tasks.pop(leaver).cancel()
            await leaver.leave()
            left = await self._settled()
            await self._all_leave(await Connection.open(self._contender.broker.port))
            return [joined, left, meter.seconds(), longest_pause_ms(self._contender)]
        finally:
            for task in self._tasks.values():
                task.cancel()
            for each in connections:
                each.close()

    async def _all_leave(self, connection: Connection) -> None:
        """Remove all members. A LeaveGroup request can remove members of both protocols."""
        members = [MemberIdentity(member_id=each.member_id) for each in self._tasks]
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        request = LeaveGroupRequest(group_id=self._group, members=members)
        answer = await connection.ask("LeaveGroup", 5, request, LeaveGroupResponse)
        assert not any(each.error_code for each in answer.members)
        connection.close()

    async def _settled(self) -> float:
        """Wait until the group has settled, and return the seconds."""
        started = time.monotonic()
        while not self._is_settled():
            assert time.monotonic() < started + PATIENCE_SECONDS, "the group does not settle"
            for task in self._tasks.values():
                if task.done():
                    task.result()
            await asyncio.sleep(POLL_SECONDS)
        return time.monotonic() - started

    def _is_settled(self) -> bool:
        members = list(self._tasks)
        if members[0].generation < 0 or len({each.generation for each in members}) > 1:
            return False
        total = sum(TOPICS.values())
        owned = [place for each in members for place in each.owned]
        if len(owned) < total or len(set(owned)) < len(owned):
            return False
        sizes = [len(each.owned) for each in members]
        return max(sizes) - min(sizes) <= 1


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    members = environment.scaled(MEMBERS)
    for contender in environment.contenders:
        make_topics(contender.broker, TOPICS)
        wait_for_coordinators(contender.broker)
    numbers = itertools.count()
    figures = []
    for protocol in KINDS:
        measured = quantities(protocol)

        def one_round(contender: Contender, protocol: str = protocol) -> Mapping[str, float]:
            group = f"{protocol}-{next(numbers)}"
            values = asyncio.run(Trial(contender, protocol, group, members).run())
            pairs = zip(quantities(protocol), values, strict=True)
            return {each.name: value for each, value in pairs if value is not None}

        figures += environment.play("settle", measured, one_round)
    return figures
