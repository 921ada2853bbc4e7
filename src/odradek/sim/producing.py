"""The producer of the simulation: the shipped machines, which an actor uses as a program uses `Producer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.client.core.operation import Operation
from odradek.client.core.producer import ProducerMachine
from odradek.client.core.producer_batch import Delivery, ProducerIdentity
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.core.transaction import TransactionMachine
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import TIMEOUT_MS, SimClient

Initialized = Callable[[ProducerIdentity], None]


class SimProducer:
    """A producer of a simulated client."""

    def __init__(
        self,
        client: SimClient,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        delivery_timeout_ms: int = 120_000,
        on_identity: Initialized | None = None,
    ) -> None:
        """`on_identity` is called with each producer id and epoch of a transactional producer."""
        self._client = client
        self._on_identity = on_identity
        self._identity: ProducerIdentity | None = None
        settings = ProducerSettings(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=TIMEOUT_MS,
            creates_topics=False,
        )
        self._machine = ProducerMachine(settings, client.routes, client.random_number)
        client.add(self._machine)

    @property
    def identity(self) -> ProducerIdentity | None:
        """The producer id and the epoch; None while there is none."""
        return self._machine.identity

    @property
    def transaction(self) -> TransactionMachine:
        """The transactions of a transactional producer."""
        assert self._machine.transaction is not None
        return self._machine.transaction

    async def send(self, partition: TopicPartition, value: str) -> Delivery:
        """Add a record to the batch of its partition.

        Raises:
            ClientError: the transaction must be aborted, or the producer has failed.
        """
        records, clock = self._machine.records, self._client.clock
        name, index = partition
        if self._machine.error is not None:
            raise self._machine.error
        data = value.encode()
        delivery = records.offer(name, index, None, data, None, clock.now_ms(), None)
        if delivery is not None:
            return delivery
        while (topic := records.topic(name, clock.monotonic_ms())) is None:
            await self._client.until(lambda: records.topic(name, clock.monotonic_ms()) is not None)
        if self._machine.transaction is not None:
            self._machine.transaction.check_send()
        delivery = records.append(
            topic, index, None, data, None, clock.now_ms(), clock.monotonic_ms()
        )
        self._client.wake()
        return delivery

    async def flush(self) -> None:
        """Send all batches, and wait until each is written or has failed."""
        self._machine.records.flush()
        waiting = self._machine.unfinished()
        await self._client.until(lambda: all(each.done for each in waiting))

    def close(self) -> None:
        """Stop without an end of the transaction, as a process that is killed."""
        self._client.remove(self._machine)

    # -- transactions ---------------------------------------------------------------------------

    async def init(self) -> None:
        """Get a new epoch, which fences earlier producers.

        Raises:
            ClientError: the coordinator refuses.
        """
        await self._operate(self.transaction.init)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            ClientError: the producer has failed.
        """
        self._machine.records.must_check()
        self.transaction.begin()

    async def add_offsets(
        self, offsets: Mapping[TopicPartition, int], group: GroupMetadata
    ) -> None:
        """Commit offsets with the transaction.

        Raises:
            ClientError: the transaction must be aborted, or the producer has failed.
        """
        committed = {each: CommittedOffset(offset) for each, offset in offsets.items()}
        await self._operate(lambda: self.transaction.add_offsets(committed, group))

    async def end(self, *, is_commit: bool) -> None:
        """Commit or abort.

        Raises:
            ClientError: the transaction cannot be committed, or the producer has failed.
        """
        await self._operate(lambda: self.transaction.end(is_commit=is_commit))

    async def _operate(self, begin: Callable[[], Operation]) -> None:
        self._machine.records.must_check()
        operation = begin()
        await self._client.until(lambda: operation.done)
        self._machine.records.must_check()
        identity = self.transaction.identity
        if identity is not None and identity != self._identity and self._on_identity is not None:
            self._on_identity(identity)
        self._identity = identity
        if operation.error is not None:
            raise operation.error
