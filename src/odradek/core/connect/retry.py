"""When a failed operation is repeated, and what is done with a record that fails.

Only a `RetriableError` is repeated. In the stages of `TOLERATED`, any error of a record can be tolerated:
then the record is dropped, or becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

_FIRST_MS = 300
_SHIFT_MAX = 20


class Stage(Enum):
    """What was done with a record when it failed."""

    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_CONSUME = "KAFKA_CONSUME"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_PUT = "TASK_PUT"


TOLERATED = (
    Stage.TRANSFORMATION,
    Stage.KEY_CONVERTER,
    Stage.VALUE_CONVERTER,
    Stage.HEADER_CONVERTER,
)


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """How long and how often an operation is repeated."""

    timeout_ms: int
    """0: never; -1: for ever."""
    delay_ms_max: int

    def delay_ms(self, attempt: int, elapsed_ms: int, random: Callable[[int], int]) -> int | None:
        """Return the pause after a failed attempt (the first is 1); None to give up.

        `random` returns a number below its argument.
        """
        if self.timeout_ms == 0 or 0 < self.timeout_ms <= elapsed_ms:
            return None
        delay = _FIRST_MS << min(attempt - 1, _SHIFT_MAX)
        if delay > self.delay_ms_max:
            delay = random(max(self.delay_ms_max, 1))
        if self.timeout_ms > 0:
            delay = min(delay, self.timeout_ms - elapsed_ms)
        return delay


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often a failed connector or task is started again by itself (`restart.policy.*`).

    At most `budget` times in `window_ms`, with pauses that double from `first_ms`.
    """

    budget: int = 0
    window_ms: int = 3_600_000
    first_ms: int = 10_000

    def pause_ms(self, restarts_ms: list[int], now_ms: int) -> int | None:
        """Return the pause before the next start; None if the budget is spent.

        `restarts_ms` are the times of earlier restarts.
        """
        recent = [each for each in restarts_ms if now_ms - each < self.window_ms]
        if len(recent) >= self.budget:
            return None
        return self.first_ms << min(len(recent), _SHIFT_MAX)
