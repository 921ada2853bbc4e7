"""A member of a share group: the consumers of the group share the records, not the partitions.

    with Cluster("localhost:9092") as cluster, ShareConsumer(cluster, "workers", ["jobs"]) as jobs:
        for job in jobs:
            if handle(job.value):
                jobs.accept(job)
            else:
                jobs.release(job)

A record that a consumer gets is *acquired*: no other consumer gets it until its acquisition lock
times out (`share.record.lock.duration.ms` of the group, usually 30 s). A record that was released,
or whose lock has timed out, is delivered again, at most as often as
`group.share.delivery.count.limit` says (usually 5 times). So every record is processed at least
once, unless all its deliveries fail.

`share/machine.py` and `share/membership.py` decide what is sent. This module sends it, as Kafka's
`KafkaShareConsumer` does. Heartbeats and acknowledgements are sent by `poll`, by the iteration and by
`keep_alive`. With `renews=True` a thread sends them, too, and renews the locks of the records that
the user has. Kafka's consumer also has a thread, which does not renew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Self

from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import (
    ClientError,
    DisconnectedError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from odradek.client.metadata import Node
from odradek.client.readiness import give_up, wait_readable
from odradek.client.share.acknowledgements import (
    AcknowledgementResult,
    AcknowledgeType,
    TopicIdPartition,
)
from odradek.client.share.acquired import ShareRecord
from odradek.client.share.direct_calls import (
    CLOSE_TIMEOUT_MS,
    ITERATION_WAIT_MS,
    DirectShareCalls,
    Mode,
    check_renewed,
)
from odradek.client.share.keeper import PAUSE_SECONDS_MAX, Keeper
from odradek.client.share.leader import ShareLimits, ShareRequest, ShareResponse
from odradek.client.share.machine import (
    ACKNOWLEDGE_AFTER_MS,
    REQUEST_EXTRA_MS,
    NotAcknowledgedError,
)
from odradek.client.share.membership import OLD_BROKER_ADVICE
from odradek.client.share.refresh_pace import RefreshPace
from odradek.client.share.reporter import OnAcknowledged, Reporter
from odradek.client.share.under_way import Heartbeat, UnderWay
from odradek.wire.generated.share_acknowledge_response import ShareAcknowledgeResponse
from odradek.wire.generated.share_fetch_request import ShareFetchRequest
from odradek.wire.generated.share_fetch_response import ShareFetchResponse
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

__all__ = [
    "AcknowledgeType",
    "AcknowledgementResult",
    "NotAcknowledgedError",
    "ShareConsumer",
    "ShareLimits",
    "ShareRecord",
]

KEEP_ALIVE_MS = 50
"""The shortest time between two calls of `keep_alive` by the iteration."""


class ShareConsumer(DirectShareCalls):
    """A member of a share group, which it joins in the first `poll`.

    In the mode `explicit`, the user calls `accept`, `release` or `reject` for each record before
    the next `poll`. In the mode `implicit`, `poll` accepts the records of the previous `poll`, and
    the iteration accepts each record before it returns the next one.

    Acknowledgements are sent with the next request for records, by `commit`, or by `close`. Their
    results are passed to `on_acknowledged`, in the thread that uses the consumer. An error in a
    result means that the record may be delivered again.

    Call `poll` or `keep_alive` at least every 45 s (`group.share.session.timeout.ms`), so that the
    coordinator does not remove the member. If a handler takes longer than the acquisition lock,
    call `renew`, or use `renews`. Topics that do not exist are waited for.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Iterable[str],
        *,
        mode: Mode = "explicit",
        limits: ShareLimits | None = None,
        rack: str | None = None,
        renews: bool = False,
        on_acknowledged: OnAcknowledged | None = None,
    ) -> None:
        """`limits` says how many records a `poll` acquires.

        With `renews`, a thread sends heartbeats and keeps the records locked until they are
        acknowledged, however long that takes (Apache Kafka 4.2 or newer). The consumer then has its
        own connections, so handlers may use `cluster`.

        Raises:
            ValueError: `mode` is unknown, or there is no topic.
        """
        super().__init__(group, topics, mode, limits, rack)
        self._cluster = cluster.copy() if renews else cluster
        self._reporter = Reporter(on_acknowledged)
        self._purpose = f"share {self.member_id}"
        self._under_way: dict[int, UnderWay] = {}
        self._heartbeat: Heartbeat | None = None
        self._failing: Deadline | None = None
        self._pace = RefreshPace()
        self._must_refresh = True
        self._is_closed = False
        self._lock = threading.RLock()
        self._keeper = Keeper(self.keep_locks, self._keep_pause_seconds) if renews else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _direct_call(self) -> AbstractContextManager[object]:
        """See `DirectShareCalls`. Another thread may keep the locks."""
        return self._lock

    # -- records ----------------------------------------------------------------------------

    def poll(self, timeout_ms: int) -> list[ShareRecord]:
        """Return acquired records. If there are none, wait up to `timeout_ms`.

        Raises:
            NotAcknowledgedError: the mode is explicit, and records are not acknowledged.
            BrokerError: no right, share groups are not enabled, or a batch is corrupt
                (CORRUPT_MESSAGE; its records are rejected).
            ClientError: another permanent error, or an error that lasts longer than the timeout of
                the cluster. `poll` may be called again.
        """
        self._check_usable()
        if self._keeper is not None:
            self._keeper.begin()
            error = self._keeper.take_error()
            if error is not None:
                raise error
        deadline = Deadline(timeout_ms)
        with self._lock:
            self._machine.begin_poll(monotonic_ms())
        while True:
            with self._reporting():
                records = self._poll_once(deadline)
            if self._is_closed:
                return []
            if records is not None:
                return records

    def _poll_once(self, deadline: Deadline) -> list[ShareRecord] | None:
        """Return records, an empty list after the deadline, or None if `poll` must go on."""
        records = self._machine.take(monotonic_ms())
        if records:
            self._machine.hurry()
            self._step(Deadline(0))
            return records
        self._raise_error()
        self._machine.fetch_more()
        self._step(deadline)
        return self._machine.take(monotonic_ms()) if deadline.expired else None

    def __iter__(self) -> Iterator[ShareRecord]:
        """Yield records for ever. While a loop runs, do not call `poll`.

        Acknowledgements are sent at least every 500 ms if the loop takes records so often. Records
        whose lock may have ended before their turn are not returned. They are delivered again.

        Raises:
            ClientError: see `poll`.
        """
        while True:
            next_ms = monotonic_ms() + KEEP_ALIVE_MS
            for record in self.poll(ITERATION_WAIT_MS):
                if self._is_closed:
                    break
                if not self._may_deliver(record):
                    continue
                yield record
                self._was_processed(record)
                if monotonic_ms() >= next_ms and not self._is_closed:
                    self.keep_alive()
                    next_ms = monotonic_ms() + KEEP_ALIVE_MS
            if self._is_closed:
                return

    # -- acknowledgements -------------------------------------------------------------------

    def renew(self, *records: ShareRecord, timeout_ms: int | None = None) -> None:
        """Begin the acquisition locks of delivered records again (KIP-1222), and wait for it.

        The records still have to be acknowledged. Apache Kafka supports this since 4.2.

        Raises:
            ValueError: a record does not wait for an acknowledgement, or the mode is implicit.
            BrokerError: the lock has ended before (INVALID_RECORD_STATE).
            ClientError: see `commit`.
        """
        with self._lock:  # the thread must not get the results
            for record in records:
                self._acknowledge_explicitly(record, AcknowledgeType.RENEW)
            results = self.commit(timeout_ms)
        check_renewed(records, results)

    def commit(self, timeout_ms: int | None = None) -> list[AcknowledgementResult]:
        """Send the acknowledgements, and wait for their results, which are returned.

        In the mode `implicit`, this accepts the records of the last `poll`.

        Raises:
            RequestTimeoutError: not all results are known after `timeout_ms`.
            ClientError: a permanent error.
        """
        self._check_usable()
        deadline = Deadline(self._cluster.timeout_ms if timeout_ms is None else timeout_ms)
        with self._reporting():
            self._machine.acknowledge_all(monotonic_ms())
            return self._flush(deadline)

    def _flush(self, deadline: Deadline) -> list[AcknowledgementResult]:
        """Send the acknowledgements, and wait for their results."""
        found: list[AcknowledgementResult] = []
        while self._machine.has_acknowledgements:
            self._machine.hurry()
            found += self._step(deadline)
            self._raise_error()
            if deadline.expired and self._machine.has_acknowledgements:
                raise RequestTimeoutError(
                    f"acknowledgements have no result after {deadline.timeout_ms} ms"
                )
        return found

    def keep_alive(self) -> None:
        """Send what is due, without waiting: heartbeats and waiting acknowledgements.

        Call this while a handler runs for long.

        Raises:
            ClientError: a permanent error, as in `poll`.
        """
        self._check_usable()
        with self._reporting():
            self._machine.hurry(monotonic_ms() - ACKNOWLEDGE_AFTER_MS)
            self._step(Deadline(0))
            self._raise_error()

    def keep_locks(self) -> None:
        """Call `keep_alive`, and renew the locks of records of which less than half is left.

        The thread of `renews` does this every second, or more often if locks are short.

        Raises:
            ClientError: see `commit`. If a lock has ended, there is no error: the acknowledgement
                of the record will fail.
        """
        self.keep_alive()
        if self._is_closed:
            return
        with self._reporting():
            now_ms = monotonic_ms()
            ending = self._machine.ending(now_ms)
            for key in ending:
                self._machine.acknowledge(key, AcknowledgeType.RENEW, now_ms)
            if ending:
                self._flush(Deadline(self._cluster.timeout_ms))

    def _keep_pause_seconds(self) -> float:
        lock_ms = self.acquisition_lock_timeout_ms
        return PAUSE_SECONDS_MAX if lock_ms is None else lock_ms / 8000

    # -- steps ------------------------------------------------------------------------------

    def _step(self, deadline: Deadline) -> list[AcknowledgementResult]:
        """Send what is due, wait for a response, process it, and return results."""
        self._send_heartbeat()
        self._assign()
        self._send()
        self._receive(deadline)
        return self._take_results()

    def _take_results(self) -> list[AcknowledgementResult]:
        results = self._machine.take_results()
        self._reporter.hold(results)
        return results

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Hold the lock. Then, without the lock, pass the results to `on_acknowledged`.

        `on_acknowledged` may thus call `close`, which waits for the thread, which needs the lock.
        """
        try:
            with self._lock:
                yield
        finally:
            if self._keeper is None or not self._keeper.is_current:
                self._reporter.report()

    def _fail(self, error: ClientError) -> None:
        """Raise an error that is permanent or lasts too long. Otherwise continue later.

        While the consumer is closed, nothing is raised: the results have the errors.
        """
        if self._is_closed:
            return
        if self._failing is None:
            self._failing = Deadline(self._cluster.timeout_ms)
        if not error.retriable or self._failing.expired:
            self._failing = None
            raise error

    def _raise_error(self) -> None:
        error = self._machine.take_error()
        if error is not None:
            self._fail(error)

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ValueError("the share consumer is closed")

    # -- the group --------------------------------------------------------------------------

    def _send_heartbeat(self) -> None:
        request = self._membership.request(monotonic_ms())
        if request is None:
            return
        group = self._membership.group
        try:
            connection = self._cluster.coordinator(group)
            pending = connection.send(request, ShareGroupHeartbeatResponse)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(str(error), OLD_BROKER_ADVICE) from error
        except ClientError as error:
            self._heartbeat_failed(error)
        else:
            self._heartbeat = Heartbeat(connection, pending, Deadline(REQUEST_EXTRA_MS))

    def _heartbeat_failed(self, error: ClientError) -> None:
        self._heartbeat = None
        self._cluster.forget_coordinator(self._membership.group)
        self._membership.failed(monotonic_ms(), error)
        self._fail(error)

    def _receive_heartbeat(self) -> None:
        if self._heartbeat is None:
            return
        connection, pending, late = self._heartbeat
        try:
            response = connection.poll(pending)
            if response is None and late.expired:
                raise give_up(connection, pending.api.name)
        except ClientError as error:
            self._heartbeat_failed(error)
            return
        if response is None:
            return
        self._heartbeat = None
        self._failing = None
        if self._membership.answered(response, monotonic_ms()):
            self._cluster.forget_coordinator(self._membership.group)

    def _assign(self) -> None:
        """Tell the machine the assigned partitions with their leaders."""
        self._apply_hints()
        names = self._membership.topics
        topics = self._cluster.metadata.topics
        by_id = {topics[name].id: topics[name] for name in names if name in topics}
        wanted: dict[TopicIdPartition, int] = {}
        for topic_id, index in self._membership.assigned:
            topic = by_id.get(topic_id)
            partition = None if topic is None else topic.partitions.get(index)
            if topic is None or partition is None or partition.leader < 0:
                self._must_refresh = True
            else:
                wanted[TopicIdPartition(topic_id, index, topic.name)] = partition.leader
        if self._must_refresh and self._membership.assigned and self._refresh():
            self._assign()
            return
        self._machine.assign(wanted)

    def _apply_hints(self) -> None:
        if self._machine.take_is_metadata_stale():
            self._must_refresh = True
        for partition, leader, epoch, host, port, rack in self._machine.take_hints():
            node = None if host is None else Node(leader, Address(host, port), rack)
            self._cluster.metadata.move_leader(
                partition.topic, partition.partition, leader, epoch, node
            )

    def _refresh(self) -> bool:
        """Request the metadata of the topics, unless this was done a moment ago."""
        if not self._pace.begin(monotonic_ms()):
            return False
        try:
            self._cluster.refresh(self._membership.topics)
        except ClientError as error:
            self._fail(error)
            return False
        self._must_refresh = False
        return True

    # -- requests and responses -------------------------------------------------------------

    def _send(self) -> None:
        for node_id, request in self._machine.requests(monotonic_ms()):
            self._send_to(node_id, request)

    def _send_to(self, node_id: int, request: ShareRequest) -> None:
        try:
            connection = self._cluster.node(node_id, self._purpose)
            poll: Callable[[], ShareResponse | None]
            if isinstance(request, ShareFetchRequest):
                api = "ShareFetch"
                poll = partial(connection.poll, connection.send(request, ShareFetchResponse))
            else:
                api = "ShareAcknowledge"
                poll = partial(connection.poll, connection.send(request, ShareAcknowledgeResponse))
        except ClientError as error:
            self._lose(node_id, error)
            return
        late = Deadline(self._limits.wait_ms_max + REQUEST_EXTRA_MS)
        self._under_way[node_id] = UnderWay(connection, poll, api, late)

    def _lose(self, node_id: int, error: ClientError) -> None:
        self._machine.failed(node_id, error, monotonic_ms())
        self._fail(error)

    def _receive(self, deadline: Deadline) -> None:
        """Wait until a response arrives, or something else is due; process the responses."""
        now_ms = monotonic_ms()
        due = self._membership.wait_ms(now_ms), self._machine.wait_ms(now_ms)
        waits = [
            deadline.remaining_ms,
            ITERATION_WAIT_MS,
            *(each for each in due if each is not None),
        ]
        if self._must_refresh and self._membership.assigned:
            waits.append(self._pace.pause_ms)
        connections = [each.connection for each in self._under_way.values()]
        if self._heartbeat is not None and not self._is_closed:
            connections.append(self._heartbeat.connection)
        wait_readable(connections, min(waits))
        if not self._is_closed:
            self._receive_heartbeat()
        for node_id, (connection, poll, api, late) in list(self._under_way.items()):
            try:
                response = poll()
                if response is None and late.expired:
                    raise give_up(connection, api)
            except ClientError as error:
                del self._under_way[node_id]
                self._lose(node_id, error)
                continue
            if response is not None:
                del self._under_way[node_id]
                if not response.error_code:
                    self._failing = None
                self._machine.answered(node_id, response, monotonic_ms())

    # -- the end ----------------------------------------------------------------------------

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> list[AcknowledgementResult]:
        """Send the acknowledgements, release all other records, and leave the group.

        Return the results of the acknowledgements. If a broker cannot be reached, it releases the
        records itself when the connection ends, and the coordinator removes the member after the
        session timeout.
        """
        if self._is_closed:
            return []
        if self._keeper is not None:
            self._keeper.end()
        with self._reporting():
            return self._close(Deadline(timeout_ms))

    def _close(self, deadline: Deadline) -> list[AcknowledgementResult]:
        self._is_closed = True
        self._machine.close()
        while not self._machine.is_idle and not deadline.expired:
            self._send()
            if not self._under_way:
                break  # an exception, such as KeyboardInterrupt, has lost a request
            self._receive(deadline)
        for node_id in self._under_way:
            self._machine.failed(node_id, DisconnectedError("the consumer was closed"), 0)
        self._under_way.clear()
        self._cluster.close_connections(self._purpose)
        self._leave(deadline)
        if self._keeper is not None:
            self._cluster.close()
        return self._take_results()

    def _leave(self, deadline: Deadline) -> None:
        request = self._membership.leave()
        if request is None:
            return
        try:
            connection = self._cluster.coordinator(self._membership.group)
            connection.request(request, ShareGroupHeartbeatResponse, deadline.remaining_ms)
        except ClientError:
            # Then the coordinator removes the member after the session timeout.
            return
