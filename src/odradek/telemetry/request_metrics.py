"""The counters of one API: requests by version, bytes, errors, and durations.

A request is answered at once, or it is deferred: it waits, for example for records or for
followers. A deferred request has a local time, in which its handler ran, and a remote time, in which
it waited. The time of a request that is answered at once is local. Its remote time is 0, which costs
nothing to count.
"""

from __future__ import annotations

from typing import Final

from odradek.telemetry.histogram import BUCKETS, Histogram

_VERSIONS: Final = 32
"""No API of Apache Kafka has this many versions."""
_SIZED_FROM_START: Final = 64
_SIZED_EVERY: Final = 13
"""The sizes of the first requests are all counted, then that of every 13th."""
_MS_PER_US: Final = 0.001


class Distribution:
    """Counts values in buckets (see `odradek.telemetry.histogram`)."""

    __slots__ = ("buckets", "count", "max", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.count = 0
        self.max = 0
        self.sum = 0

    def add(self, value: int) -> None:
        """Count a value that is not negative."""
        self.count += 1
        self.sum += value
        if value > self.max:
            self.max = value
        self.buckets[min(value.bit_length(), BUCKETS - 1)] += 1

    def read(self, scale: float = 1.0) -> Histogram:
        """Return what was counted until now."""
        return Histogram(self.count, self.sum, self.max, list(self.buckets), scale)


class RequestMetrics:
    """The counters of one API. Durations are in µs."""

    __slots__ = (
        "_immediate",
        "_local",
        "_queued",
        "_remote",
        "_request_sizes",
        "_response_sizes",
        "_sent_late",
        "_throttled",
        "_total",
        "by_error",
        "by_version",
        "bytes_in",
        "bytes_in_max",
        "bytes_out",
        "bytes_out_max",
        "count",
        "failed_responses",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_in_max = 0
        self.bytes_out = 0
        self.bytes_out_max = 0
        self.count = 0
        """Number of requests."""
        self.by_version = [0] * _VERSIONS
        """Number of requests of each version."""
        self.by_error: dict[int, int] = {}
        """Number of errors in responses, by error code."""
        self.failed_responses = 0
        """Number of responses with an error."""
        self._immediate = Distribution()
        """The durations of requests that were answered at once."""
        self._total: Distribution | None = None
        self._local: Distribution | None = None
        self._remote: Distribution | None = None
        """The durations of deferred requests. None until the first one."""
        self._queued: Distribution | None = None
        """How long requests waited for their turn. None until one did."""
        self._sent_late: Distribution | None = None
        """How long clients did not accept responses. None until one did not."""
        self._throttled: Distribution | None = None
        """How long clients were throttled. None until one was."""
        self._request_sizes = Distribution()
        self._response_sizes = Distribution()

    def record(self, duration_us: int, bytes_in: int, bytes_out: int, version: int) -> None:
        """Count one request that was answered at once, and its response."""
        self._immediate.add(duration_us)
        self._count(bytes_in, bytes_out, version)

    def record_deferred(
        self, duration_us: int, local_us: int, bytes_in: int, bytes_out: int, version: int
    ) -> None:
        """Count one request that was answered later. Its handler ran for `local_us`."""
        if self._total is None or self._local is None or self._remote is None:
            self._total, self._local, self._remote = Distribution(), Distribution(), Distribution()
        self._total.add(duration_us)
        self._local.add(local_us)
        self._remote.add(max(0, duration_us - local_us))
        self._count(bytes_in, bytes_out, version)

    def _count(self, bytes_in: int, bytes_out: int, version: int) -> None:
        count = self.count = self.count + 1
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        if bytes_in > self.bytes_in_max:
            self.bytes_in_max = bytes_in
        if bytes_out > self.bytes_out_max:
            self.bytes_out_max = bytes_out
        self.by_version[version] += 1
        if count <= _SIZED_FROM_START or count % _SIZED_EVERY == 0:
            self._request_sizes.add(bytes_in)
            self._response_sizes.add(bytes_out)

    def record_queued(self, waited_us: int) -> None:
        """Count a request that has waited for the turn of its connection."""
        if self._queued is None:
            self._queued = Distribution()
        self._queued.add(waited_us)

    def record_sent_late(self, waited_us: int) -> None:
        """Count a response that the client has not accepted at once."""
        if self._sent_late is None:
            self._sent_late = Distribution()
        self._sent_late.add(waited_us)

    def record_throttled(self, throttle_ms: int) -> None:
        """Count a request whose client is throttled because of a quota."""
        if self._throttled is None:
            self._throttled = Distribution()
        self._throttled.add(throttle_ms * 1000)

    def record_errors(self, codes: list[int]) -> None:
        """Count the errors of one response, which has at least one."""
        self.failed_responses += 1
        for code in codes:
            self.by_error[code] = self.by_error.get(code, 0) + 1

    # -- reading ------------------------------------------------------------------------------

    def total_times(self) -> Histogram:
        """Return the ms from the dispatch of a request to its response."""
        return _plus(self._immediate, self._total)

    def local_times(self) -> Histogram:
        """Return the ms in which the handlers ran."""
        return _plus(self._immediate, self._local)

    def remote_times(self) -> Histogram:
        """Return the ms in which requests waited."""
        return _with_zeros(self._remote, self.count)

    def queue_times(self) -> Histogram:
        """Return the ms that received requests waited for the turn of their connection."""
        return _with_zeros(self._queued, self.count)

    def send_times(self) -> Histogram:
        """Return the ms that responses waited until the client accepted them."""
        return _with_zeros(self._sent_late, self.count)

    def throttle_times(self) -> Histogram:
        """Return the ms for which clients are throttled after their requests."""
        return _with_zeros(self._throttled, self.count)

    def nothing(self) -> Histogram:
        """Return a zero for each request."""
        return Histogram.of_zeros(self.count, _MS_PER_US)

    def request_sizes(self) -> Histogram:
        """Return the bytes of requests. The percentiles are those of a sample."""
        buckets = list(self._request_sizes.buckets)
        return Histogram(self.count, self.bytes_in, self.bytes_in_max, buckets)

    def response_sizes(self) -> Histogram:
        """Return the bytes of responses. The percentiles are those of a sample."""
        buckets = list(self._response_sizes.buckets)
        return Histogram(self.count, self.bytes_out, self.bytes_out_max, buckets)


def _with_zeros(some: Distribution | None, count: int) -> Histogram:
    """Return the values of some requests, and zeros for the others of `count` requests."""
    if some is None:
        return Histogram.of_zeros(count, _MS_PER_US)
    zeros = Histogram.of_zeros(max(0, count - some.count), _MS_PER_US)
    return zeros.plus(some.read(_MS_PER_US))


def _plus(immediate: Distribution, deferred: Distribution | None) -> Histogram:
    times = immediate.read(_MS_PER_US)
    return times if deferred is None else times.plus(deferred.read(_MS_PER_US))
