"""Processes with one transactional id, one after the other: each is struck in the middle of its work.

    first:   init  begin  send ... (killed, paused or cut off)                 goes on: fenced
    second:                             init  begin  send  offsets  (open) ............ commit

A process that was paused or cut off does not know that another one has taken its place. When the other
one has a transaction open in the same partitions, it goes on: a zombie. Nothing that it sends may become
visible. All processes are the client's own machines, and all are struck at every step of a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from odradek.client.core.producer_batch import ProducerIdentity
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import SimClient
from odradek.sim.facts import Facts, Transaction
from odradek.sim.network import SimNetwork
from odradek.sim.simulation import Simulation
from odradek.sim.workload import GROUP_PARTITION, Actor, TransactionalProducer

KILLED, PAUSED, CUT_OFF = "killed", "paused", "cut off"
KINDS = (KILLED, PAUSED, PAUSED, CUT_OFF)
STEPS = ("initializing", "begun", "sending", "sent", "with offsets", "ending", "ended")
"""The steps of a transaction. A process is struck a moment after it has begun the step."""
MOMENT_NS_MAX = 5_000_000
CUT_NS = (300_000_000, 1_500_000_000)
OPEN_S_MAX = 0.3
"""How long a process has its first transaction open at most, while the zombie goes on."""


class Process(TransactionalProducer):
    """One process of a succession."""

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        partitions: list[TopicPartition],
        transactional_id: str,
        on_identity: Callable[[str, ProducerIdentity], None],
    ) -> None:
        super().__init__(simulation, client, facts, partitions)
        self.transactional_id = transactional_id
        self.group = f"of {transactional_id}"
        self.is_over = False
        """Whether the process has ended, or goes on no more."""
        self.has_opened = False
        """Whether a transaction of this process is or was open in all partitions."""
        self.is_superseded = False
        """Whether another process has initialized the transactional id after this one."""
        self._on_identity = on_identity
        self._strike: tuple[str, Callable[[], None]] | None = None
        self._open: Transaction | None = None

    def strike_at(self, step: str, strike: Callable[[], None]) -> None:
        """Call `strike` once a moment after this step has begun."""
        self._strike = step, strike

    def supersede(self) -> None:
        """Note that another process has initialized the transactional id."""
        self.is_superseded = True

    def die(self) -> None:
        """End at once, as a process that is killed."""
        self.client.kill()
        self.is_over = True
        if self._open is not None:
            self._open.end(self._open.fate_without_end)

    def _reach(self, step: str) -> None:
        if self._strike is not None and self._strike[0] == step:
            strike, self._strike = self._strike[1], None
            self.simulation.after(self.random.randint(0, MOMENT_NS_MAX), strike)

    def _got(self, identity: ProducerIdentity) -> None:
        self._on_identity(self.name, identity)

    # -- transactions ---------------------------------------------------------------------------

    async def run(self) -> None:
        """See `Actor`."""
        self._producer = self._new_producer()
        self._reach("initializing")
        try:
            await self._begin_epoch()
        except ClientError:
            self.is_over = True  # a later process has fenced this one meanwhile
        while not self.is_stopping and not self.is_over:
            await self._transact()
            await self.pause(0.2)
        self.is_over = True

    async def _work(self, transaction: Transaction) -> bool | None:
        self._open = transaction
        is_late = self.is_superseded
        self._reach("begun")
        for partition in self.random.sample(self._partitions, len(self._partitions)):
            await self._add(transaction, partition)
            self._reach("sending")
        await self._producer.flush()
        self._reach("sent")
        await self._commit_offsets({GROUP_PARTITION: self._number})
        self._reach("with offsets")
        if not self.has_opened:
            self.has_opened = True
            await asyncio.sleep(self.random.uniform(0, OPEN_S_MAX))
        await self._add(transaction, self.random.choice(self._partitions))
        if is_late:
            await self._check_refused(transaction)
        self._reach("ending")
        return self.random.random() < 0.75

    async def _check_refused(self, transaction: Transaction) -> None:
        """Check that brokers have not accepted the records of a process that was fenced before them."""
        await self._producer.flush()
        if all(each.error is None for _, each in self._deliveries):
            self.facts.violations.append(f"{transaction.name} of a fenced process was accepted")

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        await super()._end(transaction, is_commit=is_commit)
        self._open = None
        self._reach("ended")

    async def _recover(self, transaction: Transaction, error: ClientError) -> None:
        await super()._recover(transaction, error)
        self._open = None

    async def _end_without_abort(self, transaction: Transaction) -> None:
        """End, because another process has the transactional id."""
        self.is_over = True
        transaction.end(transaction.fate_without_end)
        if self.is_superseded:
            self.facts.count("zombies fenced")


class Succession(Actor):
    """Starts the processes, and strikes them."""

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        partitions: list[TopicPartition],
        network: SimNetwork,
        nodes: Collection[str],
        new_client: Callable[[str], SimClient],
    ) -> None:
        """`nodes` are the names of the machines from which processes are cut off."""
        super().__init__(simulation, client, facts)
        self._partitions = partitions
        self._network = network
        self._nodes = nodes
        self._new_client = new_client
        self._processes: list[Process] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._identities: dict[ProducerIdentity, str] = {}

    async def run(self) -> None:
        """See `Actor`."""
        process = self._start()
        while not self.is_stopping:
            await self.pause(0.4)
            zombies = [process]
            await self._strike(process, self.random.choice(STEPS[1:]))
            if self.random.random() < 1 / len(STEPS):
                zombies.append(self._start())
                await self._strike(zombies[-1], STEPS[0])
            await self.pause()
            successor = self._start()
            await self._until(partial(_is_ready, successor))
            if successor.has_opened:
                process.supersede()
            for each in zombies:
                each.client.loop.resume()
            process = successor
        for each in self._processes:
            each.client.loop.resume()
            each.stop()
        await self._wait(lambda: all(each.is_over for each in self._processes))
        for task in self._tasks:
            if task.done():
                task.result()

    def _start(self) -> Process:
        client = self._new_client(f"{self.name}.{len(self._processes) + 1}")
        process = Process(
            self.simulation, client, self.facts, self._partitions, self.name, self._check_identity
        )
        self._processes.append(process)
        self._tasks.append(client.loop.create_task(process.run()))
        return process

    async def _strike(self, process: Process, step: str) -> None:
        """Strike a process at a step. Return when this has happened, or the process has ended."""
        kind = self.random.choice(KINDS)
        struck: list[str] = []

        def strike() -> None:
            if process.is_over or self.is_stopping:
                return
            struck.append(kind)
            self.facts.count(f"a process {kind} while {step}")
            self.simulation.note(process.name, f"is {kind} while {step}")
            if kind == KILLED:
                process.die()
            elif kind == PAUSED:
                process.client.loop.pause()
            else:
                duration_ns = self.random.randint(*CUT_NS)
                for node in self._nodes:
                    self._network.cut(process.name, node, duration_ns)
                    self._network.cut(node, process.name, duration_ns)

        process.strike_at(step, strike)
        await self._until(lambda: bool(struck) or process.is_over)

    async def _until(self, holds: Callable[[], bool]) -> None:
        await self._wait(lambda: holds() or self.is_stopping)

    async def _wait(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.01)

    def _check_identity(self, process: str, identity: ProducerIdentity) -> None:
        """Check that no other process has the same producer id and epoch."""
        owner = self._identities.setdefault(identity, process)
        if owner != process:
            self.facts.violations.append(f"{owner} and {process} have the same {identity}")


def _is_ready(process: Process) -> bool:
    return process.has_opened or process.is_over
