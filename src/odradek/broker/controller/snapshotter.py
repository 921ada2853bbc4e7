"""When snapshots of the metadata are written, and what is deleted then.

A snapshot is due after `metadata.log.max.record.bytes.between.snapshots` bytes of new records,
or `metadata.log.max.snapshot.interval.ms` after the last one if there is anything new. It holds
the image as of its offset; a thread encodes and writes it, the image cannot change meanwhile.
"""

from __future__ import annotations

import asyncio
import logging

from odradek.broker.raft.control import ControlMessage
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.broker.raft.snapshots import SnapshotId, snapshot_batches
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.record import encode_record
from odradek.core.metadata.snapshot import image_records
from odradek.env.clock import Clock
from odradek.env.executor import Executor, Pool, call
from odradek.log.errors import LogDirectoryOffline

log = logging.getLogger("odradek.metadata")


class Snapshotter:
    """See the module. Lives on the loop's thread."""

    def __init__(
        self, metadata_log: MetadataLog, config: BrokerConfig, clock: Clock, executor: Executor
    ) -> None:
        self._log = metadata_log
        self._config = config
        self._clock = clock
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._image: MetadataImage | None = None
        self._settings: list[ControlMessage] = []
        self._last_append_ms = 0

    def on_commit(
        self, image: MetadataImage, settings: list[ControlMessage], size: int, append_ms: int
    ) -> None:
        """The image is committed; `size` is the bytes of the records that led to it."""
        self._image = image
        self._settings = settings
        self._bytes += size
        self._last_append_ms = append_ms
        if self._bytes >= self._config.metadata_log_max_record_bytes_between_snapshots:
            self._begin()
        elif self._timer is None and self._config.metadata_log_max_snapshot_interval_ms > 0:
            interval_s = self._config.metadata_log_max_snapshot_interval_ms / 1000
            self._timer = self._loop.call_later(interval_s, self._begin)

    def _begin(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._write())
            self._task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.result()  # a defect of ours is not to be silent

    async def _write(self) -> None:
        image = self._image
        assert image is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._bytes = 0
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        latest = self._log.latest_snapshot
        if latest is not None and snapshot_id <= latest:
            return
        settings, append_ms = self._settings, self._last_append_ms
        try:
            await call(
                self._executor,
                lambda: self._write_now(image, snapshot_id, settings, append_ms),
                Pool.SNAPSHOT,
            )
            self._log.add_snapshot(snapshot_id)
            self._log.clean(
                self._clock.now_ms(),
                self._config.metadata_max_retention_bytes,
                self._config.metadata_max_retention_ms,
            )
            log.info("wrote a snapshot of the metadata up to offset %d", image.offset)
        except (OSError, LogDirectoryOffline) as error:
            # The log still has everything; the next attempt comes with the next records.
            log.error("could not write a snapshot of the metadata: %s", error)

    def _write_now(
        self,
        image: MetadataImage,
        snapshot_id: SnapshotId,
        settings: list[ControlMessage],
        last_append_ms: int,
    ) -> None:
        """In a thread: encode the image and write the file."""
        level = image.features.metadata_version
        values = (encode_record(record, level) for record in image_records(image))
        batches = snapshot_batches(
            snapshot_id.epoch, last_append_ms, settings, values, self._clock.now_ms()
        )
        self._log.write_snapshot(snapshot_id, batches)

    async def close(self) -> None:
        """Write no more; wait for the one under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            await asyncio.wait([self._task])
