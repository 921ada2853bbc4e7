"""Decides when the keys of an issuer are fetched (Kafka's RefreshingHttpsJwks).

The keys are fetched at the start, then every sasl.oauthbearer.jwks.endpoint.refresh.ms. After a
failure the next attempt follows after a pause that doubles from
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms to ...backoff.max.ms. The old keys are used until
other ones have been fetched.

If a token names a key that is missing, the keys are fetched at once, because the issuer may have a
new key. This is bounded: once a minute for each missing id, of which the last sixteen are
remembered, and once a second for all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from odradek.core.sasl.jwks import KEY_ID_LENGTH_MAX

MISSING_IDS_MAX = 16
MISSING_PAUSE_MS = 60_000
EARLY_PAUSE_MS = 1000


class KeyRefresh:
    """The times of the fetches from one address. The times are monotonic."""

    def __init__(self, refresh_ms: int, backoff_ms: int, backoff_max_ms: int, now_ms: int) -> None:
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._missing: OrderedDict[str, int] = OrderedDict()
        """When a fetch because of a missing key id is allowed again."""
        self._failures = 0
        self._began_ms: int | None = None
        """When the last fetch has begun; None before the first one."""
        self._is_fetching = False
        self._next_ms = now_ms

    @property
    def next_ms(self) -> int | None:
        """When the keys are to be fetched; None during a fetch."""
        return None if self._is_fetching else self._next_ms

    def begin(self, now_ms: int) -> None:
        """Process the beginning of a fetch."""
        assert not self._is_fetching
        self._is_fetching, self._began_ms = True, now_ms

    def succeed(self, now_ms: int, key_ids: Iterable[str]) -> None:
        """Process the success of a fetch."""
        assert self._is_fetching
        self._is_fetching, self._failures = False, 0
        for each in key_ids:
            self._missing.pop(each, None)
        self._next_ms = now_ms + self._refresh_ms

    def fail(self, now_ms: int) -> None:
        """Process the failure of a fetch."""
        assert self._is_fetching
        self._is_fetching = False
        exponent = min(self._failures, 30)
        pause_ms = min(max(1, self._backoff_ms) << exponent, max(1, self._backoff_max_ms))
        self._failures += 1
        self._next_ms = now_ms + pause_ms

    def miss(self, key_id: str, now_ms: int) -> bool:
        """Process a token whose key is missing; return whether `next_ms` is earlier now."""
        if self._is_fetching or self._failures:
            return False  # the next fetch comes soon
        if len(key_id) > KEY_ID_LENGTH_MAX or self._missing.get(key_id, now_ms) > now_ms:
            return False
        self._missing[key_id] = now_ms + MISSING_PAUSE_MS
        self._missing.move_to_end(key_id)
        if len(self._missing) > MISSING_IDS_MAX:
            self._missing.popitem(last=False)
        early_ms = now_ms
        if self._began_ms is not None:
            early_ms = max(now_ms, self._began_ms + EARLY_PAUSE_MS)
        if early_ms >= self._next_ms:
            return False
        self._next_ms = early_ms
        return True
