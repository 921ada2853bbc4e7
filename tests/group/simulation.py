"""Simulates members that join, crash and leave at random, and checks invariants."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from tests.group.support import (
    PARTITIONS,
    Coordinator,
    commit_request,
    heartbeat_request,
    leave_request,
)

from odradek.model.errors import ApiError, ErrorCode

GROUP = "simulated"
PARTITION = ("topic", 0)
OWN = ("range", b"not read")
RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


@dataclass
class History:
    """What members were told; breaks on the first contradiction."""

    trace: list[str] = field(default_factory=list)
    life: int = 0
    """Counts coordinators: a generation that none has stored, the next one may use again."""
    leaders: dict[tuple[int, int], str] = field(default_factory=dict)
    given: dict[int, list[dict[str, bytes]]] = field(default_factory=dict)
    """By generation: what its leader handed in."""
    attempted: int = 0
    """The offset of the latest commit; each has another."""
    possible: set[int] = field(default_factory=lambda: {-1})
    """The offsets that may be committed now: the last confirmed one, and those in doubt."""
    settled: set[int] = field(default_factory=lambda: {-1})
    """The offsets whose commits are over, however they ended."""

    def joined(self, answer) -> None:
        generation = answer.generation_id
        leader = self.leaders.setdefault((self.life, generation), answer.leader)
        assert leader == answer.leader, f"two leaders in generation {generation}"
        assert (answer.member_id == answer.leader) == bool(answer.members)
        self.trace.append(f"{answer.member_id} in {generation} of {len(answer.members)}")

    def handed_in(self, generation: int, assignment: dict[str, bytes]) -> None:
        self.given.setdefault(generation, []).append(assignment)

    def assigned(self, generation: int, member_id: str, assignment: bytes) -> None:
        possible = [each.get(member_id, b"") for each in self.given[generation]]
        assert assignment in possible, f"{member_id} got {assignment!r} in {generation}"
        self.trace.append(f"{member_id} has {assignment!r}")


class Member:
    """A client that never gives up, until it crashes or leaves."""

    def __init__(self, simulation: Simulation, name: int, is_static: bool) -> None:
        self.simulation = simulation
        self.instance_id = f"instance-{name}" if is_static else None
        self.version = simulation.random.choice((3, 4, 8, 9))
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self.task = simulation.coordinator.loop.create_task(self._live())

    def crash(self) -> None:
        """Say nothing any more."""
        self.task.cancel()

    async def leave(self) -> None:
        self.crash()
        if self.member_id:
            request = leave_request(GROUP, (self.member_id, self.instance_id))
            await self._ask(lambda: self.simulation.coordinator.groups.leave(request))

    async def _live(self) -> None:
        while True:
            self.assignment = None
            if await self._join() and await self._stay():
                return

    async def _join(self) -> bool:
        history = self.simulation.history
        answer = await self._ask(
            lambda: self.simulation.coordinator.join(
                GROUP,
                self.member_id,
                instance_id=self.instance_id,
                version=self.version,
                protocols=(OWN,),
                rebalance_timeout_ms=20_000,
            )
        )
        error = answer if isinstance(answer, ErrorCode) else answer.error_code
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return False
        if error:
            if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
                self.member_id = ""
            await asyncio.sleep(0.1)
            return False
        history.joined(answer)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assignment = None
        if answer.members and not answer.skip_assignment:
            assignment = {
                each.member_id: f"{self.generation}:{each.member_id}".encode()
                for each in answer.members
            }
            history.handed_in(self.generation, assignment)
        await asyncio.sleep(self.simulation.random.random())
        sync = await self._ask(
            lambda: self.simulation.coordinator.sync(
                GROUP,
                self.member_id,
                self.generation,
                assignment,
                group_instance_id=self.instance_id,
            )
        )
        if isinstance(sync, ErrorCode) or sync.error_code:
            return False
        if not answer.skip_assignment and self.instance_id is None:
            history.assigned(self.generation, self.member_id, sync.assignment)
        self.assignment = sync.assignment
        return True

    async def _stay(self) -> bool:
        """Send heartbeats and commits until told to join again."""
        while True:
            await asyncio.sleep(1 + self.simulation.random.random())
            if self.simulation.random.random() < 0.3:
                await self._commit()
            error = await self._heartbeat()
            if error in RETRIED:
                continue
            if error is ErrorCode.FENCED_INSTANCE_ID:
                return True
            if error is not ErrorCode.NONE:
                if error is not ErrorCode.REBALANCE_IN_PROGRESS:
                    self.member_id = ""
                return False

    async def _heartbeat(self) -> ErrorCode:
        request = heartbeat_request(GROUP, self.member_id, self.generation, self.instance_id)
        answer = await self._ask(lambda: self.simulation.coordinator.groups.heartbeat(request))
        return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)

    async def _commit(self) -> None:
        coordinator, history = self.simulation.coordinator, self.simulation.history
        history.attempted += 1
        offset = history.attempted
        overwritten = history.possible & history.settled
        history.possible.add(offset)
        request = commit_request(
            GROUP,
            {PARTITION: offset},
            member_id=self.member_id,
            generation=self.generation,
            instance_id=self.instance_id,
        )
        try:
            answer = await self._ask(
                lambda: coordinator.groups.commit_offsets(coordinator.context(9), request)
            )
            if not isinstance(answer, ErrorCode):
                history.possible -= overwritten
        finally:
            history.settled.add(offset)

    async def _ask(self, question):
        """The answer, or an error code; as over a network that takes its time."""
        await asyncio.sleep(self.simulation.random.random() / 100)
        try:
            answer = question()
            if isinstance(answer, asyncio.Future):
                answer = await answer
        except ApiError as error:
            return error.code
        return answer


class Simulation:
    """A coordinator that is restarted and refused, and its members."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.coordinator = Coordinator(
            seed=seed,
            group_initial_rebalance_delay_ms=self.random.choice((0, 500, 3000)),
        )
        self.history = History()
        self.members: list[Member] = []
        self.names = 0

    def run(self, steps: int) -> list[str]:
        """Live through a history; returns its trace."""
        try:
            for _ in range(steps):
                self._act()
                self.coordinator.run(self.random.randrange(3000))
                self.check()
            self._settle()
        finally:
            for each in self.members:
                each.crash()
            self.coordinator.close()
        return self.history.trace

    def _act(self) -> None:
        dice = self.random.random()
        loop = self.coordinator.loop
        if dice < 0.35 and len(self.members) < 8:
            self.names += 1
            self.members.append(Member(self, self.names, self.random.random() < 0.3))
        elif dice < 0.5 and self.members:
            self.members.pop(self.random.randrange(len(self.members))).crash()
        elif dice < 0.6 and self.members:
            member = self.members.pop(self.random.randrange(len(self.members)))
            loop.run_until_complete(member.leave())
        elif dice < 0.65:
            self.coordinator.restart()
            self.history.life += 1
        elif dice < 0.75:
            self._set_refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        else:
            self._set_refusal(None)

    def _set_refusal(self, refusal: ErrorCode | None) -> None:
        for partition in range(PARTITIONS):
            self.coordinator.topic.partition(partition).refusal = refusal

    def check(self) -> None:
        """What holds at every moment."""
        for member in self.members:
            if member.task.done():
                member.task.result()
        committed = self.coordinator.committed(GROUP, [PARTITION])
        if isinstance(committed, dict):
            assert committed[PARTITION] in self.history.possible, "a commit is lost or made up"
        group = self.coordinator.machine(GROUP).state.groups.get(GROUP)
        if group is not None:
            waiting = [each for each in group.members.values() if each.join_ticket is not None]
            assert group.awaiting_join == len(waiting)
            assert set(group.static_members.values()) <= set(group.members)
            assert (group.leader_id in group.members) == bool(group.members)
            assert set(group.pending_sync) <= set(group.members)
            for name, count in group.protocol_support.items():
                speakers = [m for m in group.members.values() if name in m.protocol_names]
                assert count == len(speakers)

    def _settle(self) -> None:
        """When writes succeed again, exactly the living members have an assignment."""
        self._set_refusal(None)
        self.coordinator.run(120_000)
        group = self.coordinator.machine(GROUP).state.groups.get(GROUP)
        living = {each.member_id for each in self.members if not each.task.done()}
        if not living:
            return
        assert set(group.members) == living
        assert group.state_name == "Stable"
        assert {each.generation for each in self.members} == {group.generation_id}
        parts = [each.assignment for each in self.members]
        assert len(set(parts)) == len(parts), "two members have the same part"
