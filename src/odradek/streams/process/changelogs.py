"""Reads changelogs into stores, a batch at a time, beside the processing of records.

A changelog of a task that shall begin is read up to a limit: the end that it had when the task was assigned. One
of a standby task is read for ever. Reading begins where the content of the store ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from odradek.client.consuming.consumer import Consumer
from odradek.core.streams.stores.base import Store
from odradek.model.topic_partition import TopicPartition


class Changelog:
    """A partition that is read into a store."""

    def __init__(self, place: TopicPartition, store: Store, position: int) -> None:
        self.place = place
        self.store = store
        self.position = position
        """The offset of the next record."""
        self.limit: int | None = None
        """Where reading ends; None: never."""
        self.count = 0
        """How many records were read."""

    @property
    def is_read(self) -> bool:
        """Whether all up to the limit has been read."""
        return self.limit is not None and self.position >= self.limit

    def end_at(self, limit: int | None) -> None:
        """Set where reading ends."""
        self.limit = limit

    def apply(self, records: Iterable[Any], next_offset: int) -> None:
        """Read records."""
        limit, restore = self.limit, self.store.restore
        for record in records:
            if limit is not None and record.offset >= limit:
                break
            restore(record.key, record.value, record.timestamp, record.headers)
            self.count += 1
        self.advance(next_offset)

    def advance(self, position: int) -> None:
        """Note that there are no records up to an offset. Behind the last one may be markers only."""
        if self.limit is not None:
            position = min(position, self.limit)
        self.position = max(self.position, position)


class ChangelogReader:
    """The changelogs that are being read, with one consumer."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` are those of the consumer."""
        self._settings = {**settings, "auto.offset.reset": "none"}
        self._consumer: Consumer | None = None
        self._changelogs: dict[TopicPartition, Changelog] = {}
        self._assigned: set[TopicPartition] = set()
        self._has_changed = False

    def __len__(self) -> int:
        return len(self._changelogs)

    def add(self, changelogs: Collection[Changelog]) -> None:
        """Read these, too."""
        for each in changelogs:
            self._changelogs[each.place] = each
            self._assigned.discard(each.place)
            self._has_changed = True

    def remove(self, changelogs: Collection[Changelog]) -> None:
        """Do not read these any more."""
        for each in changelogs:
            if self._changelogs.get(each.place) is each:
                del self._changelogs[each.place]
                self._has_changed = True

    def read(self, timeout: float) -> list[tuple[Changelog, Iterable[Any], int]]:
        """Return what has arrived within `timeout` seconds: records of a changelog, and the next offset.

        Raises:
            OffsetOutOfRangeError: records that were to be read next do not exist any more.
            ClientError: a changelog cannot be read.
        """
        if self._has_changed:
            self._assign()
        if not self._changelogs or self._consumer is None:
            return []
        batch = self._consumer.poll(timeout)
        if batch is not None:
            changelog = self._changelogs.get(batch.topic_partition)
            return [] if changelog is None else [(changelog, batch.records(), batch.next_offset)]
        positions = self._consumer.positions
        return [
            (each, (), positions[each.place])
            for each in self._changelogs.values()
            if positions.get(each.place, -1) > each.position
        ]

    def end_of(self, changelog: Changelog) -> int | None:
        """Return where a changelog ends, or where reading ends; None if it is not known yet."""
        if changelog.limit is not None:
            return changelog.limit
        if self._consumer is None or changelog.place not in self._assigned:
            return None
        lag = self._consumer.lag(changelog.place)
        return None if lag is None else changelog.position + lag

    def _assign(self) -> None:
        self._has_changed = False
        if self._consumer is None:
            if not self._changelogs:
                return
            self._consumer = Consumer(self._settings)
        wanted: list[tuple[Any, ...]] = [
            tuple(each.place) if each.place in self._assigned else (*each.place, each.position)
            for each in self._changelogs.values()
        ]
        # A partition that was removed and added again has another position: it must be new.
        stays = [tuple(each) for each in self._assigned & self._changelogs.keys()]
        self._consumer.assign(stays)
        self._consumer.assign(wanted)
        self._assigned = set(self._changelogs)

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
