"""Finds the partitions and the offsets that the options of a read mean in a cluster."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from odradek.client import offsets as client_offsets
from odradek.client.cluster import BACKOFF_MS, BACKOFF_MS_MAX, Cluster
from odradek.client.deadline import Backoff, Deadline
from odradek.client.errors import BrokerError, ClientError, UnreachableError
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import EARLIEST, LATEST, At, AtTime, Bound, Listed, Offsets
from odradek.spark.options import ConnectionOptions, ReadOptions, Subscription

T = TypeVar("T")


class DataLossError(RuntimeError):
    """Records that should have been read no longer exist."""


def report_loss(message: str, fail: bool) -> None:
    """Raise an error if `fail` is set (`failOnDataLoss`); otherwise warn.

    Raises:
        DataLossError: `fail` is set.
    """
    if fail:
        raise DataLossError(f"{message}. With failOnDataLoss=false the read continues without them")
    warnings.warn(message, stacklevel=3)


def connect(options: ConnectionOptions) -> Cluster:
    """Return a client of the cluster in the options."""
    return Cluster(
        options.bootstrap_servers,
        client_id=options.client_id,
        timeout_ms=options.request_timeout_ms,
        security=options.security,
    )


def patiently(call: Callable[[], T], timeout_ms: int) -> T:
    """Return the result of `call`. Retry while no broker can be reached.

    The reason is that a broker may be restarting.

    Raises:
        UnreachableError: no broker was reachable in this time.
        ClientError: `call` raised another error.
    """
    deadline = Deadline(timeout_ms)
    backoff = Backoff(BACKOFF_MS, BACKOFF_MS_MAX)
    while True:
        try:
            return call()
        except UnreachableError:
            if not backoff.pause(deadline):
                raise


def partitions(cluster: Cluster, subscription: Subscription) -> list[TopicPartition]:
    """Return the currently subscribed partitions, in order.

    A pattern must match the whole name, and never matches internal topics, as in Kafka.

    Raises:
        BrokerError: a named topic or partition does not exist.
    """
    cluster.refresh(None if subscription.pattern else _names(subscription))
    topics = cluster.metadata.topics
    if subscription.pattern:
        matches = re.compile(subscription.pattern).fullmatch
        names = [t.name for t in topics.values() if matches(t.name) and not t.is_internal]
        return sorted(TopicPartition(name, p) for name in names for p in topics[name].partitions)
    if subscription.topics:
        names = list(dict.fromkeys(subscription.topics))
        return sorted(
            TopicPartition(name, p) for name in names for p in cluster.topic(name).partitions
        )
    for each in subscription.partitions:
        if each.partition not in cluster.topic(each.topic).partitions:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=f"partition {each} of assign"
            )
    return sorted(set(subscription.partitions))


def _names(subscription: Subscription) -> set[str]:
    return {*subscription.topics, *(each.topic for each in subscription.partitions)}


def ends(cluster: Cluster, wanted: Collection[TopicPartition], read_committed: bool) -> Offsets:
    """Return the offsets after the last readable records.

    Raises:
        ClientError: a broker does not respond, or returns an error.
    """
    return _special(cluster, wanted, LATEST, read_committed)


def beginnings(cluster: Cluster, wanted: Collection[TopicPartition]) -> Offsets:
    """Return the log start offsets.

    Raises:
        ClientError: a broker does not respond, or returns an error.
    """
    return _special(cluster, wanted, EARLIEST, read_committed=False)


def _special(
    cluster: Cluster, wanted: Collection[TopicPartition], time: int, read_committed: bool
) -> Offsets:
    isolation = client_offsets.READ_COMMITTED if read_committed else client_offsets.READ_UNCOMMITTED
    return client_offsets.offsets_at(cluster, wanted, time, isolation=isolation)


def resolve(
    cluster: Cluster, bound: Bound, wanted: Collection[TopicPartition], options: ReadOptions
) -> Offsets:
    """Resolve a bound to an offset of each partition.

    Raises:
        ValueError: a partition has no record at or after the starting time.
        ClientError: a broker does not respond, or returns an error.
    """
    match bound:
        case At(offset):
            return _special(cluster, wanted, offset, options.read_committed)
        case Listed(listed):
            resolved = dict(listed)
            for sentinel in (EARLIEST, LATEST):
                those = [each for each in wanted if listed[each] == sentinel]
                if those:
                    resolved |= _special(cluster, those, sentinel, options.read_committed)
            return resolved
        case AtTime():
            return _at_time(cluster, bound, wanted, options.read_committed)


def check_order(options: ReadOptions, start: Offsets, end: Offsets) -> None:
    """Check that no partition of a batch read starts after its end.

    Records that were deleted may have been the whole range: then `failOnDataLoss` decides. A time may
    be that of a record which is not committed yet: then there is nothing to read.

    Raises:
        ValueError: a partition starts after its end. The message names both options.
        DataLossError: the log begins after the end, and `failOnDataLoss` is set.
    """
    for each in sorted(start):
        is_late = _is_time_after(options, each)
        if start[each] <= end[each] and not is_late:
            continue
        last = _named(options.end, "ending", each, end[each])
        if not is_late and _is(options.start, each, EARLIEST):
            message = f"the log of {each} begins at {start[each]}, but {last}"
            report_loss(message, options.fail_on_data_loss)
        elif is_late or not (isinstance(options.start, AtTime) and _is(options.end, each, LATEST)):
            first = _named(options.start, "starting", each, start[each])
            raise ValueError(f"{each} would start after its end: {first}, but {last}")


def _is_time_after(options: ReadOptions, partition: TopicPartition) -> bool:
    start, end = options.start, options.end
    if not isinstance(start, AtTime) or not isinstance(end, AtTime):
        return False
    return start.timestamp_of(partition) > end.timestamp_of(partition)


def _is(bound: Bound, partition: TopicPartition, sentinel: int) -> bool:
    """Return whether a bound has EARLIEST or LATEST for a partition."""
    if isinstance(bound, Listed):
        return bound.offsets[partition] == sentinel
    return isinstance(bound, At) and bound.offset == sentinel


def _named(bound: Bound, word: str, partition: TopicPartition, offset: int) -> str:
    """Return the name of an option and its value for a partition."""
    if isinstance(bound, AtTime):
        name = "Timestamp" if isinstance(bound.timestamp_ms, int) else "OffsetsByTimestamp"
        return f"{word}{name} is {bound.timestamp_of(partition)} (offset {offset})"
    if _is(bound, partition, LATEST):
        return f"the partition ends at {offset}"
    return f"{word}Offsets is {offset}"


def check_start(options: ReadOptions, start: Offsets, end: Offsets) -> None:
    """Check that a new streaming query does not start after the last records.

    Raises:
        ValueError: it does.
    """
    for each in sorted(start):
        if start[each] > end[each]:
            raise ValueError(
                f"{_named(options.start, 'starting', each, start[each])} for {each}, but the "
                f"partition ends at {end[each]}: start at {end[each]} or before"
            )


def check_subscribed(checkpoint: Collection[TopicPartition], subscription: Subscription) -> None:
    """Check that a query reads at least one of the partitions in its checkpoint.

    Raises:
        ValueError: the query reads none of the topics in the checkpoint.
    """
    topics = sorted({each.topic for each in checkpoint})
    if topics and not any(is_subscribed(subscription, each) for each in checkpoint):
        reads = subscription.pattern or ", ".join(sorted(_names(subscription)))
        raise ValueError(
            f"this checkpoint belongs to a query on {', '.join(topics)}, and this query reads "
            f"{reads}: give this query a checkpointLocation of its own"
        )


def is_subscribed(subscription: Subscription, partition: TopicPartition) -> bool:
    """Return whether a subscription names a partition or its topic."""
    if subscription.pattern:
        return re.fullmatch(subscription.pattern, partition.topic) is not None
    return partition.topic in subscription.topics or partition in subscription.partitions


def _at_time(
    cluster: Cluster, bound: AtTime, wanted: Collection[TopicPartition], read_committed: bool
) -> Offsets:
    times = {each: bound.timestamp_of(each) for each in wanted}
    found = _results(client_offsets.list_offsets(cluster, times))
    late = [each for each, offset in found.items() if offset < 0]
    if late and not bound.latest_if_none:
        raise ValueError(
            f"no record of {', '.join(map(str, late))} is at or after the starting time; with "
            "startingOffsetsByTimestampStrategy=latest, such partitions start at their end"
        )
    return found | ends(cluster, late, read_committed) if late else found


def first_after(cluster: Cluster, time_ms: int, wanted: Collection[TopicPartition]) -> Offsets:
    """Return the offset of the first record at or after a time, in ms, of each partition.

    The result has no entry for a partition without such a record.

    Raises:
        ClientError: a broker does not respond, or returns an error.
    """
    found = _results(client_offsets.list_offsets(cluster, dict.fromkeys(wanted, time_ms)))
    return {each: offset for each, offset in found.items() if offset >= 0}


def _results(
    found: Mapping[TopicPartition, client_offsets.OffsetAndTime | ClientError],
) -> Offsets:
    offsets = {}
    for each, result in found.items():
        if isinstance(result, ClientError):
            raise result
        offsets[each] = result.offset
    return offsets
