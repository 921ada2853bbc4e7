"""Reads the committed metadata records and publishes each new image (Kafka's MetadataLoader).

Every node has a loader, whatever its roles. At the start nothing is published before the loader has
reached the high watermark, so that publishers get one image instead of the whole history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from odradek.broker.metadata.publisher import Publisher, Publishers
from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch
from odradek.broker.raft.snapshots import SnapshotId
from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.wire.primitives import Message


class MetadataLoader:
    """A `RaftListener` that builds images. Use it only on the event loop's thread."""

    def __init__(self, publishers: Publishers, high_watermark: Callable[[], int]) -> None:
        """`high_watermark` returns the offset after the last committed record."""
        self._publishers = publishers
        self._high_watermark = high_watermark
        self._batches = BatchLoader()
        self.image: MetadataImage = self._batches.image
        """The newest published image."""
        self.last_timestamp_ms = -1
        """When the newest committed batch was appended; -1: none was loaded yet."""
        self.snapshots_loaded = 0
        self.is_catching_up = True
        """True until the loader has reached the high watermark for the first time."""

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Replay committed batches and, unless the loader is catching up, publish the image.

        Raises:
            ReplayError: the records contradict the image.
        """
        for batch in batches:
            if batch.records:
                self._batches.load(batch.records, batch.base_offset, batch.epoch)
            else:  # a control batch advances only the offset
                self._batches.load((), batch.next_offset, batch.epoch)
        self.last_timestamp_ms = batches[-1].append_timestamp_ms
        if self.is_catching_up and batches[-1].next_offset < self._high_watermark():
            return
        change = self._batches.flush()
        if change is not None:
            self._publish(*change)
        self.is_catching_up = False

    def handle_load_snapshot(self, snapshot_id: SnapshotId, records: Iterable[Message]) -> None:
        """Replace the image by a snapshot.

        Raises:
            ReplayError: the records contradict each other.
        """
        self.snapshots_loaded += 1
        change = self._batches.load_snapshot(records, snapshot_id.offset - 1, snapshot_id.epoch)
        if not self.is_catching_up:
            self._publish(*change)

    def finish_catching_up(self) -> None:
        """Publish what is loaded, if this has not been done. Call it at the high watermark.

        Otherwise nothing would be published if no record follows the snapshot.
        """
        if not self.is_catching_up:
            return
        change = self._batches.flush()
        if change is not None:
            self._publish(*change)
        else:
            self.image = self._batches.image
        self.is_catching_up = False

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Do nothing: the loader does not depend on the leader."""

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        self._publishers.publish(delta, image)

    def install(self, publisher: Publisher) -> None:
        """Load the newest image into a publisher, and publish all later changes to it.

        Raises:
            Exception: the publisher cannot load the image; it gets no changes.
        """
        self._publishers.add(publisher, self.image)

    def committed_state(self) -> BatchLoader:
        """Return a copy of the state after the last committed record, for the active controller."""
        return self._batches.copy()
