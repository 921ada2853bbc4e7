"""The metrics of requests: `kafka.network:type=RequestMetrics`, and of fetch sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.model.errors import ErrorCode
from odradek.node.metrics.sources import BrokerSources, MetricSources
from odradek.telemetry.histogram import Histogram
from odradek.telemetry.mbeans import Metric, Row, gauge, histogram, meter, one, timer
from odradek.telemetry.request_metrics import RequestMetrics

_PATTERN = "kafka.network:type=RequestMetrics,name="
_ERRORS = {int(each): each.name for each in ErrorCode}
_OF_CONSUMERS, _OF_FOLLOWERS = "FetchConsumer", "FetchFollower"
_ALWAYS = ("Produce", "Fetch", _OF_CONSUMERS, _OF_FOLLOWERS)
"""These are shown before the first request, as dashboards expect."""
_QUANTILES = "Quantiles are upper bounds, exact to a factor of 2."
_Found = list[tuple[str, list[RequestMetrics]]]


def _found(node: MetricSources) -> _Found:
    """Return the counters of each API. Fetches have three names, as in Apache Kafka."""
    found: _Found = []
    for entry in list(node.dispatcher.entries.values()):
        if entry.follower_metrics is None:
            found.append((entry.name, [entry.metrics]))
        else:
            found.append((entry.name, [entry.metrics, entry.follower_metrics]))
            found.append((_OF_CONSUMERS, [entry.metrics]))
            found.append((_OF_FOLLOWERS, [entry.follower_metrics]))
    return [
        (name, parts)
        for name, parts in found
        if name in _ALWAYS or any(each.count for each in parts)
    ]


def _histograms(found: _Found, read: Callable[[RequestMetrics], Histogram]) -> list[Row]:
    rows: list[Row] = []
    for name, parts in found:
        total = read(parts[0])
        for each in parts[1:]:
            total = total.plus(read(each))
        rows.append(((name,), total))
    return rows


def _by_version(found: _Found) -> list[Row]:
    return [
        ((name, str(version)), count)
        for name, parts in found
        for version, counts in enumerate(zip(*(each.by_version for each in parts), strict=True))
        if (count := sum(counts))
    ]


def _by_error(found: _Found) -> list[Row]:
    rows: list[Row] = []
    for name, parts in found:
        sums: dict[int, int] = {0: sum(each.count - each.failed_responses for each in parts)}
        for each in parts:
            for code, count in list(each.by_error.items()):
                sums[code] = sums.get(code, 0) + count
        rows += [((name, _ERRORS[code]), count) for code, count in sums.items() if count]
    return rows


def _conversions(found: _Found) -> Metric:
    counts = {name: sum(each.count for each in parts) for name, parts in found}
    return timer(
        f"{_PATTERN}MessageConversionsTimeMs,request=*",
        "Always 0: Odradek converts no records to other formats, as Apache Kafka 4.",
        [((name,), Histogram.of_zeros(counts.get(name, 0))) for name in ("Produce", "Fetch")],
    )


def requests(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of each API that has had requests."""
    found = _found(node)
    yield meter(f"{_PATTERN}RequestsPerSec,request=*,version=*", "Requests.", _by_version(found))
    yield _conversions(found)
    yield meter(
        f"{_PATTERN}ErrorsPerSec,request=*,error=*",
        "Errors in responses, one for each partition or other element. NONE counts responses without errors.",
        _by_error(found),
    )
    for name, text, read in (
        (
            "TotalTimeMs",
            f"Milliseconds from the dispatch of a request to its response. {_QUANTILES}",
            RequestMetrics.total_times,
        ),
        (
            "LocalTimeMs",
            f"Milliseconds in which the handler of a request ran. {_QUANTILES}",
            RequestMetrics.local_times,
        ),
        (
            "RemoteTimeMs",
            "Milliseconds that a request waited: for followers, for records, for the disk or for the "
            f"controller. 0 if it was answered at once. {_QUANTILES}",
            RequestMetrics.remote_times,
        ),
        (
            "RequestQueueTimeMs",
            "Milliseconds that a request waited because its client had sent many requests, and other "
            f"connections had their turn. {_QUANTILES}",
            RequestMetrics.queue_times,
        ),
        (
            "ResponseQueueTimeMs",
            "Always 0: there is no queue of responses. The event loop that has made a response sends it.",
            RequestMetrics.nothing,
        ),
        (
            "ResponseSendTimeMs",
            "Milliseconds that a response waited because the client did not accept more bytes. "
            f"{_QUANTILES}",
            RequestMetrics.send_times,
        ),
        (
            "ThrottleTimeMs",
            f"Milliseconds for which a client is throttled because of a quota. {_QUANTILES}",
            RequestMetrics.throttle_times,
        ),
        (
            "RequestBytes",
            "Bytes of requests without their headers. Quantiles are those of a sample, "
            "and upper bounds, exact to a factor of 2.",
            RequestMetrics.request_sizes,
        ),
        (
            "ResponseBytes",
            "Bytes of responses. Quantiles are those of a sample, "
            "and upper bounds, exact to a factor of 2.",
            RequestMetrics.response_sizes,
        ),
    ):
        yield histogram(f"{_PATTERN}{name},request=*", text, _histograms(found, read))


def fetch_sessions(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of fetch sessions."""
    sessions = node.broker.fetch_sessions
    pattern = "kafka.server:type=FetchSessionCache,name="
    yield gauge(f"{pattern}NumIncrementalFetchSessions", "Fetch sessions.", one(len(sessions)))
    yield gauge(
        f"{pattern}NumIncrementalFetchPartitionsCached",
        "Partitions in fetch sessions.",
        one(sessions.partitions),
    )
    yield meter(
        f"{pattern}IncrementalFetchSessionEvictionsPerSec",
        "Fetch sessions that were removed to make room for others.",
        one(sessions.evictions),
    )


_OPERATIONS = ("Produce", "Fetch", "ShareFetch", "DeleteRecords")


def waiting(node: MetricSources) -> Iterator[Metric]:
    """Yield how many requests wait. In Apache Kafka they wait in a purgatory."""
    counts = {each.name: each.waiting for each in list(node.dispatcher.entries.values())}
    for operation in _OPERATIONS:
        if operation in counts:
            for name in ("PurgatorySize", "NumDelayedOperations"):
                yield gauge(
                    "kafka.server:type=DelayedOperationPurgatory,"
                    f"name={name},delayedOperation={operation}",
                    f"{operation} requests that wait for records, followers or the disk.",
                    one(counts[operation]),
                )
