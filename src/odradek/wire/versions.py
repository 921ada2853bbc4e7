"""Ranges of message versions."""

from __future__ import annotations

from typing import NamedTuple

MAX_VERSION = 32767


class Versions(NamedTuple):
    """A range of message versions, with `low` and `high` included; empty if `low > high`."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse a range in a form such as `3-13`, `9+`, `4` or `none`."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), MAX_VERSION)
        low, dash, high = text.partition("-")
        return cls(int(low), int(high if dash else low))


NO_VERSIONS = Versions(0, -1)
ALL_VERSIONS = Versions(0, MAX_VERSION)
