"""Searches what the clients of a simulation did for anomalies between transactions.

The facts and the contents of the logs at the end become a history of operations, which
`odradek.sim.anomalies` checks. What an aborted transaction has read is left out: its producer reads it
again. If the outcome of a transaction is not known, it was committed if its records are visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from odradek.model.topic_partition import TopicPartition
from odradek.sim.anomalies import ALLOWED, anomalies
from odradek.sim.checks import Contents
from odradek.sim.facts import Facts, Fate, Reading, Transaction
from odradek.sim.operations import History, Moved, Operation, Outcome, Read, Send, Step

END = {True: "end, read_committed", False: "end, read_uncommitted"}
"""The processes that read everything at the end of the run, by whether they read committed records."""


def unexpected_anomalies(facts: Facts, logs: Mapping[TopicPartition, Contents]) -> Iterator[str]:
    """Yield the anomalies that Kafka's protocol does not allow."""
    for kind, details in anomalies(_Builder(facts, logs).history()):
        if kind not in ALLOWED:
            yield f"{kind}: {details}"


class _Builder:
    """Builds a history, whose partitions and values are numbers."""

    def __init__(self, facts: Facts, logs: Mapping[TopicPartition, Contents]) -> None:
        self._facts = facts
        self._logs = logs
        self._partitions = {partition: number for number, partition in enumerate(sorted(logs))}
        self._values: dict[str, int] = {}
        self._visible = {value for contents in logs.values() for _, value in contents.committed}

    def history(self) -> History:
        """Return the operations of all clients."""
        found = [self._transaction(each) for each in self._facts.transactions]
        for session in self._facts.sessions:
            steps: list[Step] = [Moved(), *self._reads(session.readings)]
            found.append(Operation(session.member, steps))
        for is_committed, process in END.items():
            readings = [
                Reading(partition, offset, value)
                for partition, contents in self._logs.items()
                for offset, value in (contents.committed if is_committed else contents.uncommitted)
            ]
            steps = [*self._reads(readings)]
            found.append(Operation(process, steps, is_committed_reader=is_committed))
        return found

    def _transaction(self, transaction: Transaction) -> Operation:
        outcome = self._outcome(transaction)
        steps: list[Step] = [
            Send(self._partitions[partition], self._number(value), transaction.offsets.get(value))
            for partition, values in transaction.values.items()
            for value in values
        ]
        if outcome is Outcome.COMMITTED:
            steps += self._reads(transaction.readings)
        return Operation(transaction.name.partition("/")[0], steps, outcome)

    def _outcome(self, transaction: Transaction) -> Outcome:
        if transaction.fate is Fate.COMMITTED:
            return Outcome.COMMITTED
        if transaction.fate is not Fate.UNKNOWN:
            return Outcome.ABORTED
        sent = {value for values in transaction.values.values() for value in values}
        return Outcome.COMMITTED if sent & self._visible else Outcome.ABORTED

    def _reads(self, readings: Iterable[Reading]) -> Iterator[Read]:
        for partition, offset, value in readings:
            yield Read(self._partitions[partition], offset, self._number(value))

    def _number(self, value: str) -> int:
        return self._values.setdefault(value, len(self._values))
