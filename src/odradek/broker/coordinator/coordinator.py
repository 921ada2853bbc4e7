"""The common parts of the group coordinator and the transaction coordinator.

A coordinator stores its state in a topic. The hash of a key (a group id or a transactional id)
determines a partition of the topic (`placement`). The leader of this partition coordinates the key.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.log import CoordinatorTopic
from odradek.broker.coordinator.runtime import CoordinatorRuntime
from odradek.broker.coordinator.shard import Answer, Shard
from odradek.config.broker_config import BrokerConfig
from odradek.core.coordinator.machine import CoordinatorMachine
from odradek.core.coordinator.placement import partition_for
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.model.errors import ApiError, ErrorCode

ListedT = TypeVar("ListedT")


MachineT = TypeVar("MachineT", bound=CoordinatorMachine)


class Coordinator(ABC, Generic[MachineT]):
    """The base class of both coordinators. Use it only on the event loop's thread."""

    def __init__(
        self,
        topic_name: str,
        topic: CoordinatorTopic,
        partition_count: int,
        config: BrokerConfig,
        context: ShardContext,
        load_buffer_bytes: int,
    ) -> None:
        """`partition_count` is used until the topic exists."""
        self._topic_name = topic_name
        self._partition_count = partition_count
        self._config = config
        self._clock = context.clock
        self._loop = context.loop
        self._is_running = False
        self.runtime: CoordinatorRuntime[MachineT] = CoordinatorRuntime(
            topic_name, topic, self._make_machine, context, load_buffer_bytes
        )

    @abstractmethod
    def _make_machine(self, partition: int) -> MachineT:
        """Return an empty state machine."""

    # -- life ---------------------------------------------------------------------------------

    def startup(self) -> None:
        """Begin to accept requests."""
        self._is_running = True

    def shutdown(self) -> None:
        """Stop accepting requests, and unload every partition."""
        self._is_running = False
        self.runtime.close()

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed dynamic settings."""
        self._config = config
        for machine in self.runtime.machines():
            machine.update_config(config)

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """Load a partition of the topic, because this broker leads the partition from now on."""
        self.runtime.load(partition, leader_epoch)

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """Unload a partition that this broker no longer leads.

        `leader_epoch` is the epoch of the next leader. It is None if the replica was removed.
        """
        self.runtime.unload(partition, leader_epoch)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a metadata change. Called before the elections that result from the same change."""
        topic = image.topics.by_name.get(self._topic_name)
        if topic is not None:
            self._partition_count = len(topic.partitions)
        self.runtime.on_metadata(delta, image)

    # -- operations ----------------------------------------------------------------------------

    def partition_for(self, key: str) -> int:
        """Return the partition of the topic that the key belongs to."""
        return partition_for(key, self._partition_count)

    def _shard(self, key: str) -> Shard[MachineT]:
        """Return the shard of a key's partition.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR.
        """
        if not self._is_running:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.runtime.shard(partition_for(key, self._partition_count))

    async def _listed(self, look: Callable[[MachineT], Sequence[ListedT]]) -> list[ListedT]:
        """Return the results of `look` for the state machines of all active shards.

        Raises:
            ApiError: COORDINATOR_NOT_AVAILABLE, or COORDINATOR_LOAD_IN_PROGRESS while a shard is
                loading.
        """
        if not self._is_running:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.runtime.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        found: list[ListedT] = []
        for shard in self.runtime.active():
            listed = look(shard.machine)
            if listed:
                found += await settled(shard.read(listed))
                await asyncio.sleep(0)  # thousands of keys take time: yield to the event loop
        return found


async def settled(answer: Answer) -> Any:
    """Return the response; wait if `answer` is a future."""
    return await answer if isinstance(answer, asyncio.Future) else answer
