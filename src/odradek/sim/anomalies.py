"""Finds anomalies in a history. The names are those of Jepsen's workload for Kafka.

A partition is a list to which transactions append, so its offsets are the order of its writes. From
this order and from what was read, the checker infers which transaction came before which, as Elle
does, and looks for cycles. A transaction that reads what another one wrote came after it (a wr edge). Of
two transactions that wrote to a partition, the one with the lower offset came first (ww). Kafka does
not isolate writes, so cycles with ww edges are allowed. Cycles with wr edges alone, or with the order
of the operations of a process, mean that something was read before it was committed. A transaction
that reads less than what is there (rw) may be part of any cycle, so such edges are not inferred.

For each partition the checker builds two sequences of values by offset: the values that were
committed or that a read_committed consumer has read, and the values that any consumer has read.
Offsets of markers and of aborted records have no value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from odradek.sim.cycles import Graph, cycles, united
from odradek.sim.operations import History, Moved, Operation, Outcome, Read, Send

ALLOWED = {
    "int-send-skip": "transactions of several producers interleave in a partition",
    "G0": "writes are not isolated from each other: each partition orders them for itself",
    "G1c": "as G0, but the cycle includes a read",
}
"""The anomalies that Kafka's protocol allows, with the reasons. All others are defects."""
KINDS = (
    "lost-write",
    "unseen",
    "duplicate",
    "inconsistent-offsets",
    "G1a",
    "torn-transaction",
    "precommitted-read",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "poll-skip",
    "nonmonotonic-poll",
    "int-send-skip",
    "int-nonmonotonic-send",
    "nonmonotonic-send",
    "G0",
    "G1c",
    "G1c-wr",
    "G1c-process",
)
"""All anomalies that the checker finds.

Sends of other producers between two transactions are not an anomaly.
"""

Place = tuple[int, int]
"""Partition and offset."""
Ranks = dict[tuple[bool, int], int]
"""By partition: the position in the partition's order that was last read (True) or sent (False)."""


class Anomaly(NamedTuple):
    """A found anomaly: its kind and the operations."""

    kind: str
    details: str


def anomalies(history: History) -> list[Anomaly]:
    """Find all anomalies of a history."""
    return list(_Checker(history).run())


