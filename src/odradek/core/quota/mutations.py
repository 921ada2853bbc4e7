"""The quota of one request that creates or deletes partitions (Kafka's ControllerMutationQuota).

The first versions of the requests do not know the error THROTTLING_QUOTA_EXCEEDED. For them the
quota is permissive: all partitions are accepted, and the client is throttled. For newer versions it
is strict: while the quota is exhausted, a topic is refused with this error. Otherwise the topic is
accepted with all its partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.core.quota.meters import MutationMeter
from odradek.model import api_keys
from odradek.model.errors import ApiError, ErrorCode

STRICT_SINCE: Final[Mapping[int, int]] = {
    api_keys.CREATE_TOPICS: 6,
    api_keys.DELETE_TOPICS: 5,
    api_keys.CREATE_PARTITIONS: 3,
}
"""The first strict version, by API key."""


class MutationQuota:
    """The quota of one request."""

    __slots__ = ("_is_strict", "_meter", "_now_ms", "_throttle_ms")

    def __init__(self, meter: MutationMeter, is_strict: bool, now_ms: int) -> None:
        self._meter = meter
        self._is_strict = is_strict
        self._now_ms = now_ms
        self._throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Count partitions.

        Raises:
            ApiError: THROTTLING_QUOTA_EXCEEDED: the quota is strict and exhausted.
        """
        if not self._is_strict:
            self._meter.add(partitions, self._now_ms)
            self._throttle_ms = self._meter.check(self._now_ms)
            return
        throttle_ms = self._meter.check(self._now_ms)
        if throttle_ms:
            self._throttle_ms = throttle_ms
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._meter.add(partitions, self._now_ms)

    def finish(self, now_ms: int) -> int:
        """Return how long the client must be throttled after the response."""
        left_ms = max(0, self._throttle_ms - (now_ms - self._now_ms))
        if left_ms:
            self._meter.throttled(left_ms, now_ms)
        return left_ms
