"""The phases of a transactional id, and the legal transitions between them.

    phase               may follow after
    ------------------  ---------------------------------------------------------------
    Empty               nothing, Empty, CompleteCommit, CompleteAbort   (InitProducerId)
    Ongoing             Ongoing, Empty, CompleteCommit, CompleteAbort   (partitions are added)
    PrepareCommit       Ongoing                                         (EndTxn)
    PrepareAbort        Ongoing, PrepareEpochFence                      (EndTxn, a timeout)
                        Empty, CompleteCommit, CompleteAbort            (EndTxn of version 2)
    CompleteCommit      PrepareCommit                                   (all markers are written)
    CompleteAbort       PrepareAbort                                    (all markers are written)
    PrepareEpochFence   Ongoing                                         (a new producer fences)
    Dead                Empty, CompleteCommit, CompleteAbort            (the id has expired)

No record has the phase PrepareEpochFence or Dead. A transaction that is fenced goes to PrepareAbort
directly, and an expired id is removed by a tombstone.
"""

from __future__ import annotations

from enum import Enum
from typing import Self


class Phase(Enum):
    """A phase. `value` is its number in records, `label` is its name for clients."""

    label: str

    def __new__(cls, value: int, label: str) -> Self:
        """Create a phase from its number and its label."""
        member = object.__new__(cls)
        member._value_ = value
        member.label = label
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    __hash__ = object.__hash__  # faster, because Enum.__hash__ is a Python function


AT_REST = frozenset((Phase.EMPTY, Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT))
"""No transaction is open or ending. An id may expire only in these phases."""
PREPARED = frozenset((Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT))
"""The end of the transaction is decided, but markers are missing."""

PREDECESSORS: dict[Phase, frozenset[Phase]] = {
    Phase.EMPTY: AT_REST,
    Phase.ONGOING: AT_REST | {Phase.ONGOING},
    Phase.PREPARE_COMMIT: frozenset((Phase.ONGOING,)),
    Phase.PREPARE_ABORT: AT_REST | {Phase.ONGOING, Phase.PREPARE_EPOCH_FENCE},
    Phase.COMPLETE_COMMIT: frozenset((Phase.PREPARE_COMMIT,)),
    Phase.COMPLETE_ABORT: frozenset((Phase.PREPARE_ABORT,)),
    Phase.PREPARE_EPOCH_FENCE: frozenset((Phase.ONGOING,)),
    Phase.DEAD: AT_REST,
}
"""New phase -> the phases from which the transition is legal (the table above)."""

BY_NUMBER = {phase.value: phase for phase in Phase}
BY_LABEL = {phase.label: phase for phase in Phase}
