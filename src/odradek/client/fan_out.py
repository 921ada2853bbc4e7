"""Sends requests about many items (partitions, groups) to several brokers in parallel.

The items are grouped by the connection of the broker that serves them. Each connection gets one
request. All requests are sent before the first response is read. Items with a retriable error are
routed again and retried. Exception: items whose broker is unreachable are not retried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from odradek.client.cluster import BACKOFF_MS, BACKOFF_MS_MAX, GROUP, UNKNOWN_TOPIC_WAIT_MS, Cluster
from odradek.client.connection import Connection
from odradek.client.deadline import Backoff, Deadline
from odradek.client.errors import BrokerError, ClientError, UnreachableError
from odradek.client.frames import Pending
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.primitives import Message

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class Route(Generic[ItemT]):
    """`find` returns the connection that serves an item. `forget` drops the cached result."""

    find: Callable[[ItemT], Connection]
    forget: Callable[[ItemT], None]


def to_leaders(cluster: Cluster) -> Route[TopicPartition]:
    """Route partitions to their leaders."""
    return Route(
        lambda partition: cluster.node(cluster.leader(partition)),
        lambda partition: cluster.forget_topic(partition.topic),
    )


def to_coordinators(cluster: Cluster, kind: int = GROUP) -> Route[str]:
    """Route group ids (or transactional ids) to their coordinators."""
    return Route(
        lambda key: cluster.coordinator(key, kind),
        lambda key: cluster.forget_coordinator(key, kind),
    )


def fan_out(
    items: Iterable[ItemT],
    route: Route[ItemT],
    build: Callable[[list[ItemT]], Message],
    response_class: type[ResponseT],
    read: Callable[[ResponseT], Mapping[ItemT, ValueT | ClientError]],
    timeout_ms: int,
) -> dict[ItemT, ValueT | ClientError]:
    """Return the value or the error of each item.

    `build` makes the request about some items; `read` extracts their values from a response.

    Raises:
        UnsupportedVersionError, RequestTimeoutError, MalformedResponseError: a broker does not
            support the request, does not respond, or sends a malformed response.
    """
    order = list(items)
    results: dict[ItemT, ValueT | ClientError] = {}
    deadline = Deadline(timeout_ms)
    backoff = Backoff(BACKOFF_MS, BACKOFF_MS_MAX)
    left = order
    while left:
        results.update(_ask_once(left, route, build, response_class, read, deadline))
        elapsed_ms = timeout_ms - deadline.remaining_ms
        left = [item for item in left if _may_pass(results.get(item), elapsed_ms)]
        for item in left:
            route.forget(item)
        if left and not backoff.pause(deadline):
            break
    missing = ClientError("the broker's response does not include it")
    return {item: results.get(item, missing) for item in order}


def _may_pass(result: object, elapsed_ms: int) -> bool:
    """Return whether to retry. An unknown topic may be new, so it is retried for a short time."""
    if not isinstance(result, ClientError) or isinstance(result, UnreachableError):
        return False
    if isinstance(result, BrokerError) and result.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return result.retriable and elapsed_ms < UNKNOWN_TOPIC_WAIT_MS
    return result.retriable


def _ask_once(
    items: list[ItemT],
    route: Route[ItemT],
    build: Callable[[list[ItemT]], Message],
    response_class: type[ResponseT],
    read: Callable[[ResponseT], Mapping[ItemT, ValueT | ClientError]],
    deadline: Deadline,
) -> dict[ItemT, ValueT | ClientError]:
    results: dict[ItemT, ValueT | ClientError] = {}
    by_connection: dict[Connection, list[ItemT]] = {}
    for item in items:
        try:
            by_connection.setdefault(route.find(item), []).append(item)
        except ClientError as error:
            results[item] = error
    sent: list[tuple[Connection, Pending[ResponseT], list[ItemT]]] = []
    for connection, some in by_connection.items():
        try:
            sent.append((connection, connection.send(build(some), response_class), some))
        except ClientError as error:
            if not error.retriable:
                raise
            results.update(dict.fromkeys(some, error))
    for connection, pending, some in sent:
        try:
            results.update(read(connection.receive(pending, deadline.remaining_ms)))
        except ClientError as error:
            if not error.retriable:
                raise
            results.update(dict.fromkeys(some, error))
    return results
