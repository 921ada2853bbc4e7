"""Sources of `odradek consume`: chosen partitions, or the partitions of a group member."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, Self

import click

from odradek.cli.output import note
from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.client.consuming.to_ends import Patience, assigned_consumer, records_of
from odradek.client.deadline import monotonic_ms
from odradek.client.errors import BrokerError, CommitFailedError
from odradek.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.operations.texts import Position
from odradek.records.record import Record

COMMIT_INTERVAL_MS = 5_000


class Source(Protocol):
    """A source of records; used in a `with` statement."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def is_assigned(self) -> bool:
        """Whether the partitions to read are known."""
        ...

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each partition that is still read."""
        ...

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """Return the records that have arrived. If there are none, wait up to `timeout_ms`."""
        ...

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading these partitions."""
        ...

    def printed(self, key: TopicPartition, next_offset: int) -> None:
        """Record that the records before `next_offset` have been printed."""
        ...


class AssignedSource:
    """Reads chosen partitions, without a group."""

    def __init__(
        self, cluster: Cluster, starts: Mapping[TopicPartition, int], isolation: int
    ) -> None:
        self._consumer = assigned_consumer(cluster, starts, isolation)
        self._patience = Patience(self._consumer, cluster.timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._consumer.close()

    @property
    def is_assigned(self) -> bool:
        """See `Source`."""
        return True

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """See `Source`."""
        return _positions(self._consumer)

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """See `Source`."""
        return _poll(self._consumer, self._patience, timeout_ms)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """See `Source`."""
        if partitions:
            self._consumer.assign(self._consumer.assignment.difference(partitions))

    def printed(self, key: TopicPartition, next_offset: int) -> None:
        """Do nothing, because no offsets are committed."""


class GroupSource:
    """A group member.

    With `commits`, it commits printed offsets every 5 s, before a rebalance, and at the end.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Iterable[str],
        isolation: int,
        reset_to: int,
        commits: bool,
    ) -> None:
        self._consumer = Consumer(
            cluster,
            group_id=group,
            isolation_level=(
                "read_committed" if isolation == READ_COMMITTED else "read_uncommitted"
            ),
            auto_offset_reset="latest" if reset_to == LATEST else "earliest",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
        )
        self._consumer.subscribe(
            topics, on_assigned=self._assigned, on_revoked=self._revoked, on_lost=self._lost
        )
        self._patience = Patience(self._consumer, cluster.timeout_ms)
        self._from_ms = reset_to if reset_to >= 0 else None
        """The time from which partitions without a committed offset are read."""
        self._commits = commits
        self._printed: dict[TopicPartition, int] = {}
        self._done: set[TopicPartition] = set()
        self._is_assigned = False
        self._commit_due_ms = monotonic_ms() + COMMIT_INTERVAL_MS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Commit and leave."""
        try:
            self._commit()
        finally:
            self._consumer.close()

    @property
    def is_assigned(self) -> bool:
        """Whether the group has assigned partitions to this member."""
        return self._is_assigned

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """See `Source`."""
        positions = _positions(self._consumer).items()
        return {key: offset for key, offset in positions if key not in self._done}

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """See `Source`. Commit if the commit interval has passed."""
        if monotonic_ms() >= self._commit_due_ms:
            self._commit()
        return _poll(self._consumer, self._patience, timeout_ms)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Stop returning records of these partitions. The partitions stay assigned."""
        self._done.update(partitions)
        self._consumer.pause(partitions)

    def printed(self, key: TopicPartition, next_offset: int) -> None:
        """Record the offset for the next commit."""
        self._printed[key] = next_offset

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        self._is_assigned = True
        self._done.difference_update(partitions)
        if self._from_ms is not None:
            committed = self._consumer.committed(partitions)
            fresh = [each for each in partitions if each not in committed]
            found = self._consumer.offsets_for_times(dict.fromkeys(fresh, self._from_ms))
            for each, first in found.items():
                if first is None:
                    self._consumer.seek_to_end(each)
                else:
                    self._consumer.seek(each, first.offset)

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._lost(partitions)

    def _lost(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._printed.pop(each, None)

    def _commit(self) -> None:
        self._commit_due_ms = monotonic_ms() + COMMIT_INTERVAL_MS
        if not self._commits or not self._printed:
            return
        try:
            self._consumer.commit(self._printed)
        except CommitFailedError as error:
            note(f"{error}. Other members read these records again.")
        except BrokerError as error:
            if error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise
            return  # they are committed later
        self._printed = {}


def _positions(consumer: Consumer) -> dict[TopicPartition, int]:
    """Return the positions of the assigned partitions; -1 where they are looked up."""
    known = consumer.positions
    return {each: known.get(each, -1) for each in consumer.assignment}


def _poll(
    consumer: Consumer, patience: Patience, timeout_ms: int
) -> dict[TopicPartition, list[Record]]:
    batch = consumer.poll(timeout_ms / 1000)
    patience.check(has_progress=batch is not None)
    return {} if batch is None else {batch.topic_partition: records_of(batch)}


def reset_time(start: Position) -> int:
    """Return the time or special value at which a group without committed offsets starts.

    Raises:
        UsageError: the position is not the beginning, the end or a time.
    """
    times = {"earliest": EARLIEST, "latest": LATEST, "time": start.value}
    if start.kind not in times:
        raise click.UsageError(
            "with --group, --from must be beginning, end or a time, and is used only without a "
            "committed offset; to change offsets use: odradek group reset-offsets GROUP"
        )
    return times[start.kind]
