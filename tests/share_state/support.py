"""A share coordinator over a topic in memory, on a loop whose time is a number."""

from __future__ import annotations

from typing import Any

from tests.coordinator.support import MemoryTopic, OnALoop, image_of, topic_id

from odradek.broker.coordinator import share_apis
from odradek.broker.coordinator.share_apis import ShareStateApi
from odradek.broker.coordinator.share_coordinator import ShareCoordinator
from odradek.config.broker_config import BrokerConfig
from odradek.config.layers import BrokerLayers
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.env.executor import InlineExecutor
from odradek.model.errors import ErrorCode
from odradek.wire.generated import (
    delete_share_group_state_request,
    initialize_share_group_state_request,
    read_share_group_state_request,
    read_share_group_state_summary_request,
    write_share_group_state_request,
)

PARTITIONS = 2
GROUP = "workers"
TOPICS = {"orders": 3, "stock": 1}
ORDERS = SharePartitionKey(GROUP, topic_id("orders"), 0)
STOCK = SharePartitionKey(GROUP, topic_id("stock"), 0)
UPDATES_MAX = 3


class Coordinator(OnALoop):
    """The coordinator and its surroundings. All partitions are led here."""

    def __init__(self, is_replicated: bool = False, **settings: object) -> None:
        super().__init__()
        self.topic = MemoryTopic(is_replicated)
        self.settings = {
            "node.id": "1",
            "process.roles": "broker",
            "share.coordinator.state.topic.num.partitions": str(PARTITIONS),
            "share.coordinator.snapshot.update.records.per.snapshot": str(UPDATES_MAX),
        }
        self.settings |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.image = image_of(TOPICS)
        self.epoch = 0
        self.start()

    def start(self) -> None:
        self.epoch += 1
        config = BrokerConfig(BrokerLayers(self.settings))
        self.shares = ShareCoordinator(config, self.clock, self.topic, self.loop, InlineExecutor())
        self.see(self.image)
        self.shares.startup()
        for partition in range(PARTITIONS):
            self.shares.on_election(partition, self.epoch)

    def see(self, image: MetadataImage, deleted: tuple[tuple[bytes, str], ...] = ()) -> None:
        self.image = image
        delta = MetadataDelta(image)
        delta.topics.deleted.update(dict.fromkeys(deleted))
        self.shares.on_metadata(delta, image)

    def restart(self) -> None:
        """Another coordinator, on the same log; what was not written is forgotten."""
        self.shares.shutdown()
        self.run()
        self.start()
        self.run(100)

    def close(self) -> None:
        self.shares.shutdown()
        self.run(1000)
        self.loop.close()

    # -- questions ----------------------------------------------------------------------------

    def ask(self, api: ShareStateApi, key: SharePartitionKey, data: Any) -> Any:
        """The result of one share partition; the error code if it is one."""
        response = self.get(self.shares.answer(api, api.ask(key.group_id, {key: data})))
        (result,) = api.results(key.group_id, response).values()
        if result.error_code:
            return ErrorCode(result.error_code)  # type: ignore[call-arg]
        return result

    def initialize(self, key: SharePartitionKey = ORDERS, epoch: int = 1, start: int = 0) -> Any:
        data = initialize_share_group_state_request.PartitionData(
            partition=key.partition, state_epoch=epoch, start_offset=start
        )
        return self.ask(share_apis.INITIALIZE, key, data)

    def read(self, key: SharePartitionKey = ORDERS, leader_epoch: int = 0) -> Any:
        data = read_share_group_state_request.PartitionData(
            partition=key.partition, leader_epoch=leader_epoch
        )
        return self.ask(share_apis.READ, key, data)

    def state(self, key: SharePartitionKey = ORDERS, leader_epoch: int = 0) -> Any:
        """(start offset, batches)"""
        found = self.read(key, leader_epoch)
        if isinstance(found, ErrorCode):
            return found
        return found.start_offset, [
            (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in found.state_batches
        ]

    def write(
        self,
        *batches: tuple[int, int, int, int],
        key: SharePartitionKey = ORDERS,
        start: int = -1,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        complete: int = 0,
    ) -> Any:
        data = write_share_group_state_request.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=complete,
            state_batches=[
                write_share_group_state_request.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
        )
        return self.ask(share_apis.WRITE, key, data)

    def delete(self, key: SharePartitionKey = ORDERS) -> Any:
        data = delete_share_group_state_request.PartitionData(partition=key.partition)
        return self.ask(share_apis.DELETE, key, data)

    def summary(self, key: SharePartitionKey = ORDERS) -> Any:
        data = read_share_group_state_summary_request.PartitionData(partition=key.partition)
        found = self.ask(share_apis.READ_SUMMARY, key, data)
        if isinstance(found, ErrorCode):
            return found
        return (
            found.state_epoch,
            found.leader_epoch,
            found.start_offset,
            found.delivery_complete_count,
        )

    def log_of(self, key: SharePartitionKey = ORDERS) -> Any:
        return self.topic.partitions[self.shares.partition_for(key.text)]
