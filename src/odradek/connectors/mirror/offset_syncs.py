"""Translates offsets of the source into offsets of the target, and decides which pairs are written for that.

The task that copies records knows both offsets of each record. It writes some pairs, the offset syncs,
to a topic: `SyncQueue` decides which. The task that makes checkpoints reads the topic into a `SyncStore`,
which keeps at most 64 pairs of a partition: the newest one, and older ones at distances that double.

The invariants of the 64 pairs, where `s[i]` is the offset at the source:
    A  s[0] is the newest
    B  s[i] <= s[j] + 2^j - 2^i   for i < j and different pairs: an old pair is not too old
    C  s[i] >= s[j] + 2^(i-2)     for i < j and different pairs: pairs are not too close
Equal entries stand for places without a pair of their own.
"""

from __future__ import annotations

from odradek.connectors.mirror.formats import OffsetSync
from odradek.model.topic_partition import TopicPartition

SYNCS = 64
"""One pair for each bit of an offset."""
_MAX_INT64 = 2**63 - 1
OUTSTANDING_MAX = 10
"""How many offset syncs are on their way at most."""

Syncs = list[OffsetSync]


class SyncStore:
    """The offset syncs of all partitions (`OffsetSyncStore`).

    Checkpoints must not go back. After a start without knowing the earlier checkpoints, only the last
    offset sync that was there at the start is used, and those that come after it.
    """

    def __init__(self, *, keeps_earlier: bool) -> None:
        """`keeps_earlier`: the earlier checkpoints are known, so all offset syncs may be used."""
        self._keeps_earlier = keeps_earlier
        self._is_complete = False
        self._syncs: dict[TopicPartition, Syncs] = {}

    def completed(self) -> None:
        """Note that the topic has been read to its end once. Before that, nothing is translated."""
        self._is_complete = True

    def add(self, sync: OffsetSync) -> None:
        """Take the next record of the topic."""
        before = self._syncs.get(sync.partition)
        only_last = not self._is_complete and not self._keeps_earlier
        if before is None or only_last or sync.upstream < before[0].upstream:
            self._syncs[sync.partition] = [sync] * SYNCS
        else:
            self._syncs[sync.partition] = _updated(before, sync)

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the offset at the target where reading loses nothing.

        -1 if the offset is before all offset syncs; None if nothing is known about the partition.
        """
        syncs = self._syncs.get(partition)
        if not self._is_complete or syncs is None:
            return None
        for each in syncs:
            if each.upstream <= offset:
                # The records between may have been left out: only the next one after the pair is safe.
                return each.downstream + (0 if each.upstream == offset else 1)
        return -1

    def syncs(self, partition: TopicPartition) -> Syncs:
        """Return the pairs of a partition, the newest first."""
        return self._syncs[partition]


def _updated(old: Syncs, newest: OffsetSync) -> Syncs:
    """Return the pairs with a newer one. Walks once through the old pairs."""
    syncs = list(old)
    replacement = newest
    taken = 0
    """The old pair that is looked at next."""
    syncs[0] = newest
    for current in range(1, SYNCS):
        before = current - 1
        while True:
            candidate = old[taken]
            is_separate = _c(syncs[before], candidate, before)
            after = current + 1
            is_usable = (
                is_separate
                and _b(syncs[before], candidate, before, current)
                and (after >= SYNCS or _c(candidate, syncs[after], current))
            )
            is_repeated = taken + 1 < SYNCS and candidate is old[taken + 1]
            if is_usable:
                replacement = candidate
            is_skipped = is_repeated or not is_separate
            if is_usable or is_skipped:
                taken += 1
            if not (taken < current and is_skipped):
                break
        if _b(syncs[before], syncs[current], before, current):
            break  # and so does the rest
        syncs[current] = replacement
    return syncs


def _b(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    bound = older.upstream + (1 << j) - (1 << i)
    return newer is older or bound > _MAX_INT64 or newer.upstream <= bound


def _c(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    bound = older.upstream + (1 << max(i - 2, 0))
    return newer is older or (bound <= _MAX_INT64 and newer.upstream >= bound)


class _Progress:
    """What was copied of a partition."""

    def __init__(self) -> None:
        self.upstream = -1
        self.downstream = -1
        self.synced = -1
        """The offset at the target of the last offset sync."""

    def update(self, upstream: int, downstream: int, lag_max: int) -> bool:
        """Note a copied record. Return whether an offset sync is due."""
        is_due = (
            self.synced == -1
            or downstream - (self.synced + 1) >= lag_max
            or upstream - self.upstream != 1
            or downstream < self.downstream
        )
        if is_due:
            self.synced = downstream
        self.upstream, self.downstream = upstream, downstream
        return is_due


class SyncQueue:
    """Decides which offset syncs a task writes, and when (`OffsetSyncWriter`).

    An offset sync is due at once if records were left out, or if the last one is `offset.lag.max` records
    behind. Others wait for the next commit, and replace each other.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._progress: dict[TopicPartition, _Progress] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._due: dict[TopicPartition, OffsetSync] = {}
        self._outstanding = 0

    def copied(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        """Note that a record was copied, with its offsets at the source and at the target."""
        progress = self._progress.get(partition)
        if progress is None:
            progress = self._progress[partition] = _Progress()
        sync = OffsetSync(partition, upstream, downstream)
        if progress.update(upstream, downstream, self._lag_max):
            self._delayed.pop(partition, None)
            self._due[partition] = sync
        else:
            self._delayed[partition] = sync

    def commit(self) -> None:
        """Let all offset syncs be due."""
        self._due |= self._delayed
        self._delayed.clear()

    def take(self) -> list[OffsetSync]:
        """Return what to write now. `done` is called for each when it is written, or has failed."""
        found: list[OffsetSync] = []
        while self._due and self._outstanding < OUTSTANDING_MAX:
            found.append(self._due.pop(next(iter(self._due))))
            self._outstanding += 1
        return found

    def done(self, count: int = 1) -> None:
        """Note that offset syncs are no longer on their way."""
        self._outstanding -= count
