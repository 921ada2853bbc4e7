"""The requests that wait for records of one share partition.

They are notified of commits and of changes of the share partition together. Then they are tried one
after the other, the oldest first, and only while there may be records. So a record that arrives
costs the same, no matter how many members wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from odradek.broker.partitions.partition import Partition


class ShareWaiter(Protocol):
    """A ShareFetch request that waits for available records."""

    def try_complete(self) -> None:
        """Respond if there are enough records."""
        ...

    def expire(self) -> None:
        """Respond now."""
        ...


class Waiters:
    """The waiting requests of one share partition. Use it only on the loop's thread."""

    def __init__(
        self,
        partition: Partition,
        may_have_records: Callable[[], bool],
        wake: Callable[[Waiters], None],
    ) -> None:
        """`wake` arranges that `try_complete` is called soon."""
        self._partition = partition
        self._may_have_records = may_have_records
        self._wake = wake
        self._waiters: dict[ShareWaiter, None] = {}
        self._tries_all = False
        """Whether requests are tried even if this share partition has no records for them."""

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiter: ShareWaiter) -> None:
        """Complete `waiter` when enough records are available, until `remove`."""
        if not self._waiters:
            self._partition.add_waiter(self)
        self._waiters[waiter] = None

    def remove(self, waiter: ShareWaiter) -> None:
        """Undo `add`."""
        self._waiters.pop(waiter, None)
        if not self._waiters:
            self._partition.remove_waiter(self)

    def notify(self) -> None:
        """Note that records may have become available."""
        if self._waiters:
            self._wake(self)

    def notify_all(self) -> None:
        """Note that the share partition can be used now, or no longer."""
        if self._waiters:
            self._tries_all = True
            self._wake(self)

    def on_committed(self, appended_bytes: int) -> None:
        """See `odradek.broker.partitions.partition.Waiter`."""
        self._wake(self)

    def expire(self) -> None:
        """See `odradek.broker.partitions.partition.Waiter`. All requests respond now."""
        for waiter in list(self._waiters):
            waiter.expire()

    def try_complete(self) -> None:
        """Try the requests. Called after `wake`."""
        tries_all, self._tries_all = self._tries_all, False
        for waiter in list(self._waiters):
            if not (tries_all or self._may_have_records()):
                return
            waiter.try_complete()
