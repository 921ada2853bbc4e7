"""What the runtime needs of the partitions of a coordinator's topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from odradek.model.errors import ApiError
from odradek.records.batch import Buffer

Committed = Callable[[ApiError | None], None]
"""Called with None, or with the reason why the records may never be committed."""


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
        """All records before this offset are committed."""
        ...

    @property
    def commits_at_once(self) -> bool:
        """Whether the high watermark includes the appended records when `append` returns."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that the log takes."""
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
        """Append keys and values as a separate, uncompressed batch."""
        ...

    async def read(self, offset: int, max_bytes: int) -> Buffer:
        """Read complete batches from `offset` on, the first one even if it exceeds the limit; empty
        at the end.

        Raises:
            ApiError: the log cannot be read.
        """
        ...

    def when_committed(self, offset: int, committed: Committed) -> None:
        """Call `committed` once all records before `offset` are committed; see `Partition`."""
        ...


class CoordinatorTopic(Protocol):
    """The topic of a coordinator, as far as this broker leads it."""

    def partition(self, index: int) -> CoordinatorPartition:
        """A partition.

        Raises:
            ApiError: this broker does not lead it.
        """
        ...
