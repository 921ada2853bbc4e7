"""Holds all shards of one coordinator, and loads and unloads them after elections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.loading import Loader
from odradek.broker.coordinator.log import CoordinatorPartition, CoordinatorTopic
from odradek.broker.coordinator.shard import Shard, ShardState
from odradek.core.coordinator.machine import CoordinatorMachine
from odradek.core.coordinator.record import MalformedRecord
from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.errors import CorruptBatch, InvalidRecords
from odradek.telemetry.recent_times import RecentTimes

MachineT = TypeVar("MachineT", bound=CoordinatorMachine)

log: Final = logging.getLogger("odradek.coordinator")


class CoordinatorRuntime(Generic[MachineT]):
    """The shards of one coordinator, by partition.

    `topic_name` is used in log messages. `make_machine` returns an empty state machine.
    """

    def __init__(
        self,
        topic_name: str,
        topic: CoordinatorTopic,
        make_machine: Callable[[int], MachineT],
        context: ShardContext,
        load_buffer_bytes: int,
    ) -> None:
        self._topic_name = topic_name
        self._topic = topic
        self._make_machine = make_machine
        self._context = context
        self._load_buffer_bytes = load_buffer_bytes
        self._shards: dict[int, Shard[MachineT]] = {}
        self._epochs: dict[int, int] = {}
        """The leader epoch of each partition for which there is a shard."""
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._load_turn = asyncio.Lock()
        """Partitions are loaded one after the other. Concurrent loads would make each iteration of
        the event loop long."""
        self.load_times: RecentTimes = RecentTimes()
        """The ms that it took to load partitions (a metric)."""
        self._image: MetadataImage = EMPTY_IMAGE

    # -- operations ----------------------------------------------------------------------------

    def shard(self, partition: int) -> Shard[MachineT]:
        """Return the shard of a partition.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR.
        """
        shard = self._shards.get(partition)
        if shard is None or shard.state is not ShardState.ACTIVE:
            if shard is not None and shard.state is ShardState.LOADING:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return shard

    def find(self, partition: int) -> Shard[MachineT] | None:
        """Return the shard of a partition; None if it is not active."""
        shard = self._shards.get(partition)
        return shard if shard is not None and shard.state is ShardState.ACTIVE else None

    def epoch(self, partition: int) -> int:
        """Return the leader epoch in which this broker leads a partition that has a shard."""
        return self._epochs[partition]

    def holds(self, partition: int) -> bool:
        """Whether this broker leads the partition, loaded or not."""
        return partition in self._epochs

    def active(self) -> list[Shard[MachineT]]:
        """Return the active shards."""
        return [each for each in self._shards.values() if each.state is ShardState.ACTIVE]

    def partitions(self) -> list[int]:
        """Return the partitions that this broker leads, loaded or not."""
        return list(self._epochs)

    def count_by_state(self) -> dict[ShardState, int]:
        """Return the number of partitions in each state."""
        counts = dict.fromkeys(ShardState, 0)
        for each in list(self._shards.values()):
            counts[each.state] += 1
        return counts

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded."""
        return any(each.state is ShardState.LOADING for each in self._shards.values())

    def machines(self) -> Iterator[MachineT]:
        """Return the state machines of the active shards."""
        return (each.machine for each in self.active())

    def write_all(
        self,
        on_error: Callable[[ApiError], None],
        operation: Callable[[MachineT], CoordinatorResult[Any]],
    ) -> None:
        """Perform an operation in every active shard; no client waits for a response."""
        for shard in self.active():
            shard.write_internal(on_error, operation, shard.machine)

    # -- elections ----------------------------------------------------------------------------

    def load(self, partition: int, leader_epoch: int) -> None:
        """Load a partition that this broker leads from now on, unless it is loaded."""
        if leader_epoch <= self._epochs.get(partition, -1):
            return
        self._epochs[partition] = leader_epoch
        shard = self._shards.get(partition)
        if shard is None or shard.state is ShardState.FAILED:
            self._begin_load(partition)

    def unload(self, partition: int, leader_epoch: int | None = None) -> None:
        """Unload a partition that this broker no longer leads.

        `leader_epoch` is the epoch of the next leader; None unloads in any case.
        """
        known = self._epochs.get(partition)
        if known is None or (leader_epoch is not None and leader_epoch <= known):
            return
        del self._epochs[partition]
        load = self._loads.pop(partition, None)
        if load is not None:
            load.cancel()
        shard = self._shards.pop(partition)
        shard.close()
        log.info("%s is unloaded: this broker no longer coordinates it", shard.name)

    def _begin_load(self, partition: int) -> None:
        name = f"{self._topic_name}-{partition}"
        machine = self._make_machine(partition)
        try:
            replica = self._topic.partition(partition)
        except ApiError as error:
            log.error("%s cannot be loaded: %s", name, error)
            del self._epochs[partition]
            self._shards.pop(partition, None)
            return
        shard = Shard(name, machine, replica, self._context, lambda: self._reload(partition))
        self._shards[partition] = shard
        if replica.start_offset == replica.end_offset:
            self._activate(shard, replica.end_offset)  # the log is empty: nothing must be loaded
            return
        load = self._context.loop.create_task(self._load(partition, shard, replica))
        self._loads[partition] = load

    async def _load(
        self, partition: int, shard: Shard[MachineT], replica: CoordinatorPartition
    ) -> None:
        loader = Loader(replica, shard.machine, self._context.clock, self._load_buffer_bytes)
        try:
            async with self._load_turn:
                loaded = await loader.load()
                self._activate(shard, loaded.end_offset)
            self._context.on_loaded(loaded.records)
            self.load_times.record(loaded.duration_ms, self._context.clock.monotonic_ms())
            log.info(
                "loaded %s: %d records, %d bytes in %d ms",
                shard.name,
                loaded.records,
                loaded.bytes,
                loaded.duration_ms,
            )
        except (ApiError, MalformedRecord, CorruptBatch, InvalidRecords) as error:
            log.error("%s cannot be loaded: %s", shard.name, error)
        finally:
            if self._loads.get(partition) is asyncio.current_task():
                del self._loads[partition]
            if shard.state is ShardState.LOADING:
                shard.close(ShardState.FAILED)

    def _activate(self, shard: Shard[MachineT], end_offset: int) -> None:
        shard.activate(end_offset)
        shard.machine.on_loaded(self._image)

    def _reload(self, partition: int) -> None:
        """Load the log again, because its end offset differs from the state machine's."""
        self._shards[partition].close(ShardState.FAILED)
        self._begin_load(partition)

    # -- metadata and shutdown ---------------------------------------------------------------------

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Pass the new image to the state machines of all active shards."""
        self._image = image
        for machine in self.machines():
            machine.on_metadata(delta, image)

    def close(self) -> None:
        """Shut down: unload every partition."""
        for partition in list(self._epochs):
            self.unload(partition)
