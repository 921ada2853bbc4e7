"""Wall-clock time and monotonic time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Gives wall-clock time, and monotonic time, which never goes back."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970 (UTC), as in record timestamps."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds since an arbitrary start, for deadlines and intervals."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds since the same start, for measurements."""
        ...


class SystemClock:
    """The operating system's clock."""

    monotonic_ns = staticmethod(time.monotonic_ns)

    def now_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """See `Clock`."""
        return time.monotonic_ns() // 1_000_000
