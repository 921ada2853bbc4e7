"""A client that reads records and writes records in the same transactions, as Kafka Streams does.

Its positions are committed with the transaction, so each record that is there is processed by one
committed transaction, exactly once and in order.
"""

from __future__ import annotations

from odradek.model.topic_partition import TopicPartition
from odradek.sim.client import Client
from odradek.sim.facts import Facts, Fate, Reading, Transaction
from odradek.sim.group_member import committed_offset
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
        self, simulation: Simulation, client: Client, facts: Facts, partitions: list[TopicPartition]
    ) -> None:
        super().__init__(simulation, client, facts, partitions)
        self._positions: dict[TopicPartition, int] = {}
        """Where the next transaction begins to read."""

    async def run(self) -> None:
        """See `Actor`."""
        await self._begin_epoch(None)
        while not self.is_stopping:
            await self._transact()
            await self.pause(0.6)

    async def _begin_epoch(self, known: tuple[int, int] | None) -> None:
        """Begin an epoch. Without a known one, the outcome of the last transaction is not known, and
        the positions are read again."""
        await super()._begin_epoch(known)
        if known is None:
            self._positions = {each: await self._committed(each) for each in self._partitions}

    async def _committed(self, partition: TopicPartition) -> int:
        while True:
            offset = await committed_offset(self, self.group, partition)
            if offset is not None:
                return max(0, offset)

    async def _transact(self) -> None:
        self._number += 1
        transaction = Transaction(f"{self.name}/{self._number}")
        self.facts.transactions.append(transaction)
        positions = dict(self._positions)
        for is_write in self.random.sample(STEPS, len(STEPS)):
            partition = self.random.choice(self._partitions)
            if is_write:
                if not await self._add(transaction, partition):
                    await self._give_up(transaction)
                    return
            else:
                positions[partition] = await self._read(
                    transaction, partition, positions[partition]
                )
        changed = {each: at for each, at in positions.items() if at != self._positions[each]}
        if changed and not await self._commit_offsets(changed):
            await self._give_up(transaction)
            return
        if self.random.random() < ABANDONED_SHARE:
            await self._give_up(transaction)
            return
        await self._end(transaction, is_commit=self.random.random() < COMMITTED_SHARE)
        if transaction.fate is Fate.COMMITTED:
            self._positions = positions
            self.facts.count("processed", len(transaction.readings))

    async def _read(
        self, transaction: Transaction, partition: TopicPartition, position: int
    ) -> int:
        """Read what is there, and return the next position."""
        try:
            found = await fetch(self.client, partition, position, READ_COMMITTED, _WAIT_MS)
        except OSError:
            return position
        if found.error_code:
            if found.error_code not in NOT_NOW:
                self.unexpected("Fetch", found.error_code)
            return position
        for offset, value in found.values:
            self.facts.consume(Reading(partition, offset, value), transaction.readings)
        return found.next_offset
