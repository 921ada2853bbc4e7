"""Counts the bytes that the connections of a server have received and sent."""

from __future__ import annotations


class Traffic:
    """The number of received and sent bytes. Connections count them, and metrics read them."""

    __slots__ = ("bytes_in", "bytes_out")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0

    def count_in(self, count: int) -> None:
        """Add to the number of received bytes."""
        self.bytes_in += count

    def count_out(self, count: int) -> None:
        """Add to the number of sent bytes."""
        self.bytes_out += count
