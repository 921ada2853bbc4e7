"""The calls of a blocking consumer about positions, offsets and commits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.consuming.direct_calls import DirectCalls
from odradek.client.consuming.state import (
    CommitCall,
    Offsets,
    found_offsets,
    partition_of,
    partitions_of,
)
from odradek.client.core.consumed_batch import Batch, Record
from odradek.client.core.offset_lookups import EARLIEST, LATEST, FoundOffset
from odradek.client.core.operation import Operation
from odradek.client.deadline import monotonic_ms
from odradek.client.errors import (
    ClientError,
    ConcurrentUseError,
)
from odradek.client.group_metadata import CommittedOffset
from odradek.client.producer.topic_wait import Reaching
from odradek.client.shell.keeper import Calls, Shell
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

KEEPER_MS = 500
"""For so long after a call that received something, the keeper leaves the connections alone."""


class Use:
    """Ensures that one thread at a time uses a consumer."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUseError("another thread is in a call of this consumer")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class ConsumerCalls(Shell, DirectCalls):
    """What a consumer has besides subscriptions and reading."""

    def __init__(
        self,
        cluster: Cluster | Mapping[str, object] | None,
        settings: Mapping[str, object] | None,
        keywords: Mapping[str, object],
    ) -> None:
        """Raise a ValueError if a setting is wrong."""
        DirectCalls.__init__(self, cluster, settings, keywords)
        self._use = Use()
        Shell.__init__(self, self._make_driver(), "consumer", caller_ms=KEEPER_MS)

    # -- the keeper -----------------------------------------------------------------------------

    def _has_work(self) -> bool:
        """See `Shell`."""
        return self._works_alone

    def _has_calls(self) -> bool:
        """See `Shell`."""
        return False

    def _take_calls(self) -> list[Calls]:
        """See `Shell`."""
        return []

    @contextmanager
    def _direct_call(self) -> Iterator[None]:
        """See `DirectCalls`."""
        with self._use:
            self._check_usable()
            with self._lock:
                yield

    def _note_part(self) -> None:
        """See `DirectCalls`."""
        if self._last is not None:
            with self._lock:
                super()._note_part()

    # -- positions ------------------------------------------------------------------------------

    def position(self, partition: tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record of a partition. If it is not known yet, wait.

        Raises:
            ConsumerStateError: the partition is not assigned.
            RequestTimeoutError: it is not known within `timeout` seconds, by default
                `default.api.timeout.ms`.
            NoOffsetError: there is none, and `auto.offset.reset` is none.
        """
        key = partition_of(partition)
        with self._use:
            self._check_usable()
            self._note_part()
            deadline = self._deadline(timeout)
            with self._lock:
                state = self._state(key)
                self._wait_until(lambda: self._has_position(key, state), deadline)
                return self._found_position(key, state, deadline)

    # -- look-ups -------------------------------------------------------------------------------

    def offsets_for_times(
        self, times: Mapping[Any, int], timeout: float | None = None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Return the first offset at or after a time (ms since 1970) in each partition; None if none is.

        `timeout` is in seconds, by default `default.api.timeout.ms`, as in the other look-ups.

        Raises:
            ClientError: an offset cannot be found, or not in time.
        """
        wanted = {partition_of(each): time_ms for each, time_ms in times.items()}
        if any(time_ms < 0 for time_ms in wanted.values()):
            raise ValueError("a time is in ms since 1970, and not negative")
        found = self._look_up(wanted, timeout)
        return {each: at if at.offset >= 0 else None for each, at in found.items()}

    def beginning_offsets(
        self, *partitions: Any, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        Raises:
            ClientError: see `offsets_for_times`.
        """
        wanted = dict.fromkeys(partitions_of(partitions), EARLIEST)
        return {each: at.offset for each, at in self._look_up(wanted, timeout).items()}

    def end_offsets(
        self, *partitions: Any, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record that can be read, for each partition.

        Raises:
            ClientError: see `offsets_for_times`.
        """
        wanted = dict.fromkeys(partitions_of(partitions), LATEST)
        return {each: at.offset for each, at in self._look_up(wanted, timeout).items()}

    def _look_up(
        self, times: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, FoundOffset]:
        with self._use:
            self._check_usable()
            deadline = self._deadline(timeout)
            with self._lock:
                operation = self._machine.fetcher.lookups.look_up(
                    times, monotonic_ms() + deadline.timeout_ms
                )
                self._finish(operation)
            return found_offsets(operation)

    # -- commits --------------------------------------------------------------------------------

    def commit(
        self, offsets: Offsets | Record | Batch | None = None, *, timeout: float | None = None
    ) -> None:
        """Commit, and wait until it is done: by default the positions, behind all that was returned.

        `offsets` may be a record or a batch, behind which is committed, or a mapping from partitions to
        offsets of next records (or `CommittedOffset`, with metadata). `timeout` is in seconds, by
        default `default.api.timeout.ms`.

        Raises:
            CommitFailedError: the group has given the partitions to others.
            RequestTimeoutError: the coordinator does not answer in time.
            BrokerError: it refuses (REBALANCE_IN_PROGRESS: poll, then try again).
            ConsumerStateError: the consumer has no group.
        """
        with self._use:
            self._check_usable()
            self._note_part()
            deadline = self._deadline(timeout)
            with self._lock:
                operation = self._needed_commits().commit(
                    self._to_commit(offsets), monotonic_ms() + deadline.timeout_ms
                )
                self._finish(operation)
            self._call_commit_calls()
            if operation.error is not None:
                raise operation.error

    def commit_async(
        self,
        offsets: Offsets | Record | Batch | None = None,
        callback: Callable[[ClientError | None], Any] | None = None,
    ) -> None:
        """Commit in the background, as `commit` does. It is tried once.

        `callback` is called in a later call of the consumer, with the error, or None. Without a
        callback, errors are logged.

        Raises:
            ConsumerStateError: the consumer has no group.
        """
        with self._use:
            self._check_usable()
            self._note_part()
            with self._lock:
                operation = self._needed_commits().commit(self._to_commit(offsets))
                self._commit_calls.append(CommitCall(operation, callback))
                self._work()
                self._keep()

    def committed(
        self, *partitions: Any, timeout: float | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of partitions. Those without one are missing.

        Raises:
            ClientError: the coordinator refuses, or does not answer in time.
            ConsumerStateError: the consumer has no group.
        """
        with self._use:
            self._check_usable()
            deadline = self._deadline(timeout)
            with self._lock:
                operation = self._needed_commits().fetch(
                    partitions_of(partitions), monotonic_ms() + deadline.timeout_ms
                )
                self._finish(operation)
            if operation.error is not None:
                raise operation.error
            return dict(operation.offsets)

    def _call_commit_calls(self) -> None:
        """Tell of the commits that have ended, in order."""
        while self._commit_calls and self._commit_calls[0].operation.done:
            operation, callback = self._commit_calls.pop(0)
            if callback is not None:
                callback(operation.error)
            elif operation.error is not None:
                self._warn(operation.error)

    def _finish(self, operation: Operation) -> None:
        """Wait for the end of an operation with a deadline. The caller has the lock."""
        reaching = Reaching(self._routes)

        def is_done() -> bool:
            if not operation.done:
                reaching.check()
            return operation.done

        self._wait_until(is_done, None)
