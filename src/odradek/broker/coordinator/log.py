"""The interface between the coordinator runtime and the partitions of a coordinator's topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from odradek.model.errors import ApiError
from odradek.records.batch import Buffer

Committed = Callable[[ApiError | None], None]
"""A callback. Its argument is None, or an error if the records may never become committed."""


class CoordinatorPartition(Protocol):
    """One partition of the topic, led by this broker."""

    @property
    def start_offset(self) -> int:
        """The first offset of the log."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset after the last committed record."""
        ...

    @property
    def commits_at_once(self) -> bool:
        """Whether records are committed when `append` returns."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that the log accepts."""
        ...

    def append(
        self, batch: bytearray, *, verification_guard: int = 0, transaction_version: int = 0
    ) -> int:
        """Append a batch and return the end offset after it.

        Raises:
            ApiError: nothing was appended.
        """
        ...

    def append_records(self, timestamp: int, records: Sequence[tuple[bytes, bytes]]) -> int:
        """Append records (key, value) as a separate, uncompressed batch; return the end offset.

        Raises:
            ApiError: nothing was appended.
        """
        ...

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset to `offset`, which must be committed.

        Raises:
            ApiError: this broker does not lead the partition, or `offset` is not committed.
        """
        ...

    async def read(self, offset: int, max_bytes: int) -> Buffer:
        """Read complete batches from `offset` on; the result is empty at the end of the log.

        The first batch is complete even if it is larger than `max_bytes`.

        Raises:
            ApiError: the log cannot be read.
        """
        ...

    def when_committed(self, offset: int, committed: Committed) -> None:
        """Call `committed(None)` when all records before `offset` are committed.

        `committed` gets an error if that may never happen. It may be called immediately (see
        `Partition.when_committed`).
        """
        ...


class CoordinatorTopic(Protocol):
    """The partitions of a coordinator's topic that this broker leads."""

    def partition(self, index: int) -> CoordinatorPartition:
        """Return a partition.

        Raises:
            ApiError: this broker does not lead the partition.
        """
        ...
