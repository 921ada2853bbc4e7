"""The clock interface of state machines."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The clock that a state machine uses. It has the same methods as `odradek.env.clock.Clock`."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, as in the timestamps of records."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds since an arbitrary start. Use them only for deadlines."""
        ...
