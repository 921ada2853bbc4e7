"""Converts committed batches of the metadata log to deltas and images.

A metadata transaction (KIP-868) may span several batches. Its records become visible together, when
the transaction ends. All records that are loaded between two calls of `flush` form one delta. So a
node that starts publishes only one delta.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.errors import ReplayError
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.core.metadata.record import ABORT_TRANSACTION, BEGIN_TRANSACTION, END_TRANSACTION
from odradek.wire.primitives import Message

Change = tuple[MetadataDelta, MetadataImage]


class BatchLoader:
    """Loads records and creates images. `image` is the image of the last flush."""

    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image
        self.transaction_start_offset = -1
        """The offset of the BeginTransaction of the open transaction; -1 if none is open."""
        self._outside = MetadataDelta(image)
        """The changes since the last flush, without the records of the open transaction."""
        self._inside: list[Message] = []
        """The records of the open transaction, which are replayed when the transaction ends."""
        self._offset = image.offset
        self._epoch = image.epoch

    def load_snapshot(self, records: Iterable[Message], offset: int, epoch: int) -> Change:
        """Replace the image by a snapshot of the log up to and including `offset`.

        Raises:
            ReplayError: the records contradict each other.
        """
        delta = MetadataDelta.of_snapshot(self.image)
        for record in records:
            delta.replay(record)
        delta.finish_snapshot()
        self.reset(delta.apply(offset, epoch))
        return delta, self.image

    def reset(self, image: MetadataImage) -> None:
        """Continue from another image, without an open transaction."""
        self.image = image
        self.transaction_start_offset = -1
        self._outside = MetadataDelta(image)
        self._inside = []
        self._offset = image.offset
        self._epoch = image.epoch

    def copy(self) -> BatchLoader:
        """Return a loader in the same state, including an open transaction.

        Call `flush` before.
        """
        is_open = self.transaction_start_offset >= 0
        end = self.transaction_start_offset - 1 if is_open else self._offset
        assert end == self.image.offset, "everything is flushed"
        other = BatchLoader(self.image)
        other.transaction_start_offset = self.transaction_start_offset
        other._inside = list(self._inside)
        other._offset = self._offset
        other._epoch = self._epoch
        return other

    def load(self, records: Iterable[Message], base_offset: int, epoch: int) -> None:
        """Load the records of a batch. The first record has the offset `base_offset`.

        Raises:
            ReplayError: the records contradict the image or the state of the transaction.
        """
        offset = base_offset - 1
        for offset, record in enumerate(records, base_offset):
            key = record.API_KEY
            if self.transaction_start_offset < 0:
                if key == BEGIN_TRANSACTION:
                    self.transaction_start_offset = offset
                elif key in (END_TRANSACTION, ABORT_TRANSACTION):
                    raise ReplayError(f"the transaction that ends at {offset} never began")
                else:
                    self._outside.replay(record)
            else:
                self._load_inside(record, offset)
        self._offset = offset
        self._epoch = epoch

    def _load_inside(self, record: Message, offset: int) -> None:
        key = record.API_KEY
        if key == BEGIN_TRANSACTION:
            raise ReplayError(f"a transaction begins at {offset} inside another")
        if key not in (END_TRANSACTION, ABORT_TRANSACTION):
            self._inside.append(record)
            return
        inside, self._inside = self._inside, []
        self.transaction_start_offset = -1
        if key == END_TRANSACTION:
            for each in inside:
                self._outside.replay(each)

    def flush(self) -> Change | None:
        """Return the delta since the last flush, and the new image.

        Return None if no record has become visible since then. While a transaction is open, the
        offset of the image is before the first record of the transaction.
        """
        offset = self._offset
        if self.transaction_start_offset >= 0:
            offset = self.transaction_start_offset - 1
        if offset <= self.image.offset:
            return None
        delta = self._outside
        self.image = delta.apply(offset, self._epoch)
        self._outside = MetadataDelta(self.image)
        return delta, self.image
