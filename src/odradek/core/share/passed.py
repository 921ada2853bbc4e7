"""The stored states of complete records that the window has passed, among deferred records.

A deferred record holds the start offset that is stored. The states of all records after it stay
stored, so there may be many. Therefore the complete records between two deferred ones are stored
again with one state, which has priority over every other state. So the share coordinator joins
them: it stores at most one batch for each deferred record, however many records flow beside.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.core.share.states import RecordState, StateBatch
from odradek.core.share.window import Window

DELIVERIES: Final = 2**15 - 1
"""The delivery count that is stored. A state with a higher delivery count has priority."""


class Passed(NamedTuple):
    """What to store."""

    batches: list[StateBatch]
    end_offset: int
    """All complete records before this offset are part of the batches, or were stored before."""
    finished: frozenset[int]
    """Deferred records that are part of the batches."""


def find(window: Window, begin_offset: int) -> Passed:
    """Return what must be stored from `begin_offset` on, up to the start of the window."""
    deferred, end = window.deferred, window.start_offset
    if not deferred.unfinished:
        return Passed([], end, frozenset(deferred.finished))
    first = deferred.unfinished.first
    assert first is not None
    begin = max(begin_offset, first)
    ranges = list(deferred.unfinished.gaps(begin, end)) if begin < end else []
    finished = frozenset(each for each in deferred.finished if each < end)
    ranges += [(each, each) for each in finished if first < each < begin]
    return Passed(
        [StateBatch(begin, last, RecordState.ARCHIVED, DELIVERIES) for begin, last in ranges],
        end,
        finished,
    )
