"""A progress line on the terminal for long commands."""

from __future__ import annotations

import sys
import time
from typing import Self

from odradek.operations.texts import size_text

_SHOW_AFTER_S = 0.7
_SHOW_EVERY_S = 0.1


class Meter:
    """Counts records and bytes, and shows the counts on stderr if stderr is a terminal.

    Use it in a `with` statement, which erases the line at its end. `total` is the expected number
    of records, if known.
    """

    def __init__(self, *, shown: bool = True, total: int | None = None) -> None:
        self.records = 0
        self.bytes = 0
        self._total = total
        self._start = time.monotonic()
        self._next = self._start + _SHOW_AFTER_S if shown and sys.stderr.isatty() else float("inf")
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def add(self, records: int, size: int) -> None:
        """Add to the counts, and update the line from time to time."""
        self.records += records
        self.bytes += size
        if time.monotonic() >= self._next:
            self._draw()

    def _draw(self) -> None:
        self._next = time.monotonic() + _SHOW_EVERY_S
        self._is_drawn = True
        share = f" ({self.records / self._total:.0%})" if self._total else ""
        rate = self.records / self.seconds
        text = (
            f"{self.records:,} records{share}, {size_text(self.bytes)}, "
            f"{rate:,.0f} records/s, {size_text(round(self.bytes / self.seconds))}/s"
        )
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
