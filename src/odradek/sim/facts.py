"""Records what the clients of a simulation sent and read, and what brokers acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from odradek.model.topic_partition import TopicPartition


class Fate(Enum):
    """The outcome of a transaction, as the producer of the transaction has observed it."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The transaction was committed or aborted, with the same outcome in all partitions."""


class Reading(NamedTuple):
    """A record that a read_committed consumer received."""

    partition: TopicPartition
    offset: int
    value: str


@dataclass(slots=True)
class Transaction:
    """A transaction with its records, what it has read, the offset that it commits, and its outcome."""

    name: str
    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    """The offset of each value whose acknowledgement had one."""
    readings: list[Reading] = field(default_factory=list)
    """What was read from the positions that it commits."""
    inputs: list[Reading] = field(default_factory=list)
    """What was read from partitions that a group has assigned, and may assign to others."""
    offset: int | None = None
    fate: Fate = Fate.OPEN
    is_asked_to_commit: bool = False
    """Whether the producer has asked for a commit, which may take effect without a response."""

    @property
    def fate_without_end(self) -> Fate:
        """The outcome if the producer does not learn of an end, and nobody goes on with the transaction."""
        return Fate.UNKNOWN if self.is_asked_to_commit else Fate.ABORTED

    def ask_to_commit(self) -> None:
        """Record that the producer asks for a commit."""
        self.is_asked_to_commit = True

    def add_offset(self, offset: int) -> None:
        """Record that the broker has accepted the offset."""
        assert self.offset is None, "a transaction commits one offset"
        self.offset = offset

    def end(self, fate: Fate) -> None:
        """Record the outcome of the transaction."""
        assert self.fate is Fate.OPEN, "a transaction ends once"
        self.fate = fate


@dataclass(slots=True)
class Session:
    """What a member of a group has read in one generation, in the order of its fetches."""

    member: str
    readings: list[Reading] = field(default_factory=list)


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
    sessions: list[Session] = field(default_factory=list)
    """What members of groups have read."""
    commits: dict[tuple[str, TopicPartition], list[Commit]] = field(default_factory=dict)
    """The attempts to commit in the order of their start, by group and partition."""
    violations: list[str] = field(default_factory=list)
    """The violations that clients found. It is the list of the failures of the simulation."""
    settings: list[str] = field(default_factory=list)
    """The groups whose settings were changed."""
    producer_ids: dict[int, tuple[str, int]] = field(default_factory=dict)
    """The producer and its newest epoch, by producer id."""
    owners: dict[tuple[str, int, TopicPartition], str] = field(default_factory=dict)
    """The member that owns a partition in a generation of a group."""
    counts: dict[str, int] = field(default_factory=dict)
    """The numbers of events. They show whether a run had enough events to prove something."""

    def count(self, what: str, times: int = 1) -> None:
        """Count an event."""
        self.counts[what] = self.counts.get(what, 0) + times

    def begin_session(self, member: str) -> Session:
        """Record that a member begins to read its partitions."""
        session = Session(member)
        self.sessions.append(session)
        return session

    def consume(self, reading: Reading, readings: list[Reading]) -> None:
        """Record a value that a read_committed consumer received, and add it to `readings`."""
        self.count("consumed")
        readings.append(reading)
        partition, offset, value = reading
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
        problem = problem_of(self.commits.get((group, partition), []), offset, start_ns)
        if problem:
            self.violations.append(f"{group} {partition}: the committed offset {problem}")

    def acknowledge_commit(
        self, group: str, partition: TopicPartition, attempt: Commit, now_ns: int
    ) -> None:
        """Record that a commit was acknowledged. No member goes back behind an earlier commit."""
        attempt.acknowledge(now_ns)
        for each in self.commits[group, partition]:
            is_earlier = each.end_ns is not None and each.end_ns < attempt.start_ns
            if is_earlier and each.offset > attempt.offset:
                self.violations.append(
                    f"{group} {partition}: {attempt.offset} was committed after {each.offset}"
                )
                return

    def initialized(self, name: str, producer_id: int, epoch: int) -> None:
        """Check a producer id and an epoch that a transactional producer got for its next transactions."""
        owner, before = self.producer_ids.get(producer_id, (name, -1))
        if owner != name:
            self.violations.append(f"{owner} and {name} have the same producer id {producer_id}")
        elif epoch <= before:
            self.violations.append(
                f"{name} got epoch {epoch} of producer id {producer_id} after epoch {before}"
            )
        self.producer_ids[producer_id] = name, epoch

    def uses(self, name: str, producer_id: int, epoch: int) -> None:
        """Check the producer id and the epoch of an idempotent producer, which may be as before."""
        if self.producer_ids.get(producer_id) != (name, epoch):
            self.initialized(name, producer_id, epoch)

    def assigned(
        self, group: str, generation: int, name: str, partitions: Iterable[TopicPartition]
    ) -> None:
        """Check the partitions that a member owns in a generation: nobody else owns them."""
        for partition in partitions:
            owner = self.owners.setdefault((group, generation, partition), name)
            if owner != name:
                self.violations.append(
                    f"{group}: {owner} and {name} own {partition} in generation {generation}"
                )


def problem_of(attempts: Sequence[Commit], value: int, start_ns: int) -> str:
    """Return what is wrong with a value in the response to a request; empty if it is correct.

    `value` is -1 if there was no value. The request was sent at `start_ns`. The value is wrong if
    no client has written it, or if a later write was acknowledged before the request was sent.
    """
    acknowledged = [each for each in attempts if each.end_ns is not None and each.end_ns < start_ns]
    if value < 0:
        return "is lost" if acknowledged else ""
    candidates = [each for each in attempts if each.offset == value]
    if any(
        candidate.end_ns is None
        or not any(each.start_ns > candidate.end_ns for each in acknowledged)
        for candidate in candidates
    ):
        return ""
    return f"is {value}, which was replaced" if candidates else f"is {value}, which nobody wrote"
