"""A line on the terminal that tells how far long work has come."""

from __future__ import annotations

import sys
import time
from typing import Self

from odradek.cli.values import size_text

_SHOW_AFTER_S = 0.7
_SHOW_EVERY_S = 0.1


class Meter:
    """Counts records and bytes; shows them on stderr while that is a terminal.

    Use it in a `with` statement: the line is wiped at the end. `total` is the number of records
    to come, if that is known.
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
        """Since the beginning."""
        return time.monotonic() - self._start

    def add(self, records: int, size: int) -> None:
        """Count, and show it now and then."""
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
