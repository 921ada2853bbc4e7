"""Simulates producers that compete for transactional ids under failures, and checks invariants.

Each producer runs numbered transactions (attempts) that write to several partitions. The
coordinator is the real one. A `Place` is a simulated partition, which checks the epochs of
producers and coordinators as a log does. After any failure, all data of an attempt is committed, or
none of it.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from tests.transaction.support import PLACES, Coordinator

from odradek.core.transaction.markers import Marker
from odradek.core.transaction.transaction import EPOCH_MAX, gathered
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest

AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
NAMES = ("a", "b", "c")


class Place:
    """One partition that is written to: of each producer the epoch and the open attempts."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.coordinator_epochs: dict[int, int] = {}
        self.open: dict[int, set[int]] = {}
        self.committed: set[int] = set()
        self.aborted: set[int] = set()

    def write(self, producer: tuple[int, int], attempt: int) -> bool:
        producer_id, epoch = producer
        if epoch < self.epochs.get(producer_id, -1):
            return False
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, set()).add(attempt)
        return True

    def end(self, marker: Marker) -> ErrorCode:
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        known = self.epochs.get(producer_id, -1)
        is_open = producer_id in self.open
        is_late = marker.transaction_version >= 2 and epoch == known and is_open
        if epoch < known or (is_late and epoch != EPOCH_MAX):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < self.coordinator_epochs.get(producer_id, -1):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED  # sent before the coordinator crashed
        self.coordinator_epochs[producer_id] = marker.coordinator_epoch
        self.epochs[producer_id] = epoch
        attempts = self.open.pop(producer_id, set())
        (self.committed if marker.committed else self.aborted).update(attempts)
        return ErrorCode.NONE


