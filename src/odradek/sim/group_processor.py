"""Processors in one consumer group, which read, process and write in transactions (KIP-447).

    member:    Assigned ....................... Revoked
    producer:       begin  read  send  offsets  commit   (the next owner fetches the offsets, when stable)

The group moves partitions from one processor to another all the time: processors leave, crash, and are
paused longer than their sessions last, at any step of a transaction. Each record of the input must be
processed by exactly one committed transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from odradek.client.core.consumed_batch import Batch
from odradek.client.core.member_events import Assigned, Joined, MemberEvent
from odradek.client.errors import ClientError
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.sim.checks import Contents
from odradek.sim.driver import SimClient
from odradek.sim.facts import Facts, Fate, Reading, Transaction
from odradek.sim.membership import SimConsumer
from odradek.sim.simulation import Simulation
from odradek.sim.workload import FENCED, TransactionalProducer

GROUP, INPUT, OUTPUT = "processors", "events", "results"
RECORDS_MAX = 8
"""The number of records of a batch."""
BATCHES_MAX = 4
LEAVING_SHARE, CRASHING_SHARE = 0.08, 0.06
"""The fractions of transactions after which a processor leaves the group, or begins as a new process."""
PAUSE_SHARE = 0.05
"""The fraction of steps after which the process is paused."""
PAUSE_NS = (200_000_000, 2_500_000_000)
_OF = " of "


class GroupProcessor(TransactionalProducer):
    """One processor."""

    expected = FENCED | {E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION}

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        partitions: list[TopicPartition],
        kind: str,
    ) -> None:
        """`partitions` are those of the output. `kind` is that of the members of the group."""
        super().__init__(simulation, client, facts, partitions)
        self.is_draining = False
        """Whether the processor does nothing but work."""
        self._kind = kind
        self._positions: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        self._consumer = self._new_consumer()

    def _new_consumer(self) -> SimConsumer:
        return SimConsumer(self.client, GROUP, [INPUT], self._kind, RECORDS_MAX)

    async def run(self) -> None:
        """See `Actor`."""
        self._producer = self._new_producer()
        await self._begin_epoch()
        while not self.is_stopping:
            await self._turn()
            await self.pause(0.2)
        await self._consumer.leave()

    def drain(self) -> None:
        """From now on, do nothing but work."""
        self.is_draining = True

    @property
    def processed(self) -> Mapping[TopicPartition, int]:
        """Up to where the records of each assigned partition are processed."""
        return self._positions

    async def _turn(self) -> None:
        while (event := await self._consumer.poll()) is not None:
            await self._adopt(event)
            self._consumer.done()
        await self._transact()
        if self._happens(LEAVING_SHARE):
            self.facts.count("processors that left")
            await self._consumer.leave()
            self._join_anew()
        elif self._happens(CRASHING_SHARE):
            await self._crash()

    async def _adopt(self, event: MemberEvent) -> None:
        """Read what is assigned from the committed positions, and nothing else."""
        assert not isinstance(event, Joined)
        if not isinstance(event, Assigned):
            for each in event.partitions:
                self._positions.pop(each, None)
            self.facts.count(f"processors told {type(event).__name__}")
            return
        self._positions.update(await self._consumer.positions(event.partitions))
        self.facts.count("processors told Assigned")

    async def _crash(self) -> None:
        """Begin again, as a new process with the same transactional id."""
        self.facts.count("processors that crashed")
        self._consumer.close()
        self._join_anew()
        await self._restart()

    def _join_anew(self) -> None:
        self._positions.clear()
        self._consumer = self._new_consumer()

    def _happens(self, share: float) -> bool:
        return not self.is_draining and self.random.random() < share

    def _step(self) -> None:
        """In some cases pause the process a moment later."""
        if self._happens(PAUSE_SHARE):
            loop = self.client.loop
            begin_ns, pause_ns = self.random.randint(0, 5_000_000), self.random.randint(*PAUSE_NS)
            self.simulation.after(begin_ns, loop.pause)
            self.simulation.after(begin_ns + pause_ns, loop.resume)
            self.facts.count("processors paused")

    # -- transactions ---------------------------------------------------------------------------

    async def _work(self, transaction: Transaction) -> bool | None:
        """Process some records of each partition."""
        self._next = dict(self._positions)
        for _ in range(self.random.randint(1, BATCHES_MAX)):
            batch = self._consumer.take()
            if batch is not None:
                self._read(transaction, batch)
        self._step()
        for partition, offset, _ in transaction.inputs:
            target = self._partitions[partition.partition % len(self._partitions)]
            await self._add(
                transaction, target, f"{_OF}{partition.topic} {partition.partition} {offset}"
            )
        self._step()
        changed = {each: at for each, at in self._next.items() if at != self._positions[each]}
        if changed:
            await self._producer.add_offsets(changed, self._consumer.identity)
        self._step()
        return not self._happens(0.1)

    def _read(self, transaction: Transaction, batch: Batch) -> None:
        partition = batch.topic_partition
        if batch.first_offset < self._next[partition]:
            self.facts.violations.append(
                f"{self.name} read {partition} from {batch.first_offset}, after it had read to"
                f" {self._next[partition]}"
            )
        for record in batch:
            value = (record.value or b"").decode()
            self.facts.consume(Reading(partition, record.offset, value), transaction.inputs)
        self._next[partition] = batch.next_offset

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        await super()._end(transaction, is_commit=is_commit)
        if transaction.fate is Fate.COMMITTED:
            self._positions.update(self._next)
            self.facts.count("processed in a group", len(transaction.inputs))
        else:
            self._go_back()

    def _go_back(self) -> None:
        """Read what an aborted transaction has read again."""
        for partition, position in self._positions.items():
            if self._next.get(partition, position) != position:
                self._consumer.seek(partition, position)

    async def _recover(self, transaction: Transaction, error: ClientError) -> None:
        """Go on. The positions are those of before the transaction, except if its outcome is unknown."""
        await super()._recover(transaction, error)
        if transaction.fate is Fate.ABORTED:
            self._go_back()
        else:
            self._consumer.close()
            self._join_anew()


def processed_twice_or_never(logs: Mapping[TopicPartition, Contents]) -> Iterator[str]:
    """Yield the records of the input that are not in the output exactly once."""
    counts: Counter[tuple[TopicPartition, int]] = Counter()
    for partition, contents in logs.items():
        if partition.topic == OUTPUT:
            for _, value in contents.committed:
                topic, index, offset = value.partition(_OF)[2].split()
                counts[TopicPartition(topic, int(index)), int(offset)] += 1
    for partition, contents in logs.items():
        if partition.topic == INPUT:
            for place, text in contents.committed:
                count = counts.pop((partition, place), 0)
                if count != 1:
                    yield f"{partition} offset {place}: {text!r} was processed {count} times"
    for partition, place in counts:
        yield f"{partition} has no record at offset {place}, which was processed"
