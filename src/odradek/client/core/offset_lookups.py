"""Looks up offsets by time with ListOffsets, at the leaders of partitions.

A time is in ms, or EARLIEST, LATEST, or another special value of ListOffsets. Each leader has one request
in flight, with the partitions of all operations. A partition that fails in a way that may pass is asked for
again after a pause, until the deadline of its operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.client.core.asks import Ask, Link, may_pass
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.core.operation import Operation
from odradek.client.core.routes import Routes
from odradek.client.errors import ClientError, NoSuchTopicError, RequestTimeoutError, broker_error
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_offsets_response import ListOffsetsResponse

LATEST = -1
EARLIEST = -2
ORDINARY = ""
"""The purpose of links for requests that are answered at once."""


class FoundOffset(NamedTuple):
    """An offset, and the time (ms) and leader epoch of its record. What is unknown is -1.

    `offset` is -1 if no record is at or after the time.
    """

    offset: int
    timestamp: int
    leader_epoch: int


Found = Callable[[TopicPartition, FoundOffset | ClientError], None]


class LookupOperation(Operation):
    """A look-up. `found` has an offset or an error for each partition that is done."""

    __slots__ = ("_on_found", "deadline_ms", "found", "wanted")

    def __init__(
        self,
        times: Mapping[TopicPartition, int],
        deadline_ms: int | None,
        on_found: Found | None,
    ) -> None:
        super().__init__("ListOffsets")
        self.wanted = dict(times)
        """The times of the partitions that are not done."""
        self.found: dict[TopicPartition, FoundOffset | ClientError] = {}
        self.deadline_ms = deadline_ms
        self._on_found = on_found

    def end(self, partition: TopicPartition, outcome: FoundOffset | ClientError) -> None:
        """Note the outcome of a partition."""
        if self.wanted.pop(partition, None) is None:
            return
        self.found[partition] = outcome
        if self._on_found is not None:
            self._on_found(partition, outcome)
        if not self.wanted:
            self.finish(None)

    def expire(self, error: ClientError) -> None:
        """Give up."""
        for partition in list(self.wanted):
            self.end(partition, error)
        self.finish(error)

    def cancel(self, partition: TopicPartition) -> None:
        """Forget a partition, whose offset nobody wants any more."""
        self.wanted.pop(partition, None)
        if not self.wanted:
            self.finish(None)


_Asked = dict[TopicPartition, LookupOperation]


class OffsetLookups:
    """The look-ups of one client."""

    def __init__(
        self,
        routes: Routes,
        random: RandomNumber,
        *,
        isolation: int,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_ms_max: int = 1_000,
    ) -> None:
        self.next_deadline_ms: int | None = None
        self._routes = routes
        self._isolation = isolation
        self._request_timeout_ms = request_timeout_ms
        self._backoff = Backoff(retry_backoff_ms, retry_backoff_ms_max, random)
        self._operations: list[LookupOperation] = []
        self._asked: dict[int, _Asked] = {}
        """What is in flight, by node."""
        self._retry_at_ms: dict[TopicPartition, int] = {}

    @property
    def is_idle(self) -> bool:
        """Whether all operations have ended."""
        return not self._operations

    def look_up(
        self,
        times: Mapping[TopicPartition, int],
        deadline_ms: int | None = None,
        on_found: Found | None = None,
    ) -> LookupOperation:
        """Look up offsets. `on_found` is called with the outcome of each partition."""
        operation = LookupOperation(times, deadline_ms, on_found)
        if times:
            self._operations.append(operation)
        else:
            operation.finish(None)
        return operation

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        for operation in list(self._operations):
            if operation.deadline_ms is not None and now_ms >= operation.deadline_ms:
                operation.expire(self._too_late(operation))
        self._operations = [each for each in self._operations if not each.done]
        self.next_deadline_ms = None
        if not self._operations:
            self._retry_at_ms.clear()
            return []
        asks = []
        for node, some in self._due(now_ms).items():
            link: Link = node, ORDINARY
            if self._routes.is_ready(link):
                asks.append(self._ask(link, some))
        due = [each.deadline_ms for each in self._operations if each.deadline_ms is not None]
        due += [at_ms for at_ms in self._retry_at_ms.values() if at_ms > now_ms]
        self.next_deadline_ms = min(due, default=None)
        return asks

    def _due(self, now_ms: int) -> dict[int, _Asked]:
        """Return what can be asked now, by leader. A partition is asked for once at a time."""
        busy = {each for some in self._asked.values() for each in some}
        by_leader: dict[int, _Asked] = {}
        for operation in self._operations:
            for partition in list(operation.wanted):
                if partition in busy or self._retry_at_ms.get(partition, 0) > now_ms:
                    continue
                topic = self._routes.topic(partition.topic, now_ms)
                if topic is None:
                    error = self._routes.topic_error(partition.topic)
                    if error is not None and not error.retriable:
                        operation.end(partition, error)
                    elif error is not None:
                        operation.failed(error)
                    continue
                if partition.partition not in topic.partitions:
                    operation.end(partition, NoSuchTopicError(*partition))
                    continue
                leader = self._routes.leader(partition)
                if leader >= 0 and leader not in self._asked:
                    busy.add(partition)
                    by_leader.setdefault(leader, {})[partition] = operation
        return by_leader

    def _ask(self, link: Link, some: _Asked) -> Ask:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, operation in some.items():
            name, index = partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = ListOffsetsTopic(name=name)
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=index,
                    current_leader_epoch=self._routes.leader_epoch(partition),
                    timestamp=operation.wanted[partition],
                )
            )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation,
            topics=list(topics.values()),
            timeout_ms=self._request_timeout_ms,
        )
        node = link[0]
        self._asked[node] = some

        def answered(response: ListOffsetsResponse, now_ms: int) -> None:
            del self._asked[node]
            self._answered(response, dict(some), now_ms)

        def failed(error: ClientError, now_ms: int) -> None:
            del self._asked[node]
            self._failed(some, error, now_ms)

        return Ask(
            link,
            request,
            ListOffsetsResponse,
            answered,
            failed,
            timeout_ms=self._request_timeout_ms,
        )

    def _answered(self, response: ListOffsetsResponse, left: _Asked, now_ms: int) -> None:
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                operation = left.pop(partition, None)
                if operation is None:
                    continue
                error = broker_error(each.error_code, subject=f"partition {partition}")
                if error is None:
                    self._backoff.succeeded()
                    found = FoundOffset(each.offset, each.timestamp, each.leader_epoch)
                    operation.end(partition, found)
                elif error.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                    operation.end(partition, FoundOffset(-1, -1, -1))
                else:
                    self._failed({partition: operation}, error, now_ms)
        if left:
            missing = ClientError(
                "the broker's response to ListOffsets does not have all partitions"
            )
            self._failed(left, missing, now_ms)

    def _failed(self, some: _Asked, error: ClientError, now_ms: int) -> None:
        pause_ms = self._backoff.failed()
        for partition, operation in some.items():
            operation.failed(error)
            if may_pass(error):
                self._routes.forget_topic(partition.topic)
                self._retry_at_ms[partition] = now_ms + pause_ms
            else:
                operation.end(partition, error)

    def _too_late(self, operation: LookupOperation) -> RequestTimeoutError:
        reason = operation.last_error or self._routes.last_error
        first = next(iter(operation.wanted))
        error = RequestTimeoutError(
            f"partition {first}: its offset was not found in time"
            f"{'' if reason is None else f': {reason}'}",
            "" if reason is None else reason.advice,
        )
        error.__cause__ = reason
        return error
