"""Asks transaction coordinators on other brokers whether partitions belong to transactions.

The questions are collected in `QuestionQueues` and sent with AddPartitionsToTxn, one request at a
time to each broker.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

from odradek.broker.peers.channels import BrokerChannels, BrokerUnreachable, UnsupportedByBroker
from odradek.core.coordinator.placement import partition_for
from odradek.core.metadata.registrations import NO_LEADER
from odradek.core.transaction.membership_questions import (
    Answer,
    Question,
    QuestionQueues,
    Results,
    version_min,
)
from odradek.core.transaction.transaction import Partitions
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import TRANSACTION_TOPIC
from odradek.wire.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse

log: Final = logging.getLogger("odradek.transaction")


class RemoteMembership:
    """Asks coordinators on other brokers. Use it only on the event loop's thread."""

    def __init__(
        self, node_id: int, channels: BrokerChannels, loop: asyncio.AbstractEventLoop
    ) -> None:
        """`channels` must be used by no one else."""
        self._node_id = node_id
        self._channels = channels
        self._loop = loop
        self._queues = QuestionQueues()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The tasks that send, by broker. A task ends when no question waits."""

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        *,
        adds: bool,
    ) -> asyncio.Future[Results]:
        """Ask the coordinator; return a future of the result of each partition.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE: no other broker coordinates the transactional id,
                or its broker is not alive; NOT_COORDINATOR: this broker is elected, but does not
                coordinate the id yet, or could not load it.
        """
        coordinator = self._coordinator(transactional_id)
        if coordinator == self._node_id:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        future: asyncio.Future[Results] = self._loop.create_future()
        question = Question(transactional_id, producer_id, producer_epoch, partitions, adds, future)
        _settle(self._queues.add(coordinator, question))
        if coordinator not in self._tasks:
            # The task begins after the questions of this iteration of the event loop were added.
            self._tasks[coordinator] = self._loop.create_task(self._send_all(coordinator))
        return future

    def _coordinator(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE.
        """
        image = self._channels.image
        topic = image.topics.by_name.get(TRANSACTION_TOPIC)
        leader = NO_LEADER
        if topic is not None:
            leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        if not image.cluster.is_alive(leader):
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader

    async def _send_all(self, broker_id: int) -> None:
        """Send requests to a broker until no question waits."""
        queues = self._queues
        try:
            while (request := queues.begin(broker_id)) is not None:
                response = None
                is_unsupported = False
                try:
                    response = await self._ask(broker_id, request)
                except UnsupportedByBroker as error:
                    log.warning("broker %d cannot verify transactions: %s", broker_id, error)
                    is_unsupported = True
                finally:  # also after an unexpected error: no question stays without an answer
                    if is_unsupported:
                        _settle(queues.finish_unsupported(broker_id))
                    else:
                        _settle(queues.finish(broker_id, response))
        finally:
            del self._tasks[broker_id]

    async def _ask(
        self, broker_id: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | None:
        """Return the response; None if there is none.

        Raises:
            UnsupportedByBroker: the broker does not know the version of the request.
        """
        try:
            response = await self._channels.ask(broker_id, request, version_min(request))
        except BrokerUnreachable as error:
            log.warning("transactions are not verified by broker %d: %s", broker_id, error)
            return None
        return cast("AddPartitionsToTxnResponse", response)


def _settle(answers: list[Answer]) -> None:
    for future, results in answers:
        if not future.done():
            future.set_result(results)
