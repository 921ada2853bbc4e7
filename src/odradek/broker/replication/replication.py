"""All replicated partitions of a broker: those that it leads and those that it follows.

`ReplicaManager` calls `follow` for each changed partition with several replicas, and `leave` for
the others. Every `replica.lag.time.max.ms` / 2, the partitions that this broker leads are checked
for followers that lag, `TICK_PARTITIONS` in one iteration of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice

from odradek.broker.partitions.leading import LeaderContext, Leading
from odradek.broker.partitions.partition import Partition
from odradek.broker.replication.fetchers import Fetchers

log = logging.getLogger("odradek.replicas")

TICK_PARTITIONS = 500


class PartitionReplication:
    """The replicated partitions of a broker. Use it only on the event loop's thread."""

    def __init__(
        self, context: LeaderContext, fetchers: Fetchers, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._context = context
        self._fetchers = fetchers
        self._loop = loop
        self._interval_seconds = context.lag_time_max_ms / 2000
        self._timer: asyncio.Handle = loop.call_later(self._interval_seconds, self._tick)

    def follow(self, partition: Partition) -> None:
        """Lead the partition or follow its leader, according to the partition's registration."""
        if partition.is_leader:
            self._fetchers.unfollow(partition)
            partition.lead_followers(self._context)
        else:
            partition.stop_leading_followers()
            self._fetchers.follow(partition)

    def leave(self, partition: Partition) -> None:
        """Stop leading or following the partition."""
        partition.stop_leading_followers()
        self._fetchers.unfollow(partition)

    def on_brokers_changed(self) -> None:
        """Apply changed registrations of brokers."""
        self._fetchers.on_brokers_changed()

    def close(self) -> None:
        """Stop fetching and checking."""
        self._timer.cancel()
        self._fetchers.close()

    def _tick(self) -> None:
        self._tick_some(list(self._context.led))

    def _tick_some(self, led: list[Leading]) -> None:
        for each in islice(led, TICK_PARTITIONS):
            if each in self._context.led:
                try:
                    each.tick()
                except Exception:  # an error in one partition must not affect the others
                    log.exception("a partition was not checked for followers that lag")
        left = led[TICK_PARTITIONS:]
        if left:
            self._timer = self._loop.call_soon(self._tick_some, left)
        else:
            self._timer = self._loop.call_later(self._interval_seconds, self._tick)
