"""What all shells of `odradek.client.aio` have: an event loop that drives the machines.

    loop:  readable --> turn: receive, machines, send --> callbacks, then those who wait
                         ^---------- timer ----------'

There is no thread. The loop watches one selector, which watches the connections: so the loop never knows
descriptors, which connections close on their own. What waits for others (resolution of names, handshakes
of TLS, logins with SASL, tokens) runs on the loop's executor. All else is done in a *turn*, which does not wait.

An object belongs to the loop in which it is first awaited. Each call may be cancelled: a call that waits
only looks at the machines, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from select import POLLIN, POLLOUT
from typing import TYPE_CHECKING

from odradek.client.deadline import Deadline
from odradek.client.errors import ClientError, ClosedError
from odradek.client.shell.driver import WAIT_MS_MAX, Driver
from odradek.client.shell.keeper import Calls, made_before_fork, refuse_after_fork

if TYPE_CHECKING:
    from odradek.client.connection import Connection
    from odradek.client.shell.driver import WakeUp

log = logging.getLogger(__name__)

IDLE_MS_MAX = 1_000
"""The longest time between two turns while a response is awaited, so that a blocked loop is noticed."""
BLOCKED_SECONDS = 3.0
"""If a turn comes so much later than planned, the program has blocked the event loop."""
_EVENTS = {POLLIN: selectors.EVENT_READ, POLLOUT: selectors.EVENT_WRITE}


class Watch:
    """Watches connections for an event loop, which sees one descriptor."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._known: dict[WakeUp | Connection, int] = {}

    def fileno(self) -> int:
        """Return the descriptor that is readable if something is to be done."""
        return self._selector.fileno()

    def update(self, wanted: dict[WakeUp | Connection, int]) -> None:
        """Watch these. What is closed must not be among them."""
        known = self._known
        if known == wanted:
            return
        for each in known.keys() - wanted.keys():
            self._selector.unregister(each)
        for each, events in wanted.items():
            mask = sum(mask for event, mask in _EVENTS.items() if events & event)
            if each not in known:
                self._selector.register(each, mask)
            elif known[each] != events:
                self._selector.modify(each, mask)
        self._known = dict(wanted)

    def close(self) -> None:
        """Watch nothing any more."""
        self._selector.close()


