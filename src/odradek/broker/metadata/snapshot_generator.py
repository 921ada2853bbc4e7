"""Decides when a snapshot of the metadata is written (Kafka's SnapshotGenerator).

A snapshot is due after `metadata.log.max.record.bytes.between.snapshots` bytes of new records. It
is also due `metadata.log.max.snapshot.interval.ms` after the first record that the last snapshot
does not contain. A snapshot contains the newest image. Another thread can encode and write it,
because an image never changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch
from odradek.broker.raft.snapshots import SnapshotId
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.record import encode_record
from odradek.core.metadata.snapshot import image_records
from odradek.log.errors import LogDirectoryOffline
from odradek.wire.primitives import Message

log = logging.getLogger("odradek.metadata")


class SnapshotGenerator:
    """A `RaftListener` that writes the loader's image. Register it after the loader."""

    def __init__(self, config: BrokerConfig, raft: RaftClient, loader: MetadataLoader) -> None:
        self._config = config
        self._raft = raft
        self._loader = loader
        self._loop = asyncio.get_running_loop()
        self._bytes = 0
        """Bytes of the batches since the last snapshot."""
        self._last_append_ms = 0
        self._written_at = self._loop.time()
        """When the last snapshot was written, or else when the node was started, in seconds of the
        event loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def age_ms(self) -> int:
        """Milliseconds since the last snapshot was written, or else since the start of the node."""
        return int((self._loop.time() - self._written_at) * 1000)

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Begin a snapshot if one is due, or start the timer for the next one."""
        self._bytes += sum(each.size for each in batches)
        self._last_append_ms = batches[-1].append_timestamp_ms
        if self._bytes >= self._config.metadata_log_max_record_bytes_between_snapshots:
            self._begin()
        elif self._timer is None and self._config.metadata_log_max_snapshot_interval_ms > 0:
            interval_s = self._config.metadata_log_max_snapshot_interval_ms / 1000
            self._timer = self._loop.call_later(interval_s, self._on_timer)

    def handle_load_snapshot(self, snapshot_id: SnapshotId, records: Iterable[Message]) -> None:
        """Count the bytes of new records from 0: the snapshot contains all earlier records."""
        self._bytes = 0

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Do nothing: followers write snapshots too."""

    def _on_timer(self) -> None:
        """If no snapshot can begin now, the next records start the timer again."""
        self._timer = None
        self._begin()

    def _begin(self) -> None:
        if self._task is None and not self._loader.is_catching_up:
            self._task = self._loop.create_task(self._write(self._loader.image))
            self._task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.result()  # raises an unexpected exception, which the event loop logs

    async def _write(self, image: MetadataImage) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._bytes = 0
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        latest = self._raft.log.latest_snapshot
        if latest is not None and snapshot_id <= latest:
            return
        level = image.features.metadata_version
        values = (encode_record(record, level) for record in image_records(image))
        try:
            await self._raft.create_snapshot(snapshot_id, values, self._last_append_ms)
            self._written_at = self._loop.time()
            log.info("wrote a snapshot of the metadata up to offset %d", image.offset)
        except (OSError, LogDirectoryOffline) as error:
            # The log still has all records. The next records start the next attempt.
            log.error("could not write a snapshot of the metadata: %s", error)

    async def close(self) -> None:
        """Write no more snapshots, and wait for the snapshot that is being written."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            await asyncio.wait([self._task])
