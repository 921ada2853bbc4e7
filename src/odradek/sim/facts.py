"""Records what the clients of a world sent, what was acknowledged, and what they read."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from odradek.model.topic_partition import TopicPartition


class Fate(Enum):
    """The outcome of a transaction, as far as its producer knows."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Committed or aborted, with the same outcome in all partitions."""


@dataclass(slots=True)
class Transaction:
    """One transaction: its records, the offset that it commits, and its fate."""

    name: str
    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    offset: int | None = None
    fate: Fate = Fate.OPEN

    def add_offset(self, offset: int) -> None:
        """The broker has accepted the offset."""
        assert self.offset is None, "a transaction commits one offset"
        self.offset = offset

    def end(self, fate: Fate) -> None:
        """The transaction has ended."""
        assert self.fate is Fate.OPEN, "a transaction ends once"
        self.fate = fate


@dataclass(slots=True)
class Commit:
    """An attempt to commit an offset; `end_ns` is None if it was not acknowledged."""

    offset: int
    start_ns: int
    end_ns: int | None = None

    def acknowledge(self, end_ns: int) -> None:
        """The broker has acknowledged it."""
        self.end_ns = end_ns


@dataclass(slots=True)
class Facts:
    """See the module. Filled by the workload, read by the checks."""

    sent: dict[TopicPartition, dict[str, list[str]]] = field(default_factory=dict)
    """By partition and non-transactional producer: the values, in order."""
    acknowledged: dict[TopicPartition, dict[str, int]] = field(default_factory=dict)
    """By partition and value: the offset, or -1 if the response did not have it."""
    transactions: list[Transaction] = field(default_factory=list)
    consumed: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    """By partition and offset: the value that a read_committed consumer received."""
    commits: dict[tuple[str, TopicPartition], list[Commit]] = field(default_factory=dict)
    """By group and partition: attempts to commit, in the order of their start."""
    violations: list[str] = field(default_factory=list)
    """Violations that were found."""
    counts: dict[str, int] = field(default_factory=dict)
    """Counts of events: a run without events proves nothing."""

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
        """Check the committed offset that a request sent at `start_ns` returned; -1 means none. It
        is wrong if no client has committed it, or if a later commit was acknowledged before the
        request.
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
