"""The clock, as an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two times: of the calendar, and one that only goes forward."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as in record timestamps."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from some start; for deadlines and intervals."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """See `Clock`."""
        return time.monotonic_ns() // 1_000_000
