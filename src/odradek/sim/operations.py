"""Histories: the operations of clients and their results.

A history is a list of operations. One operation is one transaction of one process (or one write
without a transaction): sends and polls in the order in which they happened, and how it ended. The
operations of a process are in the list in their order. Values are numbers that are sent only once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Outcome(Enum):
    """The outcome of an operation that its process knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The response to the commit was lost: either the whole operation takes effect, or nothing."""


@dataclass(slots=True)
class Send:
    """A value sent to a partition, and its offset if the broker has acknowledged it."""

    partition: int
    value: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A value that a poll returned."""

    partition: int
    offset: int
    value: int


@dataclass(frozen=True, slots=True)
class Moved:
    """The process continues to read at other offsets, after a seek or a rebalance."""


Step = Send | Read | Moved


@dataclass(slots=True)
class Operation:
    """One transaction of a process."""

    process: str
    steps: list[Step] = field(default_factory=list)
    outcome: Outcome = Outcome.COMMITTED
    is_committed_reader: bool = True
    """Whether its consumer is read_committed."""

    @property
    def sends(self) -> list[Send]:
        """Its sends."""
        return [step for step in self.steps if isinstance(step, Send)]

    @property
    def reads(self) -> list[Read]:
        """Its reads."""
        return [step for step in self.steps if isinstance(step, Read)]


History = list[Operation]
