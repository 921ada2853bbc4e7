"""Records what the clients of a simulation sent and read, and what brokers acknowledged."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from odradek.model.topic_partition import TopicPartition


class Fate(Enum):
    """The outcome of a transaction, as the producer of the transaction has observed it."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The transaction was committed or aborted, with the same outcome in all partitions."""


@dataclass(slots=True)
class Transaction:
    """A transaction with its records, the offset that it commits, and its outcome."""

    name: str
    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    offset: int | None = None
    fate: Fate = Fate.OPEN

    def add_offset(self, offset: int) -> None:
        """Record that the broker has accepted the offset."""
        assert self.offset is None, "a transaction commits one offset"
        self.offset = offset

    def end(self, fate: Fate) -> None:
        """Record the outcome of the transaction."""
        assert self.fate is Fate.OPEN, "a transaction ends once"
        self.fate = fate


@dataclass(slots=True)
class Commit:
    """An attempt to commit an offset. `end_ns` is None if it was not acknowledged."""

    offset: int
    start_ns: int
    end_ns: int | None = None

    def acknowledge(self, end_ns: int) -> None:
        """Record the time of the acknowledgement."""
        self.end_ns = end_ns


@dataclass(slots=True)
class Facts:
    """The facts about a simulation. The workload adds facts, and the checks read them."""

    sent: dict[TopicPartition, dict[str, list[str]]] = field(default_factory=dict)
    """The sent values in order, by partition and non-transactional producer."""
    acknowledged: dict[TopicPartition, dict[str, int]] = field(default_factory=dict)
    """The offsets of acknowledged values, by partition and value; -1 if the response had none."""
    transactions: list[Transaction] = field(default_factory=list)
    consumed: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    """The values that read_committed consumers received, by partition and offset."""
    commits: dict[tuple[str, TopicPartition], list[Commit]] = field(default_factory=dict)
    """The attempts to commit in the order of their start, by group and partition."""
    violations: list[str] = field(default_factory=list)
    """The violations that clients found."""
    counts: dict[str, int] = field(default_factory=dict)
    """The numbers of events. They show whether a run had enough events to prove something."""

    def count(self, what: str) -> None:
        """Increment the count of an event."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def consume(self, partition: TopicPartition, offset: int, value: str) -> None:
        """Record a value that a read_committed consumer received."""
        self.count("consumed")
        before = self.consumed.setdefault(partition, {}).setdefault(offset, value)
        if before != value:
            self.violations.append(
                f"{partition} offset {offset} was {before!r} for one consumer, {value!r} for another"
            )

    def found_committed(
        self, group: str, partition: TopicPartition, offset: int, start_ns: int
    ) -> None:
        """Check the committed offset that a request sent at `start_ns` returned; -1 means none.

        The offset is wrong if no client has committed it, or if a later commit was acknowledged
        before the request.
        """
        attempts = self.commits.get((group, partition), [])
        acknowledged = [
            each for each in attempts if each.end_ns is not None and each.end_ns < start_ns
        ]
        if offset < 0:
            if acknowledged:
                self.violations.append(f"{group} {partition}: a committed offset is lost")
            return
        candidates = [each for each in attempts if each.offset == offset]
        if not any(
            candidate.end_ns is None
            or not any(each.start_ns > candidate.end_ns for each in acknowledged)
            for candidate in candidates
        ):
            self.violations.append(
                f"{group} {partition}: the committed offset is {offset}, which was replaced"
            )
