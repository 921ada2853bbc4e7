"""Dead letters: records that were rejected or delivered too often (KIP-1191).

If the group has a dead letter queue, such a record becomes ARCHIVING, not ARCHIVED. When this state
is stored, the broker writes the record to the topic of the dead letter queue, and then the record
becomes ARCHIVED, even if the write has failed. An ARCHIVING record holds the start offset. If the
leader changes before the record is ARCHIVED, the new leader loads the state ARCHIVING and writes
the record again. So each record is written at least once, unless all attempts to write it fail.

Records that retention or compaction has removed, or that belong to aborted transactions, are
ARCHIVED at once: they are not dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from odradek.core.share.in_flight import InFlightState
from odradek.core.share.states import RecordState, StateBatch
from odradek.core.share.window import Window


class Cause(Enum):
    """Why a record is a dead letter. The values are the texts of Kafka's header."""

    REJECTED = "Offset rejected by client."
    DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."
    EXPIRED = "Offset exceeded its time to live."
    """Only in Odradek."""


class DeadLetters(NamedTuple):
    """Consecutive records that are dead letters for the same reason."""

    first_offset: int
    last_offset: int
    delivery_count: int
    cause: Cause


def joined(letters: Iterable[DeadLetters]) -> list[DeadLetters]:
    """Sort dead letters by offset, and join adjacent ones."""
    result: list[DeadLetters] = []
    for each in sorted(letters, key=lambda each: each.first_offset):
        last = result[-1] if result else None
        if last is not None and last.last_offset + 1 == each.first_offset and last[2:] == each[2:]:
            result[-1] = last._replace(last_offset=each.last_offset)
        else:
            result.append(each)
    return result


def unfinished(window: Window, delivery_count_limit: int) -> list[DeadLetters]:
    """Return the ARCHIVING records of a state that was loaded.

    The cause is not stored: as in Kafka, it follows from the delivery count.
    """
    return joined(
        DeadLetters(
            first,
            last,
            state.delivery_count,
            Cause.DELIVERED_TOO_OFTEN
            if state.delivery_count >= delivery_count_limit
            else Cause.REJECTED,
        )
        for batch in window.batches
        for first, last, state in batch.parts()
        if state.state is RecordState.ARCHIVING
    )


def finish(window: Window, letters: Iterable[DeadLetters]) -> list[StateBatch]:
    """Archive dead letters. Return the states to store.

    Records that are no longer in the window, or no longer ARCHIVING, are skipped.
    """
    finished = []
    for each in letters:
        for first, last, state in _archiving(window, each.first_offset, each.last_offset):
            state.archive()
            window.count_complete(window.count_from_start(first, last))
            finished.append(StateBatch(first, last, state.state, state.delivery_count))
        finished += _finish_deferred(window, each)
    return finished


def _finish_deferred(window: Window, letters: DeadLetters) -> Iterator[StateBatch]:
    """Archive the dead letters that are deferred records."""
    deferred = window.deferred
    for offset in deferred.acquired_between(letters.first_offset, letters.last_offset):
        state = deferred.acquired[offset]
        if state.state is RecordState.ARCHIVING and not state.in_transition:
            state.archive()
            deferred.settle(offset, state)
            yield StateBatch(offset, offset, state.state, state.delivery_count)


def _archiving(
    window: Window, first_offset: int, last_offset: int
) -> Iterator[tuple[int, int, InFlightState]]:
    """Yield the ARCHIVING parts of a range. Batches at its ends are split."""
    floor = window.batches.floor(first_offset)
    begin = first_offset if floor is None else floor.first_offset
    for batch in window.batches.between(begin, last_offset):
        if batch.whole is not None:
            if batch.whole.state is not RecordState.ARCHIVING:
                continue
            if batch.first_offset < first_offset or batch.last_offset > last_offset:
                batch.split(window.locks)
        for first, last, state in batch.parts():
            if (
                state.state is RecordState.ARCHIVING
                and not state.in_transition
                and first_offset <= first
                and last <= last_offset
            ):
                yield first, last, state
