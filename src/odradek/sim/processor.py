"""A client that reads records and writes records in the same transactions, as Kafka Streams does.

Its positions are committed with the transaction, so each record that is there is processed by one
committed transaction, exactly once and in order.
"""

from __future__ import annotations

from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import SimClient
from odradek.sim.facts import Facts, Fate, Reading, Transaction
from odradek.sim.membership import committed_offsets
from odradek.sim.reading import READ_COMMITTED, fetch
from odradek.sim.simulation import Simulation
from odradek.sim.workload import NOT_NOW, TransactionalProducer

STEPS = (False, True, False, True)
"""What a transaction does, in a random order: True for a write, False for a read."""
COMMITTED_SHARE = 0.8
ABANDONED_SHARE = 0.15
"""The fraction of transactions after which the client begins anew, from its committed positions."""
_WAIT_MS = 20


class Processor(TransactionalProducer):
    """Reads all partitions with read_committed, and writes to them."""

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        partitions: list[TopicPartition],
    ) -> None:
        super().__init__(simulation, client, facts, partitions)
        self._positions: dict[TopicPartition, int] = {}
        """Where the next transaction begins to read."""
        self._next: dict[TopicPartition, int] = {}
        """The positions after the open transaction."""

    async def run(self) -> None:
        """See `Actor`."""
        self._producer = self._new_producer()
        await self._begin_epoch()
        while not self.is_stopping:
            await self._transact()
            await self.pause(0.6)

    async def _begin_epoch(self) -> None:
        """Begin anew, from the committed positions."""
        await super()._begin_epoch()
        found = await self._committed()
        self._positions = {each: found.get(each, 0) for each in self._partitions}

    async def _committed(self) -> dict[TopicPartition, int]:
        while True:
            try:
                return await committed_offsets(self.client, self.group, self._partitions)
            except ClientError:
                await self.pause()

    async def _work(self, transaction: Transaction) -> bool | None:
        self._next = dict(self._positions)
        for is_write in self.random.sample(STEPS, len(STEPS)):
            partition = self.random.choice(self._partitions)
            if is_write:
                await self._add(transaction, partition)
            else:
                position = self._next[partition]
                self._next[partition] = await self._read(transaction, partition, position)
        changed = {each: at for each, at in self._next.items() if at != self._positions[each]}
        if changed:
            await self._commit_offsets(changed)
        if self.random.random() < ABANDONED_SHARE:
            return None
        return self.random.random() < COMMITTED_SHARE

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        await super()._end(transaction, is_commit=is_commit)
        if transaction.fate is Fate.COMMITTED:
            self._positions = self._next
            self.facts.count("processed", len(transaction.readings))

    async def _read(
        self, transaction: Transaction, partition: TopicPartition, position: int
    ) -> int:
        """Read what is there, and return the next position."""
        try:
            found = await fetch(self.client, partition, position, READ_COMMITTED, _WAIT_MS)
        except ClientError:
            return position
        if found.error_code:
            if found.error_code not in NOT_NOW:
                self.unexpected("Fetch", found.error_code)
            return position
        for offset, value in found.values:
            self.facts.consume(Reading(partition, offset, value), transaction.readings)
        return found.next_offset
