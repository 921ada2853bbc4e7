"""Waits until something that another thread or process does has happened."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.02


def until(
    holds: Callable[[], object], what: str = "it holds", seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait until a condition holds. Fail if it does not after `seconds`; `what` says what was expected."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(POLL_SECONDS)
