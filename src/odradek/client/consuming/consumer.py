"""Reads records: the blocking shell of the consumer's machine.

    caller:  poll (callbacks, batches)     works on a batch     poll
    keeper:                                heartbeats           (waits)

A thread that is in a call drives the machine. While nobody is, the keeper does, so that the member stays
in its group while the program works, for up to `max.poll.interval.ms`. Records do not cross threads: the
keeper does not touch the connections within `KEEPER_MS` of a call that did, and then receives one
fetch of each broker at most. What the group assigns and revokes is seen only in `poll`, `unsubscribe`
and `close`. One thread at a time may use a consumer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from odradek.client.cluster import Cluster
from odradek.client.consuming.calls import ConsumerCalls
from odradek.client.consuming.state import (
    CLOSE_SECONDS,
)
from odradek.client.core.consumed_batch import Batch, Record
from odradek.client.core.member_events import MemberEvent
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import (
    ClosedError,
)
from odradek.client.producer.topic_wait import Reaching
from odradek.client.shell.telemetry import last_push

log = logging.getLogger(__name__)

SLICE_SECONDS = 1.0
"""How long `batches` waits at a time, and how often iteration over records polls."""
LONG_SECONDS = 300
"""`poll` warns of a longer timeout, which is perhaps meant in ms."""


class Consumer(ConsumerCalls):
    """A consumer. At the end of a `with` statement it is closed.

    It connects when it is first used. After `subscribe`, it joins its group in `poll`.
    """

    def __init__(
        self,
        cluster: Cluster | Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        **keywords: object,
    ) -> None:
        """Make a consumer.

        Settings have Kafka's names in a mapping (`{"group.id": "billing"}`), or are keywords with
        underscores (`group_id="billing"`). Instead of settings for connections, a `Cluster` may be
        given first; its own connections are not used.

        Raises:
            ValueError: a setting is unknown or malformed, or settings contradict each other.
        """
        super().__init__(cluster, settings, keywords)
        self._reaching: Reaching | None = None
        self._taken: Batch | None = None
        """The batch that `poll` is about to return."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- what is read ---------------------------------------------------------------------------

    def unsubscribe(self) -> None:
        """Leave the group, or drop what was assigned. Offsets are committed as in `close`.

        Raises:
            ClientError: the coordinator does not answer. The consumer has left nevertheless.
        """
        with self._use:
            self._check_usable()
            self._leave(Deadline(self._options.api_timeout_ms))

    # -- reading --------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0) -> Batch | None:
        """Return the next batch of records; None if there is none within `timeout` seconds.

        The records of the batch before count as read. Callbacks are called, and offsets are committed
        if `enable.auto.commit` is true and it is time.

        Raises:
            OffsetOutOfRangeError, NoOffsetError: there is no position, and `auto.offset.reset` is none.
            CorruptRecordsError: the next records cannot be read. The position stays before them.
            NoSuchTopicError: an assigned topic or partition does not exist.
            BrokerError: the group rejects this member, or a broker returns another permanent error.
            ClientError: no broker was ever reached.
            ConcurrentUseError: another thread is in a call.
            ClosedError: the consumer is closed.
        """
        if timeout > LONG_SECONDS:
            log.warning("poll waits for %s seconds; the timeout is not in ms", timeout)
        with self._use:
            return self._poll(timeout)

    def _poll(self, timeout: float) -> Batch | None:
        self._check_usable()
        try:
            self._look_for_batch(Deadline(round(timeout * 1000)))
            batch, self._taken = self._taken, None
        except BaseException:
            if self._taken is not None:  # Ctrl-C: the user does not get it
                batch, self._taken = self._taken, None
                self._machine.fetcher.give_back(batch)
            raise
        return batch

    def _look_for_batch(self, deadline: Deadline) -> None:
        """Set `_taken` to the next batch, if there is one in time."""
        if self._take_quickly():
            return
        machine = self._machine
        is_in_time = True
        while True:
            self._poll_member()
            with self._lock:
                error = machine.take_member_error(monotonic_ms())
                if error is not None:
                    raise error
                self._taken = machine.take()
                if self._taken is not None or not is_in_time:
                    if machine.fetcher.is_due:
                        self._driver.send()
                    return
                is_in_time = self._wait_until(self._has_news, deadline)

    def _take_quickly(self) -> bool:
        """Take a batch that waits already, if there is nothing else to do."""
        machine = self._machine
        if self._commit_calls or not machine.fetcher.has_news:
            return False
        with self._lock:
            now_ms = monotonic_ms()
            machine.polled(now_ms)
            member = machine.member
            if member is not None:
                self._keep()
                if member.is_at_rest or machine.take_event(now_ms) is not None:
                    return False
            if machine.commit_error is not None:
                return False
            self._taken = machine.take()
            if machine.fetcher.is_due:
                self._driver.send()
        return self._taken is not None

    def _poll_member(self) -> None:
        """Note that the user polls, and work on what the group has assigned or revoked."""
        machine = self._machine
        with self._lock:
            machine.polled(monotonic_ms())
            if machine.member is not None or self._telemetry.is_active:
                self._keep()
        self._work_on_events()
        self._call_commit_calls()

    def _has_news(self) -> bool:
        machine = self._machine
        if machine.fetcher.has_news or machine.take_event(monotonic_ms()) is not None:
            return True
        member = machine.member
        if member is not None and member.is_at_rest and member.error is not None:
            return True
        if not self._routes.has_answered:
            if self._reaching is None:
                self._reaching = Reaching(self._routes)
            self._reaching.check()
        self._routes.check_refusal()
        return False

    def _work_on_events(self) -> None:
        """Call the callbacks that are due."""
        while True:
            with self._lock:
                event = self._machine.take_event(monotonic_ms())
            error = self._machine.take_commit_error()
            if error is not None:
                self._warn(error)
            if event is None:
                return
            try:
                self._tell(event)
            finally:
                with self._lock:
                    self._machine.done()

    def _tell(self, event: MemberEvent) -> None:
        callback, partitions = self._callback_of(event)
        if callback is not None:
            callback(partitions)

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Yield batches for ever; with `timeout`, until there was none for so many seconds.

        The records of a batch count as read when the next one is asked for.

        Raises:
            ClientError: see `poll`.
        """
        waited = 0.0
        while timeout is None or waited < timeout:
            slice_seconds = SLICE_SECONDS if timeout is None else min(SLICE_SECONDS, timeout)
            batch = self.poll(slice_seconds)
            waited += slice_seconds
            if batch is not None:
                waited = 0.0
                yield batch

    def __iter__(self) -> Iterator[Record]:
        """Yield records for ever. A record counts as read when the next one is asked for.

        Raises:
            ClientError: see `poll`.
        """
        poll_at = time.monotonic() + SLICE_SECONDS
        while True:
            rest = self._rest
            for record in rest:
                self._returns(record)
                yield record
                now = time.monotonic()
                if now >= poll_at:
                    poll_at = now + SLICE_SECONDS
                    self._stay_member(record)
                if self._rest is not rest:  # another position, or another assignment
                    break
            else:
                self._next_records()
                poll_at = time.monotonic() + SLICE_SECONDS

    def _next_records(self) -> None:
        """Wait for records. Those before count as read."""
        self._next_rest(iter(()))
        batch = self.poll(SLICE_SECONDS)
        if batch is not None:
            self._next_rest(iter(batch))

    def _stay_member(self, record: Record) -> None:
        """Poll the member in the middle of a batch, the rest of which may be dropped then."""
        with self._use:
            self._check_usable()
            self._note_part()
            self._poll_member()
            with self._lock:
                is_current = self._machine.is_current(record.batch)
            if not is_current:
                self._next_rest(iter(()))

    # -- the end --------------------------------------------------------------------------------

    def _leave(self, deadline: Deadline) -> None:
        """Commit if that is automatic, leave the group, and drop the assignment."""
        machine = self._machine
        self._note_part()
        try:
            self._commit_finally(deadline)
        finally:
            with self._lock:
                machine.unsubscribe()
            try:
                while self._is_leaving(deadline):
                    self._work_on_events()
            finally:
                self._next_rest(iter(()))
                with self._lock:
                    machine.forget_member()

    def _commit_finally(self, deadline: Deadline) -> None:
        machine = self._machine
        if machine.settings.commits_automatically and machine.commits is not None:
            with self._lock:
                if machine.member is not None and not machine.member.may_commit:
                    return
                commit = machine.commits.commit(
                    machine.consumed(), monotonic_ms() + max(deadline.remaining_ms, 1)
                )
                self._wait_until(lambda: commit.done, deadline)
            if commit.error is not None:
                self._warn(commit.error)

    def _is_leaving(self, deadline: Deadline) -> bool:
        """Wait until the member is outside. Return whether there is an event before."""
        machine = self._machine
        with self._lock:
            self._wait_until(
                lambda: machine.take_event(monotonic_ms()) is not None or machine.is_out, deadline
            )
            return machine.take_event(monotonic_ms()) is not None

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Commit if `enable.auto.commit` is true, give up all partitions, and leave the group.

        A static member does not leave. This waits for the coordinator for at most `timeout` seconds. A
        second call does nothing.
        """
        if self._problem is not None:
            return
        with self._use:
            deadline = Deadline(round(timeout * 1000))
            try:
                self._leave(deadline)
                with self._lock:
                    commits = self._machine.commits
                    if commits is not None:
                        self._wait_until(lambda: commits.is_idle, deadline)
                    self._machine.end_sessions()
                    self._telemetry.terminate()
                    self._wait_until(self._telemetry.has_ended, last_push(deadline))
                self._call_commit_calls()
            finally:
                self._end(ClosedError("the consumer is closed", "Make a new one."))
