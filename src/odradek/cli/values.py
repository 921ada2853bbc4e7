"""Types of arguments and options: durations and positions in a log."""

from __future__ import annotations

import time
from typing import Any

import click

from odradek.operations.texts import Position, parse_duration, parse_position


def now_ms() -> int:
    """Return the current time in ms since 1970."""
    return time.time_ns() // 1_000_000


class _Duration(click.ParamType[int]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert to milliseconds."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Position(click.ParamType[Position]):
    name = "position"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Position:
        """Convert to a `Position`; durations count back from now."""
        if isinstance(value, Position):
            return value
        try:
            return parse_position(value, now_ms())
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = _Duration()
POSITION = _Position()
POSITION_HELP = "beginning, end, an offset, -N (N before the end), a time, or how long ago (15m)"