class Places:
    """Takes the place of a marker writer: refuses now and then, answers late now and then."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.by_name = {name: Place() for name in PLACES}

    def send(self, leader: int, coordinator_partition: int, marker: Marker) -> Any:
        if self.simulation.random.random() < 0.5:
            return self._write(marker)
        return self.simulation.coordinator.loop.create_task(self._write_later(marker))

    async def _write_later(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        await asyncio.sleep(self.simulation.random.random() / 10)
        return self._write(marker)

    def _write(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        results = {}
        for name in marker.partitions:
            if self.simulation.is_rough and self.simulation.random.random() < 0.2:
                results[name] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                results[name] = self.by_name[name].end(marker)
        return results


@dataclass
class Simulation:
    """Everything of one history."""

    seed: int
    level: int = 2
    is_replicated: bool = False
    attempts: int = 0
    promised: dict[int, bool] = field(default_factory=dict)
    """What producers were told of an attempt: committed or aborted."""
    given: dict[tuple[int, int], str] = field(default_factory=dict)
    """(producer id, epoch) -> the client that it was given to."""
    is_rough: bool = True
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.coordinator = Coordinator(
            self.level,
            self.is_replicated,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=500,
        )
        self.places = Places(self)
        self.coordinator.markers = self.places  # type: ignore[assignment]
        self.coordinator.transactions._markers = self.places  # type: ignore[assignment]

    def play(self, steps: int) -> None:
        """Live through `steps` misfortunes, then let everything come to rest."""
        loop = self.coordinator.loop
        clients = [Client(self, name, is_rival) for name in NAMES for is_rival in (False, True)]
        tasks = [loop.create_task(client.live()) for client in clients]
        loop.run_until_complete(self._misfortunes(steps))
        self.is_rough = False
        for task in tasks:
            task.cancel()
        loop.run_until_complete(self._rest(tasks))

    async def _misfortunes(self, steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(self.random.random() / 20)
            choice = self.random.random()
            if choice < 0.03:
                self._crash()
            elif choice < 0.15:
                refusal = ErrorCode.NOT_ENOUGH_REPLICAS
                for partition in self.coordinator.topic.partitions.values():
                    partition.refusal = refusal if self.random.random() < 0.5 else None
            else:
                self._recover()

    def _crash(self) -> None:
        self.trace.append("crash")
        self.coordinator.transactions.shutdown()
        self.coordinator.start()

    def _recover(self) -> None:
        for partition in self.coordinator.topic.partitions.values():
            partition.refusal = None
            partition.commit()

    async def _rest(self, tasks: list[asyncio.Task[None]]) -> None:
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(200):  # transactions time out, markers are written
            self._recover()
            await asyncio.sleep(0.1)
        for name in NAMES:
            found = await self.coordinator.transactions.describe(name)
            assert found.transaction_state in {"", "Empty", "CompleteCommit", "CompleteAbort"}

    def check(self) -> None:
        """All or nothing, and as it was promised."""
        committed: set[int] = set()
        aborted: set[int] = set()
        for name, place in self.places.by_name.items():
            assert not any(place.open.values()), f"{name} has open transactions: {place.open}"
            committed |= place.committed
            aborted |= place.aborted
        assert not committed & aborted, f"half committed: {committed & aborted}"
        for attempt, is_committed in self.promised.items():
            assert attempt not in (aborted if is_committed else committed), f"lied about {attempt}"


class Client:
    """A producer that never gives up; two of them have each name."""

    def __init__(self, simulation: Simulation, name: str, is_rival: bool) -> None:
        self.simulation = simulation
        self.own_name = f"{name}'s rival" if is_rival else name
        self.name = name
        self.pause_s = 4.0 if is_rival else 0.1
        versions = (0, 2) if simulation.level == 2 else (0,)
        self.version = simulation.random.choice(versions)

    @property
    def transactions(self) -> Any:
        return self.simulation.coordinator.transactions

    async def live(self) -> None:
        while True:
            await asyncio.sleep(self.simulation.random.random() * self.pause_s)
            producer = await self._initialize()
            for _ in range(self.simulation.random.randrange(1, 6)):
                outcome = await self._transact(producer)
                if outcome is None:
                    break  # fenced, or lost: begin anew
                producer = outcome

    async def _ask(self, question: Any) -> Any:
        """The answer; an error that does not pass is one."""
        while True:
            await asyncio.sleep(self.simulation.random.random() / 50)
            try:
                answer = question()
                if asyncio.isfuture(answer) or asyncio.iscoroutine(answer):
                    answer = await answer
                code = getattr(answer, "error_code", 0)
                if not code:
                    return answer
                code = ErrorCode(code)
            except ApiError as error:
                code = error.code
            if code not in AGAIN:
                return code
            await asyncio.sleep(0.02)

    async def _initialize(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=3000)
        answer = await self._ask(lambda: self.transactions.initialize(request))
        producer = (answer.producer_id, answer.producer_epoch)
        owner = self.simulation.given.setdefault(producer, self.own_name)
        assert owner == self.own_name, f"{producer} is {owner} and {self.own_name}"
        return producer

    async def _transact(self, producer: tuple[int, int]) -> tuple[int, int] | None:
        simulation = self.simulation
        simulation.attempts += 1
        attempt = simulation.attempts
        for place in simulation.random.sample(
            PLACES, simulation.random.randrange(1, len(PLACES) + 1)
        ):
            partitions = gathered((place,))
            who = (self.name, *producer, partitions)
            added = await self._ask(
                lambda who=who: self.transactions.add_partitions(*who, self.version)
            )
            if isinstance(added, ErrorCode):
                return None
            if self.version < 2:
                verified = await self._ask(
                    lambda who=who: self.transactions.verify_partitions(*who)
                )
                if isinstance(verified, ErrorCode) or verified[place]:
                    return None
            if not simulation.places.by_name[place].write(producer, attempt):
                return None
        return await self._end(producer, attempt)

    async def _end(self, producer: tuple[int, int], attempt: int) -> tuple[int, int] | None:
        committed = self.simulation.random.random() < 0.7
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        answer = await self._ask(lambda: self.transactions.end(request, self.version))
        if isinstance(answer, ErrorCode):
            return None
        self.simulation.promised[attempt] = committed
        self.simulation.trace.append(f"{self.own_name} {attempt} {committed}")
        if self.version < 2:
            return producer
        successor = (answer.producer_id, answer.producer_epoch)
        owner = self.simulation.given.setdefault(successor, self.own_name)
        assert owner == self.own_name, f"{successor} is {owner} and {self.own_name}"
        return successor
