"""Sources of `odradek consume`: chosen partitions, or the partitions of a group member."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, Self

import click

from odradek.client.cluster import Cluster
from odradek.client.consumer import Consumer
from odradek.client.deadline import monotonic_ms
from odradek.client.group.group_consumer import GroupConsumer
from odradek.client.offsets import EARLIEST, LATEST
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

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        ...

    def printed(self, key: TopicPartition, next_offset: int) -> None:
        """Record that the records before `next_offset` have been printed."""
        ...


class AssignedSource:
    """Reads chosen partitions, without a group."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    @property
    def is_assigned(self) -> bool:
        """See `Source`."""
        return True

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """See `Source`."""
        return self._consumer.positions

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """See `Source`."""
        return self._consumer.poll(timeout_ms)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """See `Source`."""
        self._consumer.drop(partitions)

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
        self._member = GroupConsumer(
            cluster,
            group,
            topics,
            isolation=isolation,
            reset_to=reset_to,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
        )
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
            self._member.close()

    @property
    def is_assigned(self) -> bool:
        """Whether the group has assigned partitions to this member."""
        return self._is_assigned

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """See `Source`."""
        positions = self._member.positions.items()
        return {key: offset for key, offset in positions if key not in self._done}

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """Poll as `GroupConsumer.poll` does. Commit if the commit interval has passed."""
        if monotonic_ms() >= self._commit_due_ms:
            self._commit()
        records = self._member.poll(timeout_ms)
        return {key: some for key, some in records.items() if key not in self._done}

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records of these partitions. The partitions stay assigned."""
        self._done.update(partitions)

    def printed(self, key: TopicPartition, next_offset: int) -> None:
        """Record the offset for the next commit."""
        self._printed[key] = next_offset

    def _assigned(self, positions: Mapping[TopicPartition, int]) -> None:
        self._is_assigned = True
        self._printed = {}
        self._done &= set(positions)

    def _revoked(self, _partitions: Collection[TopicPartition]) -> None:
        self._commit()

    def _commit(self) -> None:
        self._commit_due_ms = monotonic_ms() + COMMIT_INTERVAL_MS
        if self._commits and self._printed:
            self._member.commit(self._printed)
            self._printed = {}


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