class _Checker:
    def __init__(self, history: History) -> None:
        self.history = history
        self.writer: dict[int, int] = {}
        """For each value, the index of the operation that sent it."""
        self.places: dict[int, set[Place]] = defaultdict(set)
        self.values: dict[Place, set[int]] = defaultdict(set)
        self.seen: dict[bool, set[int]] = {True: set(), False: set()}
        """The values that read_committed consumers have read, and the values that others have
        read."""
        self.read_to: dict[int, int] = defaultdict(lambda: -1)
        """The highest offset that a read_committed consumer has read, by partition."""
        for number, operation in enumerate(history):
            self._note(number, operation)
        self.rank = {True: self._ranks(True), False: self._ranks(False)}
        """The position of each value in its partition's order."""

    def _note(self, number: int, operation: Operation) -> None:
        for send in operation.sends:
            self.writer[send.value] = number
            if send.offset is not None and operation.outcome is Outcome.COMMITTED:
                self._place(send.partition, send.offset, send.value)
        for read in operation.reads:
            self._place(read.partition, read.offset, read.value)
            self.seen[operation.is_committed_reader].add(read.value)
            if operation.is_committed_reader:
                self.read_to[read.partition] = max(self.read_to[read.partition], read.offset)

    def _place(self, partition: int, offset: int, value: int) -> None:
        self.places[value].add((partition, offset))
        self.values[partition, offset].add(value)

    def _counts(self, value: int) -> bool:
        number = self.writer.get(value)
        committed = number is not None and self.history[number].outcome is Outcome.COMMITTED
        return committed or value in self.seen[True]

    def _ranks(self, is_committed: bool) -> dict[int, int]:
        ranks: dict[int, int] = {}
        last: dict[int, int] = defaultdict(int)
        for (partition, _), values in sorted(self.values.items()):
            for value in sorted(values):
                if not is_committed or self._counts(value):
                    last[partition] += 1
                    ranks[value] = last[partition]
        return ranks

    def run(self) -> Iterator[Anomaly]:
        yield from self._offsets()
        yield from self._writes()
        yield from self._orders()
        yield from self._cycles()

    # -- single values ------------------------------------------------------------------------

    def _offsets(self) -> Iterator[Anomaly]:
        for value, places in self.places.items():
            if len(places) > 1:
                yield Anomaly("duplicate", f"{value} at {sorted(places)}")
        for place, values in self.values.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", f"{sorted(values)} at {place}")

    def _writes(self) -> Iterator[Anomaly]:
        for operation in self.history:
            sent = {send.value for send in operation.sends}
            seen = sent & self.seen[True]
            own = sent.intersection(read.value for read in operation.reads)
            if operation.is_committed_reader and own:
                yield Anomaly("precommitted-read", f"{sorted(own)} by {operation.process}")
            if operation.outcome is Outcome.ABORTED and seen:
                yield Anomaly("G1a", f"{sorted(seen)} of {operation.process} was aborted")
            elif operation.outcome is Outcome.UNKNOWN and seen and seen != sent:
                yield Anomaly("torn-transaction", f"of {sorted(sent)} only {sorted(seen)}")
            elif operation.outcome is Outcome.COMMITTED:
                for send in operation.sends:
                    if send.value not in seen:
                        yield self._missing(send)

    def _missing(self, send: Send) -> Anomaly:
        is_passed = send.offset is not None and send.offset <= self.read_to[send.partition]
        return Anomaly("lost-write" if is_passed else "unseen", str(send))

    # -- the order of one process -------------------------------------------------------------

    def _orders(self) -> Iterator[Anomaly]:
        """From one value of a partition to the next one of the same process and transaction
        ("int-"), or of the same process."""
        across: dict[str, Ranks] = defaultdict(dict)
        for operation in self.history:
            within: Ranks = {}
            before = across[operation.process]
            for step in operation.steps:
                if isinstance(step, Moved):
                    _forget_reads(within)
                    _forget_reads(before)
                    continue
                is_read = isinstance(step, Read)
                rank = self.rank[operation.is_committed_reader or not is_read].get(step.value)
                if rank is None:
                    continue
                key = (is_read, step.partition)
                earlier, prefix = (within, "int-") if key in within else (before, "")
                kind = prefix + _step(earlier.get(key, rank - 1), rank, is_read)
                if kind in KINDS:
                    yield Anomaly(kind, f"{operation.process}: {earlier[key]} to {rank}, {step}")
                within[key] = before[key] = rank

    # -- between transactions -----------------------------------------------------------------

    def _cycles(self) -> Iterator[Anomaly]:
        wrote, read = self._write_edges(), self._read_edges()
        alone = set()
        for kind, graph in (("G0", wrote), ("G1c-wr", read)):
            for found in cycles(graph):
                alone.add(frozenset(found))
                yield Anomaly(kind, self._cycle(found))
        more = {"G1c": wrote, "G1c-process": self._process_edges()}
        for kind, graph in more.items():
            for found in cycles(united(graph, read)):
                if frozenset(found) not in alone:
                    yield Anomaly(kind, self._cycle(found))

    def _cycle(self, found: list[int]) -> str:
        return " ".join(f"{number}:{self.history[number].process}" for number in sorted(found))

    def _write_edges(self) -> Graph:
        """Edges from the writer of each value to the writer of the next value in the partition."""
        edges: dict[int, set[int]] = defaultdict(set)
        before: dict[int, int] = {}
        for (partition, _), values in sorted(self.values.items()):
            for value in sorted(values & self.rank[True].keys() & self.writer.keys()):
                writer = self.writer[value]
                if before.get(partition, writer) != writer:
                    edges[before[partition]].add(writer)
                before[partition] = writer
        return edges

    def _read_edges(self) -> Graph:
        """Edges from the writer of each value to the committed operations that have read it."""
        edges: dict[int, set[int]] = defaultdict(set)
        for number, operation in enumerate(self.history):
            if operation.outcome is not Outcome.COMMITTED or not operation.is_committed_reader:
                continue
            for read in operation.reads:
                writer = self.writer.get(read.value, number)
                if writer != number:
                    edges[writer].add(number)
        return edges

    def _process_edges(self) -> Graph:
        """Edges from each operation to the next one of the same process."""
        edges: dict[int, set[int]] = {}
        before: dict[str, int] = {}
        for number, operation in enumerate(self.history):
            if operation.process in before:
                edges[before[operation.process]] = {number}
            before[operation.process] = number
        return edges


def _step(before: int, rank: int, is_read: bool) -> str:
    """Return the anomaly of a step in a partition's order; empty for a step to the next value."""
    what = "poll" if is_read else "send"
    if rank > before + 1:
        return f"{what}-skip"
    return f"nonmonotonic-{what}" if rank <= before else ""


def _forget_reads(ranks: Ranks) -> None:
    for key in [each for each in ranks if each[0]]:
        del ranks[key]
