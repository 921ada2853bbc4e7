"""The transaction coordinator: passes requests to state machines and writes markers.

A transactional id belongs to a partition of `__transaction_state`, depending on its hash
(`placement`). The leader of the partition coordinates the transactional id. There is one state
machine per partition. A state machine orders markers at the end of a transaction; this module sends
them with a `MarkerSender`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.coordinator import Coordinator, settled
from odradek.broker.coordinator.log import CoordinatorTopic
from odradek.broker.coordinator.marker_sender import MarkerSender
from odradek.broker.coordinator.producer_ids import ProducerIds
from odradek.broker.coordinator.shard import Answer, Shard, ShardState
from odradek.config.broker_config import BrokerConfig
from odradek.core.transaction.completion import Order
from odradek.core.transaction.initialization import validate
from odradek.core.transaction.listing import Filter
from odradek.core.transaction.machine import TransactionMachine
from odradek.core.transaction.markers import Marker, Results
from odradek.core.transaction.state import TransactionState
from odradek.core.transaction.transaction import Partitions
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import TRANSACTION_TOPIC
from odradek.wire.generated.describe_transactions_response import (
    TransactionState as DescribedTransaction,
)
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.list_transactions_response import (
    TransactionState as ListedTransaction,
)

log: Final = logging.getLogger("odradek.transaction")


class TransactionCoordinator(Coordinator[TransactionMachine]):
    """The transactional ids that this broker coordinates. Use it only on the event loop's thread.

    The method for an API returns the data for the API's handler, or a future of the data. The
    method may raise an `ApiError`, and the future may fail with an `ApiError`. Handlers put the
    error into the response.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        topic: CoordinatorTopic,
        producer_ids: ProducerIds,
        markers: MarkerSender,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        on_loaded: Callable[[int], None] = lambda records: None,
    ) -> None:
        self._producer_ids = producer_ids
        self._markers = markers
        super().__init__(
            TRANSACTION_TOPIC,
            topic,
            config.transaction_state_log_num_partitions,
            config,
            ShardContext(
                loop,
                clock,
                executor,
                config.request_timeout_ms,
                shares_batches=False,
                on_loaded=on_loaded,
            ),
            config.transaction_state_log_load_buffer_size,
        )

    def _make_machine(self, partition: int) -> TransactionMachine:
        state = TransactionState(self._config, self._clock, self._producer_ids.take_now, _note)
        machine = TransactionMachine(state)
        machine.completion.listen(partial(self._loop.call_soon, self._send, partition))
        return machine

    # -- elections ----------------------------------------------------------------------------

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """See `Coordinator`. A loaded partition goes on with the new coordinator epoch."""
        super().on_election(partition, leader_epoch)
        shard = self.runtime.find(partition)
        if shard is not None:
            shard.machine.completion.resume_all()

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """See `Coordinator`. The next coordinator sends the markers."""
        super().on_resignation(partition, leader_epoch)
        if not self.runtime.holds(partition):
            self._markers.drop(partition)

    # -- operations ----------------------------------------------------------------------------

    def _shard(self, transactional_id: str) -> Shard[TransactionMachine]:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        return super()._shard(transactional_id)

    def initialize(self, request: InitProducerIdRequest) -> Answer:
        """Perform InitProducerId with a transactional id.

        Return a coroutine if no producer id is available yet.
        """
        validate(request, self._config)
        if not self._producer_ids.is_available:
            return self._initialize_later(request)
        return self._initialize(request)

    async def _initialize_later(self, request: InitProducerIdRequest) -> Any:
        await self._producer_ids.wait()
        answer = self._initialize(request)
        return await answer if isinstance(answer, asyncio.Future) else answer

    def _initialize(self, request: InitProducerIdRequest) -> Answer:
        transactional_id = request.transactional_id
        assert transactional_id is not None
        shard = self._shard(transactional_id)
        return shard.write(shard.machine.initialization.initialize, request)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        client_version: int,
    ) -> Answer:
        """Add partitions to a transaction (AddPartitionsToTxn and AddOffsetsToTxn)."""
        shard = self._shard(transactional_id)
        return shard.write(
            shard.machine.membership.add,
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            client_version,
        )

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Partitions
    ) -> Answer:
        """Verify that partitions belong to a transaction (AddPartitionsToTxn with `verify_only`).

        The result of each partition is NONE or TRANSACTION_ABORTABLE.
        """
        shard = self._shard(transactional_id)
        return shard.write(
            shard.machine.membership.verify,
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
        )

    def end(self, request: EndTxnRequest, client_version: int) -> Answer:
        """Perform EndTxn; return an EndTxnResponse when the decision is committed."""
        shard = self._shard(request.transactional_id)
        return shard.write(
            shard.machine.ending.end,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            client_version,
        )

    # -- markers ------------------------------------------------------------------------------

    def _send(self, partition: int) -> None:
        """Send the markers that the state machine of a partition has ordered."""
        shard = self.runtime.find(partition)
        if shard is None:
            return  # the partition was unloaded; the next coordinator orders the markers again
        epoch = self.runtime.epoch(partition)
        for order in shard.machine.completion.take_orders():
            marker = Marker(
                order.producer_id,
                order.producer_epoch,
                epoch,
                order.committed,
                order.client_version,
                order.partitions,
            )
            results = self._markers.send(order.leader, partition, marker)
            if isinstance(results, asyncio.Future):
                results.add_done_callback(partial(self._on_settled, shard, order, partition, epoch))
            else:
                self._on_written(shard, order, partition, epoch, results)

    def _on_settled(
        self,
        shard: Shard[TransactionMachine],
        order: Order,
        partition: int,
        epoch: int,
        done: asyncio.Future[Results],
    ) -> None:
        if not done.cancelled():
            self._on_written(shard, order, partition, epoch, done.result())

    def _on_written(
        self,
        shard: Shard[TransactionMachine],
        order: Order,
        partition: int,
        epoch: int,
        results: Results,
    ) -> None:
        """Report the results of an order; `epoch` is the coordinator epoch of its markers."""
        if shard.state is not ShardState.ACTIVE:
            return
        for name, error in results.items():
            if error is not ErrorCode.NONE:
                log.info(
                    "%s: no marker for producer %d in %s yet: %s",
                    order.transactional_id,
                    order.producer_id,
                    name,
                    error.name,
                )
        is_newest = epoch == self.runtime.epoch(partition)
        try:
            answer = shard.write(shard.machine.completion.on_written, order, results, is_newest)
        except ApiError as error:
            log.warning("%s: cannot be completed yet: %s", order.transactional_id, error)
            return
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(_take_note)

    # -- administration -----------------------------------------------------------------------

    async def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return one result of DescribeTransactions, which may contain an error."""
        try:
            shard = self._shard(transactional_id)
            described = shard.machine.listing.describe(transactional_id)
            found: DescribedTransaction = await settled(shard.read(described))
        except ApiError as error:
            return DescribedTransaction(transactional_id=transactional_id, error_code=error.code)
        return found

    async def list(self, wanted: Filter) -> list[ListedTransaction]:
        """Return the transactional ids that this broker coordinates (ListTransactions).

        Raises:
            ApiError: see `_listed`.
        """
        return await self._listed(lambda machine: machine.listing.list(wanted))

    def count_by_phase(self) -> Counter[str]:
        """Return the number of transactional ids by phase."""
        counts: Counter[str] = Counter()
        for machine in self.runtime.machines():
            counts += machine.count_by_phase()
        return counts

    @property
    def ending_count(self) -> int:
        """Number of transactions whose markers are being written."""
        return sum(machine.completion.count for machine in self.runtime.machines())


def _take_note(done: asyncio.Future[Any]) -> None:
    """Log that the end of a transaction could not be written. The state machine retries."""
    error = None if done.cancelled() else done.exception()
    if error is not None:
        log.warning("the end of a transaction is not written yet: %s", error)


def _note(transactional_id: str, text: str) -> None:
    log.info("%s: %s", transactional_id, text)
