"""Sends the markers of this broker's transaction coordinator to the leaders of partitions.

Markers for partitions that this broker leads are written directly (`markers`). Markers for other
brokers are collected in `MarkerQueues` and sent with WriteTxnMarkers, one request at a time to each
broker. If a broker does not respond, the results of its markers are empty. Then the coordinator's
state machine requests the markers again, and they are sent to the current leaders.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

from odradek.broker.coordinator.markers import MarkerWriter
from odradek.broker.peers.channels import BrokerChannels, BrokerUnreachable, UnsupportedByBroker
from odradek.core.transaction.markers import Marker, MarkerQueues, QueuedMarker, Results
from odradek.wire.generated.write_txn_markers_request import WriteTxnMarkersRequest
from odradek.wire.generated.write_txn_markers_response import WriteTxnMarkersResponse

log: Final = logging.getLogger("odradek.transaction")


class MarkerSender:
    """Sends markers to leaders. Use it only on the event loop's thread."""

    def __init__(
        self,
        node_id: int,
        writer: MarkerWriter,
        channels: BrokerChannels,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`channels` must be used by no one else."""
        self._node_id = node_id
        self._writer = writer
        self._channels = channels
        self._loop = loop
        self._queues = MarkerQueues()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The tasks that send, by broker. A task ends when no marker waits."""

    def send(
        self, leader: int, coordinator_partition: int, marker: Marker
    ) -> Results | asyncio.Future[Results]:
        """Send a marker; return the results, or a future of the results.

        The broker `leader` leads all partitions of the marker.
        """
        if leader == self._node_id:
            return self._writer.write(marker)
        future: asyncio.Future[Results] = self._loop.create_future()
        self._queues.add(leader, QueuedMarker(coordinator_partition, marker, future))
        if leader not in self._tasks:
            # The task begins after the markers of this iteration of the event loop were added.
            self._tasks[leader] = self._loop.create_task(self._send_all(leader))
        return future

    def drop(self, coordinator_partition: int) -> None:
        """Send no more markers for a partition that another broker coordinates now."""
        for future in self._queues.drop(coordinator_partition):
            future.cancel()

    async def _send_all(self, broker_id: int) -> None:
        """Send requests to a broker until no marker waits."""
        try:
            while (request := self._queues.begin(broker_id)) is not None:
                response = None
                try:
                    response = await self._ask(broker_id, request)
                finally:  # also after an unexpected error: the markers are ordered again
                    self._finish(broker_id, response)
        finally:
            del self._tasks[broker_id]

    def _finish(self, broker_id: int, response: WriteTxnMarkersResponse | None) -> None:
        for future, results in self._queues.finish(broker_id, response):
            if not future.done():
                future.set_result(results)

    async def _ask(
        self, broker_id: int, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse | None:
        try:
            response = await self._channels.ask(broker_id, request, request.VERSION_MIN)
        except (BrokerUnreachable, UnsupportedByBroker) as error:
            log.info("broker %d got no markers, or has not responded: %s", broker_id, error)
            return None
        return cast("WriteTxnMarkersResponse", response)
