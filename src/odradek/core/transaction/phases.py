"""The phases of a transactional id, and the legal moves between them.

    phase               may follow
    ------------------  ---------------------------------------------------------------
    Empty               nothing, Empty, CompleteCommit, CompleteAbort   (InitProducerId)
    Ongoing             Ongoing, Empty, CompleteCommit, CompleteAbort   (partitions are added)
    PrepareCommit       Ongoing                                         (EndTxn)
    PrepareAbort        Ongoing, PrepareEpochFence                      (EndTxn, a timeout)
                        Empty, CompleteCommit, CompleteAbort            (EndTxn of version 2)
    CompleteCommit      PrepareCommit                                   (all markers are written)
    CompleteAbort       PrepareAbort                                    (all markers are written)
    PrepareEpochFence   Ongoing                                         (a successor fences)
    Dead                Empty, CompleteCommit, CompleteAbort            (the id has expired)

PrepareEpochFence and Dead are moments inside of one decision: the first goes on to PrepareAbort
at once, the second is a tombstone. Neither is ever stored.
"""

from __future__ import annotations

from enum import Enum
from typing import Self


class Phase(Enum):
    """A phase; `value` is its number in records, `label` its name for clients."""

    label: str

    def __new__(cls, value: int, label: str) -> Self:
        """A member is its number with a name."""
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

    __hash__ = object.__hash__  # that of Enum is a function in Python


AT_REST = frozenset((Phase.EMPTY, Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT))
"""No transaction is open. Only from here an id may expire."""
PREPARED = frozenset((Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT))
"""The end of the transaction is decided; markers are outstanding."""

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
"""The table above."""

BY_NUMBER = {phase.value: phase for phase in Phase}
BY_LABEL = {phase.label: phase for phase in Phase}
