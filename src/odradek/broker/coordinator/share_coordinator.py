"""The share coordinator: passes requests to state machines, and deletes redundant records.

A share partition belongs to a partition of `__share_group_state`, depending on the hash of its key
(`SharePartitionKey.text`). The leader of this partition coordinates the share partition. There is
one state machine per partition of the topic.

A request has many share partitions of one group. Each is a separate operation, possibly in
different state machines, with a separate result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.coordinator import Coordinator
from odradek.broker.coordinator.log import CoordinatorTopic
from odradek.broker.coordinator.shard import Shard
from odradek.broker.coordinator.share_apis import WRITE, ShareStateApi
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.core.share_coordinator.machine import ShareCoordinatorMachine
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.model.errors import ApiError
from odradek.model.topic_name import SHARE_STATE_TOPIC
from odradek.records.compression import Codec
from odradek.telemetry.recent_times import RecentTimes

log: Final = logging.getLogger("odradek.share")


class ShareCoordinator(Coordinator[ShareCoordinatorMachine]):
    """The share partitions that this broker coordinates. Use it only on the event loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        topic: CoordinatorTopic,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        on_loaded: Callable[[int], None] = lambda records: None,
    ) -> None:
        self._prune_alarm: asyncio.TimerHandle | None = None
        self.writes = 0
        """Number of states that were written (a metric)."""
        self.write_times = RecentTimes()
        self._pruned: dict[int, int] = {}
        """The offset before which the records of each partition were last deleted."""
        super().__init__(
            SHARE_STATE_TOPIC,
            topic,
            config.share_coordinator_state_topic_num_partitions,
            config,
            ShardContext(
                loop,
                clock,
                executor,
                config.share_coordinator_write_timeout_ms,
                codec=Codec(config.share_coordinator_state_topic_compression_codec),
                on_loaded=on_loaded,
            ),
            config.share_coordinator_load_buffer_size,
        )

    def _make_machine(self, partition: int) -> ShareCoordinatorMachine:
        return ShareCoordinatorMachine(self._config, self._clock, _note)

    # -- life ---------------------------------------------------------------------------------

    def startup(self) -> None:
        """See `Coordinator`. Begin to delete redundant records periodically."""
        super().startup()
        self._schedule_prune()

    def shutdown(self) -> None:
        """See `Coordinator`."""
        if self._prune_alarm is not None:
            self._prune_alarm.cancel()
            self._prune_alarm = None
        super().shutdown()

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """See `Coordinator`."""
        self._pruned.pop(partition, None)
        super().on_resignation(partition, leader_epoch)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `Coordinator`. The states of the partitions of deleted topics are deleted."""
        super().on_metadata(delta, image)
        deleted: Collection[bytes] = {topic_id for topic_id, _ in delta.topics.deleted}
        if deleted:
            self.runtime.write_all(_log_failure, lambda machine: machine.on_topics_deleted(deleted))

    # -- operations ---------------------------------------------------------------------------

    def perform(self, api: ShareStateApi, key: SharePartitionKey, data: Any) -> Any:
        """Perform an operation for one share partition.

        `data` is the partition in the request. Return the partition in the response, or a future of
        it, which may fail with an `ApiError`.

        Raises:
            ApiError: this broker does not coordinate the share partition, or the log rejects the
                records. Errors of the operation are in the result.
        """
        shard = self._shard(key.text)
        answer = shard.write(getattr(shard.machine, api.operation), key, data)
        if api is WRITE:
            self._count_write(answer)
        return answer

    def _count_write(self, answer: Any) -> None:
        """Count a write, and measure the time until its records are committed."""
        self.writes += 1
        began_ms = self._clock.monotonic_ms()

        def measure(_: object = None) -> None:
            now_ms = self._clock.monotonic_ms()
            self.write_times.record(now_ms - began_ms, now_ms)

        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(measure)
        else:
            measure()

    def pruned(self) -> dict[int, int]:
        """Return the offset before which the records of each partition were last deleted."""
        return dict(self._pruned)

    async def answer(self, api: ShareStateApi, request: Any) -> Any:
        """Return the response to a request; every partition has its own result."""
        if not api.is_complete(request):
            return api.response()
        performed = []
        for topic in request.topics:
            for data in topic.partitions:
                key = SharePartitionKey(request.group_id, topic.topic_id, data.partition)
                performed.append((key, self._begin(api, key, data)))
        results = {}
        for key, answer in performed:
            results[key] = await self._settled(api, key, answer)
        return api.respond(request, results)

    def _begin(self, api: ShareStateApi, key: SharePartitionKey, data: Any) -> Any:
        try:
            return self.perform(api, key, data)
        except ApiError as error:
            return api.failure(key, error.code, _explained(api, error))

    async def _settled(self, api: ShareStateApi, key: SharePartitionKey, answer: Any) -> Any:
        if not isinstance(answer, asyncio.Future):
            return answer
        try:
            return await answer
        except ApiError as error:
            return api.failure(key, error.code, _explained(api, error))

    # -- redundant records --------------------------------------------------------------------

    def _schedule_prune(self) -> None:
        interval_ms = self._config.share_coordinator_state_topic_prune_interval_ms
        self._prune_alarm = self._loop.call_later(interval_ms / 1000, self._prune_all)

    def _prune_all(self) -> None:
        self._schedule_prune()
        for partition in self.runtime.partitions():
            shard = self.runtime.find(partition)
            if shard is not None:
                self._prune(partition, shard)

    def _prune(self, partition: int, shard: Shard[ShareCoordinatorMachine]) -> None:
        """Delete the redundant records of a partition when its newest record is committed."""
        end = shard.read(shard.machine.states.redundant_end())
        if isinstance(end, asyncio.Future):
            end.add_done_callback(partial(self._on_committed, partition, shard))
        else:
            self._delete_before(partition, shard, end)

    def _on_committed(
        self,
        partition: int,
        shard: Shard[ShareCoordinatorMachine],
        end: asyncio.Future[int],
    ) -> None:
        if not end.cancelled() and end.exception() is None:
            self._delete_before(partition, shard, end.result())

    def _delete_before(
        self, partition: int, shard: Shard[ShareCoordinatorMachine], offset: int
    ) -> None:
        if offset <= self._pruned.get(partition, 0):
            return
        try:
            shard.delete_records_before(offset)
        except ApiError as error:
            log.warning("%s: redundant records are not deleted: %s", shard.name, error)
            return
        self._pruned[partition] = offset
        log.info("%s: the records before offset %d are deleted", shard.name, offset)


def _explained(api: ShareStateApi, error: ApiError) -> str:
    return f"Unable to {api.label} share group state: {error.message}"


def _log_failure(error: ApiError) -> None:
    log.warning("the share state of deleted topics could not be deleted: %s", error)


def _note(key: str, text: str) -> None:
    log.debug("share partition %s: %s", key, text)
