"""Passes the results of acknowledgements to the user's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.client.share.acknowledgements import AcknowledgementResult

OnAcknowledged = Callable[[Sequence[AcknowledgementResult]], None]


class Reporter:
    """Holds results until the user's thread reports them."""

    def __init__(self, on_acknowledged: OnAcknowledged | None) -> None:
        self._on_acknowledged = on_acknowledged
        self._held: list[AcknowledgementResult] = []

    def hold(self, results: Sequence[AcknowledgementResult]) -> None:
        """Add results. Any thread may do this, one at a time."""
        if self._on_acknowledged is not None:
            self._held += results

    def report(self) -> None:
        """Pass the results to the function, if there are any.

        Another thread may add results meanwhile, so exactly the results that are passed are
        removed.
        """
        held = list(self._held)
        if held and self._on_acknowledged is not None:
            del self._held[: len(held)]
            self._on_acknowledged(held)
