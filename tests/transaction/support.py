"""A transaction coordinator over a topic in memory, on a loop whose time is a number.

Markers go to `Markers`, which keeps them and can refuse; producer ids come from a counter.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.coordinator.support import (
    MemoryTopic,
    OnALoop,
    VirtualLoop,
    image_of,
)

from odradek.broker.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.config.broker_config import BrokerConfig
from odradek.config.layers import BrokerLayers
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.core.transaction.markers import Marker
from odradek.core.transaction.transaction import gathered
from odradek.env.executor import InlineExecutor
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest

PARTITIONS = 2
ID = "shop"
PLACES = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("stock", 0))


class ProducerIds:
    """Counts, unless it is told to have none."""

    def __init__(self) -> None:
        self.next = 1000
        self.is_available = True

    def take_now(self) -> int:
        if not self.is_available:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.next += 1
        return self.next

    async def wait(self) -> None:
        await asyncio.sleep(0.01)


class Markers:
    """Where markers would be written."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.written: list[tuple[TopicPartition, Marker]] = []
        self.refused: dict[TopicPartition, ErrorCode] = {}
        self.delay_ms = 0
        self.dropped: list[int] = []

    def send(self, leader: int, coordinator_partition: int, marker: Marker) -> Any:
        if self.delay_ms:
            return self.loop.create_task(self._write_later(marker))
        return self._write(marker)

    def drop(self, coordinator_partition: int) -> None:
        self.dropped.append(coordinator_partition)

    async def _write_later(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        await asyncio.sleep(self.delay_ms / 1000)
        return self._write(marker)

    def _write(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        results = {}
        for name in marker.partitions:
            results[name] = self.refused.get(name, ErrorCode.NONE)
            if not results[name]:
                self.written.append((name, marker))
        return results


class Coordinator(OnALoop):
    """The coordinator and its surroundings. All partitions are led here."""

    def __init__(self, level: int = 2, is_replicated: bool = False, **settings: object) -> None:
        super().__init__()
        self.topic = MemoryTopic(is_replicated)
        self.settings = {
            "node.id": "1",
            "process.roles": "broker",
            "transaction.state.log.num.partitions": str(PARTITIONS),
        }
        self.settings |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.ids = ProducerIds()
        self.markers = Markers(self.loop)
        topics = {"orders": 2, "stock": 1, "__consumer_offsets": 1}
        self.image = image_of(topics, features={"transaction.version": level})
        self.epoch = 0
        self.start()

    def start(self) -> None:
        self.epoch += 1
        config = BrokerConfig(BrokerLayers(self.settings))
        self.transactions = TransactionCoordinator(
            config,
            self.clock,
            self.topic,
            self.ids,  # type: ignore[arg-type]
            self.markers,  # type: ignore[arg-type]
            self.loop,
            InlineExecutor(),
        )
        self.see(self.image)
        self.transactions.startup()
        for partition in range(PARTITIONS):
            self.transactions.on_election(partition, self.epoch)

    def see(self, image: MetadataImage) -> None:
        self.image = image
        self.transactions.on_metadata(MetadataDelta(image), image)

    def restart(self, ms: int = 100) -> None:
        """Another coordinator, on the same log; what was not written is forgotten."""
        self.transactions.shutdown()
        self.run()
        self.start()
        self.run(ms)

    def close(self) -> None:
        self.transactions.shutdown()
        self.run(1000)
        self.loop.close()

    # -- questions ----------------------------------------------------------------------------

    def initialize(self, name: str = ID, producer: Any = (-1, -1), **more: Any) -> Any:
        """(producer id, epoch), or the error."""
        request = InitProducerIdRequest(
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            **{"transaction_timeout_ms": 60_000, **more},
        )
        answer = self.call(self.transactions.initialize, request)
        if isinstance(answer, ErrorCode):
            return answer
        if answer.error_code:
            return ErrorCode(answer.error_code)  # type: ignore[call-arg]
        return answer.producer_id, answer.producer_epoch

    def take_over(self, name: str = ID, producer: Any = (-1, -1)) -> Any:
        """Initialize, patiently."""
        while True:
            answer = self.initialize(name, producer)
            if answer is not ErrorCode.CONCURRENT_TRANSACTIONS:
                return answer
            self.run(20)

    def add(self, producer: Any, *places: TopicPartition, version: int = 2, name: str = ID) -> Any:
        """None, or the error."""
        partitions = gathered(places or PLACES)
        return self.call(self.transactions.add_partitions, name, *producer, partitions, version)

    def verify(self, producer: Any, *places: TopicPartition, name: str = ID) -> Any:
        """The code of each place, or the error."""
        partitions = gathered(places)
        return self.call(self.transactions.verify_partitions, name, *producer, partitions)

    def end(self, producer: Any, committed: bool, version: int = 2, name: str = ID) -> Any:
        """(producer id, epoch) as the answer has them, or the error."""
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        answer = self.call(self.transactions.end, request, version)
        if isinstance(answer, ErrorCode):
            return answer
        return answer.producer_id, answer.producer_epoch

    def describe(self, name: str = ID) -> Any:
        return self.loop.run_until_complete(self.transactions.describe(name))

    def phase(self, name: str = ID) -> str:
        return str(self.describe(name).transaction_state)

    def outcomes(self) -> list[tuple[str, int, bool]]:
        """(topic, partition, committed) of every marker written."""
        return [
            (name.topic, name.partition, marker.committed) for name, marker in self.markers.written
        ]