class AsyncShell:
    """A driver and an event loop. Subclasses have machines."""

    def __init__(
        self, make_driver: Callable[[Callable[[Callable[[], None]], None]], Driver], what: str
    ) -> None:
        """`make_driver` takes the function that runs others on the loop's executor."""
        self._driver = make_driver(self._run_aside)
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._problem: ClientError | None = None
        """Why the object cannot be used any more."""
        self._watch: Watch | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[bool]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        """Whether a turn is due at once."""
        self._calls: deque[Calls] = deque()
        self._planned_at: float | None = None
        """When the next turn is due at the latest."""
        refuse_after_fork(self)

    # -- what subclasses have -------------------------------------------------------------------

    def _has_work(self) -> bool:
        """Whether there is something to do although nobody waits."""
        raise NotImplementedError

    def _take_calls(self) -> Sequence[Calls]:
        """Return the callbacks that wait."""
        raise NotImplementedError

    def _was_blocked(self, seconds: float) -> None:
        """Note that the event loop was blocked for about so long."""
        log.debug("the event loop of a %s was blocked for %.1f s", self._what, seconds)

    # -- the caller -----------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _enter(self) -> asyncio.AbstractEventLoop:
        """Return the loop. Each method that waits begins with this.

        Raises:
            ClosedError: the object is closed.
            RuntimeError: it is used in another loop than before.
        """
        self._check_usable()
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._watch = Watch()
            loop.add_reader(self._watch.fileno(), _run, weakref.ref(self))
        elif self._loop is not loop:
            raise RuntimeError(
                f"the {self._what} belongs to another event loop: each loop needs its own"
            )
        return loop

    async def _wait_until(self, is_done: Callable[[], bool], deadline: Deadline | None) -> bool:
        """Wait until `is_done`, which may raise. Return False after the deadline."""
        loop = self._enter()
        self._turn()
        if is_done():
            return True
        if deadline is not None and deadline.expired:
            return False
        future: asyncio.Future[bool] = loop.create_future()
        waiter = is_done, future
        self._waiting.append(waiter)
        timer = None
        if deadline is not None:
            timer = loop.call_later(deadline.remaining_ms / 1000, _resolve, future, False)
        try:
            self._arm()
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _run_aside(self, work: Callable[[], None]) -> None:
        assert self._loop is not None, "somebody has awaited"
        self._loop.run_in_executor(None, work)

    # -- the loop -------------------------------------------------------------------------------

    def _soon(self) -> None:
        """Make the next turn due."""
        if not self._is_due and self._loop is not None:
            self._is_due = True
            self._loop.call_soon(_run_due, weakref.ref(self))

    def _turn(self) -> None:
        """Send and receive without waiting, call the callbacks, and wake those who wait."""
        self._is_due = False
        if self._problem is not None:
            return
        self._look_at_clock()
        try:
            self._driver.work()
            self._call_back()
        except Exception as error:
            self._fail_waiting(error)
            raise
        for is_done, future in list(self._waiting):
            if not future.done():
                try:
                    if is_done():
                        future.set_result(True)
                except Exception as error:  # noqa: BLE001  (it is raised where somebody waits)
                    future.set_exception(error)
        self._arm()

    def _look_at_clock(self) -> None:
        if self._planned_at is not None and self._loop is not None:
            late = self._loop.time() - self._planned_at
            self._planned_at = None
            if late > BLOCKED_SECONDS:
                self._was_blocked(late)

    def _call_back(self) -> None:
        self._calls.extend(self._take_calls())
        while self._calls:
            some = self._calls.popleft()
            try:
                some.run_callbacks(self._callback_failed)
            except BaseException:
                self._calls.appendleft(some)  # the others are called later
                self._soon()
                raise

    def _callback_failed(self) -> None:
        log.exception("a callback of a %s has failed", self._what)

    def _arm(self) -> None:
        """Let the loop watch the connections, and begin the next turn in time."""
        loop, watch = self._loop, self._watch
        if loop is None or watch is None or self._problem is not None:
            return
        watched = self._driver.watched()
        if not watched:
            self._soon()
            return
        watch.update(watched)
        if not self._waiting and not self._has_work():
            self._disarm()
            return
        timeout_ms = self._driver.timeout_ms(WAIT_MS_MAX if self._waiting else IDLE_MS_MAX)
        if timeout_ms == 0:
            self._soon()
            return
        at = loop.time() + timeout_ms / 1000
        if self._timer is None or self._timer.when() > at or self._timer.when() < loop.time():
            self._disarm()
            self._timer = loop.call_later(timeout_ms / 1000, _run, weakref.ref(self))
        self._planned_at = at

    def _disarm(self) -> None:
        self._planned_at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail_waiting(self, error: BaseException) -> None:
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(error)

    # -- the end --------------------------------------------------------------------------------

    def _end(self, problem: ClientError) -> None:
        """Close the connections. Those who still wait get the problem as an error."""
        if self._problem is not None:
            return
        self._problem = problem
        self._fail_waiting(problem)
        self._disarm()
        if self._watch is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._watch.fileno())
            self._watch.close()
        self._driver.close()

    def forked(self) -> None:
        """Refuse to be used, because this process is a child of the one that made the object."""
        self._problem = made_before_fork(self._what)

    def __del__(self) -> None:
        if getattr(self, "_problem", self) is None:
            self._end(ClosedError(f"the {self._what} is closed"))
            warnings.warn(
                f"a {self._what} was not closed; use an async with statement, or await close",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )


def _run(reference: weakref.ref[AsyncShell]) -> None:
    """Begin a turn, if the shell is not garbage."""
    shell = reference()
    if shell is not None:
        shell._turn()


def _run_due(reference: weakref.ref[AsyncShell]) -> None:
    """Begin a turn, unless there was one since it became due."""
    shell = reference()
    if shell is not None and shell._is_due:
        shell._turn()


def _resolve(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)
