"""What the machines of source tasks and sink tasks share: a procedure that waits for what it wants done.

    events:   begin, stop, pause    time    what has been done
                       |             |           |
                       v             v           v
    procedure:  make -> start -> [ work ... ] -> stop -> ended
                       |
                       v
    effects:    calls of user code, of clients, of stores; states

The procedure decides one step after the other. A shell performs the effects, in threads of its own or in
simulated time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from odradek.core.connect import task_messages as m
from odradek.core.connect.config_log import TargetState


@dataclass(frozen=True, slots=True)
class Wait:
    """The procedure goes on when the effect with a token is done, or at a time, whichever is first.

    With `wakes` it also goes on when the task shall stop, pause or go on.
    """

    token: int | None = None
    until_ms: int | None = None
    wakes: bool = False


Steps = Generator[Wait, None, Any]
_BEGIN = Wait(wakes=True)


class TaskMachine:
    """See the module."""

    def __init__(self, state: TargetState) -> None:
        self.is_over = False
        """Whether nothing more is decided."""
        self._state = state
        self._is_stopping = False
        self._now_ms = 0
        self._out: list[m.Effect] = []
        self._answers: dict[int, m.Done] = {}
        self._tokens = 0
        self._was_told = False
        """Whether the task was told to stop, pause or go on since the last step."""
        self._steps: Steps = self._life()
        self._wait: Wait = next(self._steps)

    # -- events ---------------------------------------------------------------------------------

    def handle(self, now_ms: int, event: m.Event) -> list[m.Effect]:
        """Take an event, and return what is to be done, in this order."""
        self._now_ms = now_ms
        if not self.is_over:
            self._note(event)
        while not self.is_over and self._may_go_on():
            self._was_told = False
            try:
                self._wait = next(self._steps)
            except StopIteration:
                self.is_over = True
        found, self._out = self._out, []
        return found

    @property
    def next_deadline_ms(self) -> int | None:
        """When `handle` must be called again with `Tick`, if nothing happens before."""
        return None if self.is_over else self._wait.until_ms

    def _may_go_on(self) -> bool:
        wait = self._wait
        return (
            (wait.token is not None and wait.token in self._answers)
            or (wait.until_ms is not None and self._now_ms >= wait.until_ms)
            or (wait.wakes and self._was_told)
        )

    def _note(self, event: m.Event) -> None:
        match event:
            case m.Done():
                self._answers[event.token] = event
            case m.Begin():
                self._was_told = True
            case m.Tick():
                pass
            case m.Stop():
                self._is_stopping = self._was_told = True
            case m.ChangeState(state):
                self._state = state
                self._was_told = True
            case m.Cancel():
                self._steps.close()
                self.is_over = True
            case _:
                self._note_more(event)

    def _note_more(self, event: m.Event) -> None:
        raise AssertionError(f"this task has no such event: {event}")

    # -- the procedure --------------------------------------------------------------------------

    def _life(self) -> Steps:
        yield _BEGIN
        try:
            yield from self._live()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            self._out.append(m.Ended(error))
        else:
            self._out.append(m.Ended())

    def _live(self) -> Steps:
        """Run the task from its start to its end. An error that it raises is why the task has failed."""
        raise NotImplementedError

    @property
    def _is_paused(self) -> bool:
        return self._state != TargetState.STARTED

    def _shall_stop(self) -> bool:
        """Whether the task was told to stop, maybe since the last look."""
        return self._is_stopping

    # -- waiting --------------------------------------------------------------------------------

    def _ask(self, make: Callable[[int], m.Asking]) -> int:
        """Let something be done, and return its token."""
        self._tokens += 1
        self._out.append(make(self._tokens))
        return self._tokens

    def _is_done(self, token: int) -> bool:
        return token in self._answers

    def _answer(self, token: int) -> Any:
        """Return the answer to what is done. It raises the error if that has failed."""
        done = self._answers.pop(token)
        if done.error is None:
            return done.value
        if isinstance(done.error, Exception):
            raise done.error
        raise _Ended(f"{done.error!r}") from done.error

    def _do(self, make: Callable[[int], m.Asking]) -> Steps:
        """Let something be done, wait for it, and return the answer. It raises the error of a failure."""
        token = self._ask(make)
        yield Wait(token)
        return self._answer(token)

    def _do_unless_stopped(self, make: Callable[[int], m.Asking]) -> Steps:
        """Do something, but do not wait for it if the task shall stop. Return whether it is done."""
        token = self._ask(make)
        while not self._is_done(token):
            if self._is_stopping:
                return False
            yield Wait(token, wakes=True)
        self._answer(token)
        return True

    def _do_quietly(self, text: str, make: Callable[[int], m.Asking]) -> Steps:
        """Do something whose failure is only logged, as in Apache Kafka. Return whether it is done."""
        try:
            yield from self._do(make)
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            self._out.append(m.Warn(text, error))
            return False
        return True

    def _sleep(self, duration_ms: int | None) -> Steps:
        """Wait until the task shall do something else, at most for a time."""
        until_ms = None if duration_ms is None else self._now_ms + duration_ms
        yield Wait(until_ms=until_ms, wakes=True)


class _Ended(Exception):
    """User code has ended its thread."""
