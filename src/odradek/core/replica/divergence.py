"""The offset up to which two logs are equal (KIP-101, KIP-279, KIP-595).

The records of a leader epoch were all written by one leader. So two logs that have records of the
same epoch are equal up to the lower of the two end offsets of this epoch. A follower sends the
epoch of its last record and its log end offset. If the leader does not have this epoch, or the
epoch ends in the leader's log below the follower's log end offset, the leader returns its largest
epoch that is not above the follower's, and the end offset of this epoch. The follower truncates its
log and fetches again.
"""

from __future__ import annotations

from typing import Protocol

from odradek.model.errors import ApiError, ErrorCode

UNDEFINED_EPOCH = -1


class LogView(Protocol):
    """A log that the machines read and that they never change."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def high_watermark(self) -> int:
        """The high watermark that this replica knows."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch; -1 if there is none."""
        ...

    def end_offset_for_epoch(self, epoch: int, /) -> tuple[int, int]:
        """Return the largest epoch that is not above `epoch`, and its end offset, or (-1, -1)."""
        ...


def diverging_epoch(
    log: LogView, last_fetched_epoch: int, fetch_offset: int
) -> tuple[int, int] | None:
    """Return the leader's epoch and its end offset if the fetcher must truncate, else None.

    `last_fetched_epoch` is the epoch of the record before `fetch_offset` in the fetcher's log.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE; the end of the epoch is unknown, or `fetch_offset` is before
            the log start offset.
    """
    epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
    if epoch < 0 or fetch_offset < log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


def truncation_offset(log: LogView, leader_epoch: int, leader_end_offset: int) -> int:
    """Return the offset to truncate a follower's log to.

    The arguments are the diverging epoch and its end offset from the leader's response. The
    remaining log may still diverge. Then the next response has a diverging epoch again.
    """
    end_offset = log.log_end_offset
    if leader_end_offset < 0:
        return min(log.high_watermark, end_offset)
    epoch, epoch_end_offset = log.end_offset_for_epoch(leader_epoch)
    if epoch == UNDEFINED_EPOCH:
        return min(leader_end_offset, end_offset)
    if epoch != leader_epoch:
        return min(epoch_end_offset, end_offset)
    return min(epoch_end_offset, leader_end_offset, end_offset)
