"""The clock, passed as an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two times: wall-clock time, and monotonic time, which never goes back."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as in record timestamps."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; for deadlines and intervals."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds from the same start; for measurements."""
        ...


class SystemClock:
    """The machine's clock."""

    monotonic_ns = staticmethod(time.monotonic_ns)

    def now_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """See `Clock`."""
        return time.monotonic_ns() // 1_000_000
