"""The clock interface of state machines."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Given to a machine when it is made; the same as `odradek.env.clock.Clock`."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as in records."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from some start; for deadlines."""
        ...
