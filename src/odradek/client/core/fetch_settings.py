"""The settings of a fetcher, with Java's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.client.core.consumed_batch import Decoder
from odradek.client.core.offset_lookups import EARLIEST, LATEST

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """`auto.offset.reset`: where to read if there is no position, or if the log does not have it.

    One of `earliest`, `latest`, `none`, or `by_duration` with a duration (KIP-1106).
    """

    name: str = "latest"
    duration_ms: int = 0

    def time(self, now_ms: int) -> int | None:
        """Return what to look up, given the time of day in ms; None means an error."""
        if self.name == "by_duration":
            return max(0, now_ms - self.duration_ms)
        return {"earliest": EARLIEST, "latest": LATEST}.get(self.name)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How records are fetched."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 << 20
    partition_bytes_max: int = 1 << 20
    isolation: int = READ_UNCOMMITTED
    reset: ResetPolicy = ResetPolicy()
    checks_crcs: bool = True
    rack: str = ""
    """`client.rack`: the leader may name a replica in the same rack to read from (KIP-392)."""
    records_max: int | None = None
    """The most records in a batch for the user (`max.poll.records`). None means batches as they are."""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_ms_max: int = 1_000
    decoder: Decoder | None = None
    """Makes objects of keys and values."""
    metadata_max_age_ms: int = 300_000
    """A named replica is used for so long."""
