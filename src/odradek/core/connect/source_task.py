"""What a source task may commit: the offsets of records that are written, in order.

poll --> submit ... sent ... written        committable
             record 1   written                 |
             record 2   in flight  <- stops here, per partition of the source
             record 3   written
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from odradek.core.connect.errors import ConnectError
from odradek.core.connect.records import SourceRecord

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]


class Submitted:
    """A record on its way to the topic."""

    __slots__ = ("is_written", "offset", "partition")

    def __init__(self, partition: Partition, offset: Offset) -> None:
        self.partition = partition
        self.offset = offset
        self.is_written = False

    def written(self) -> None:
        """Note that the record is in its topic, or was dropped on purpose."""
        self.is_written = True


class SourceProgress:
    """The records of one task that are on their way, by partition of the source."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Submitted]] = {}
        self._pending = 0

    @property
    def pending(self) -> int:
        """How many records are not known to be written, or wait for such a record."""
        return self._pending

    def submit(self, record: SourceRecord) -> Submitted | None:
        """Note a record before it is sent. Return None if it has no offset."""
        if record.source_partition is None or record.source_offset is None:
            return None
        each = Submitted(record.source_partition, record.source_offset)
        key = json.dumps(record.source_partition, sort_keys=True, default=str)
        self._queues.setdefault(key, deque()).append(each)
        self._pending += 1
        return each

    def take_committable(self) -> list[tuple[Partition, Offset]]:
        """Return the last offset of each partition before which everything is written."""
        found: list[tuple[Partition, Offset]] = []
        for key in list(self._queues):
            queue = self._queues[key]
            last: Submitted | None = None
            while queue and queue[0].is_written:
                last = queue.popleft()
                self._pending -= 1
            if last is not None:
                found.append((last.partition, last.offset))
            if not queue:
                del self._queues[key]
        return found


class Boundary(Enum):
    """What ends a transaction of an exactly-once source."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


class Transactions:
    """Decides when the transaction of a source task ends.

    With `CONNECTOR` the task says so, through `ask`; with `INTERVAL` it ends after a batch if the interval
    has passed.
    """

    def __init__(self, boundary: Boundary, interval_ms: int, now_ms: int) -> None:
        self.boundary = boundary
        self._interval_ms = interval_ms
        self._last_ms = now_ms
        self._after_batch: bool | None = None
        self._after_records: dict[int, bool] = {}
        """Whether to commit (or abort), by the identity of a record."""

    def ask(self, record: SourceRecord | None, *, is_commit: bool) -> None:
        """Note what the task wants.

        Raises:
            ConnectError: the task has asked for the opposite before.
        """
        if record is None:
            if self._after_batch is not None and self._after_batch != is_commit:
                raise ConnectError(
                    "Cannot commit and abort the transaction after the same batch of records"
                )
            self._after_batch = is_commit
            return
        before = self._after_records.get(id(record))
        if before is not None and before != is_commit:
            raise ConnectError("Cannot commit and abort the transaction after the same record")
        self._after_records[id(record)] = is_commit

    def records_before_end(self, records: Sequence[SourceRecord]) -> int:
        """Return how many of these records are sent before the first end that the task has asked for."""
        if self.boundary == Boundary.CONNECTOR and self._after_records:
            for index, each in enumerate(records):
                if id(each) in self._after_records:
                    return index + 1
        return len(records)

    def after_record(self, record: SourceRecord) -> bool | None:
        """Return whether to commit (True) or abort (False) after a record; None to go on."""
        if self.boundary != Boundary.CONNECTOR:
            return None
        return self._after_records.pop(id(record), None)

    def after_batch(self, now_ms: int) -> bool | None:
        """Return whether to commit or abort after a batch; None to go on."""
        if self.boundary == Boundary.POLL:
            return True
        if self.boundary == Boundary.INTERVAL:
            if now_ms - self._last_ms < self._interval_ms:
                return None
            return True
        wanted, self._after_batch = self._after_batch, None
        self._after_records.clear()
        return wanted

    def committed(self, now_ms: int) -> None:
        """Note the time of a commit."""
        self._last_ms = now_ms
