"""When a share consumer may request the metadata of its topics again."""

from __future__ import annotations

from odradek.client.cluster import BACKOFF_MS, BACKOFF_MS_MAX


class RefreshPace:
    """Pauses between requests for metadata. They double while requests follow one another."""

    def __init__(self) -> None:
        self.pause_ms = BACKOFF_MS
        """The least time between the last request and the next one."""
        self._last_ms: int | None = None

    def begin(self, now_ms: int) -> bool:
        """Note that a request is sent now, and return True; return False if it is too early."""
        if self._last_ms is not None:
            elapsed_ms = now_ms - self._last_ms
            if elapsed_ms < self.pause_ms:
                return False
            is_new = elapsed_ms > 2 * BACKOFF_MS_MAX
            self.pause_ms = BACKOFF_MS if is_new else min(2 * self.pause_ms, BACKOFF_MS_MAX)
        self._last_ms = now_ms
        return True
