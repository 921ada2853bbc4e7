"""What all blocking shells have: a lock, a driver, and a keeper that drives while the caller does not.

    caller:  send ... send ... send                    flush
    driver:  ^---------------^  keeper (after 5 ms)    ^-----

The keeper is one thread. It begins when there is work for it, and waits while there is none. It does not
touch the connections within `CALLER_MS` of a call that did, because a thread that takes turns with a
busy caller costs more than it saves. It ends when the shell is closed or garbage.

After a fork, the child has no keeper, and its copies of connections are the parent's. So the objects
refuse to be used there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import ClientError, ClosedError, TransactionStateError
from odradek.client.shell.driver import Descriptor, Driver, WakeUp, readable, wait
from odradek.client.shell.exclusive import Exclusive

log = logging.getLogger(__name__)

CALLER_MS = 5
"""For so long after a call, the caller is expected to drive again."""
CALLS_SECONDS = 0.001
"""How long `flush` waits before it looks again whether the keeper is in a callback."""
_JOIN_SECONDS = 5.0


class Calls(Protocol):
    """Callbacks that are called one after the other."""

    def run_callbacks(self, failed: Callable[[], None]) -> None:
        """Call them. `failed` is called in the handler of each exception."""
        ...


class Shell:
    """A lock, a driver and a keeper. Subclasses have machines."""

    def __init__(self, driver: Driver, what: str, *, caller_ms: int = CALLER_MS) -> None:
        """For `caller_ms` after a call, the caller is expected to drive again."""
        self._driver = driver
        self._caller_ms = caller_ms
        self._what = what
        self._lock = Exclusive()
        self._problem: ClientError | None = None
        """Why the object cannot be used any more."""
        self._worked_ms = 0
        self._keeper: threading.Thread | None = None
        self._keeper_sleeps = False
        self._keeper_wake = WakeUp()
        """Only the keeper drains it. A caller may drain that of the driver before the keeper sees it."""
        self._calls: deque[Calls] = deque()
        """Callbacks to call, in order. Those after one that raised Ctrl-C stay."""
        self._calling: set[int] = set()
        """The threads that run callbacks."""
        refuse_after_fork(self)

    # -- what subclasses have -------------------------------------------------------------------

    def _has_work(self) -> bool:
        """Whether the keeper has something to do."""
        raise NotImplementedError

    def _has_calls(self) -> bool:
        """Whether callbacks wait for being called."""
        raise NotImplementedError

    def _take_calls(self) -> Sequence[Calls]:
        """Return the callbacks that wait. This is called without the lock."""
        raise NotImplementedError

    # -- the caller -----------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _is_in_callback(self) -> bool:
        return threading.get_ident() in self._calling

    def _check_no_callback(self, what: str) -> None:
        if self._is_in_callback():
            raise TransactionStateError(
                f"{what} is not possible in a callback, because it would wait for itself"
            )

    def _work(self) -> None:
        """Send and receive, without waiting. The caller has the lock."""
        self._driver.work()
        self._worked_ms = monotonic_ms()

    def _wait_until(self, is_done: Callable[[], bool], deadline: Deadline | None) -> bool:
        """Drive until `is_done`. Return False after the deadline. The caller has the lock.

        The lock is released while this waits.
        """
        while True:
            self._work()
            if is_done():
                return True
            if self._problem is not None:
                raise self._problem
            timeout_ms = self._driver.timeout_ms()
            if deadline is not None:
                if deadline.expired:
                    return False
                timeout_ms = min(timeout_ms, deadline.remaining_ms)
            descriptors = self._driver.descriptors()
            try:
                self._lock.release()
                if self._has_calls() and not self._is_in_callback():
                    self._call_back()
                else:
                    wait(descriptors, timeout_ms)
            finally:
                self._lock.acquire()

    def _call_back(self) -> None:
        """Call the callbacks that wait. The caller does not have the lock."""
        ident = threading.get_ident()
        is_nested = ident in self._calling
        self._calling.add(ident)  # before they are taken, so that `_finish_calls` misses none
        try:
            calls = self._calls
            calls.extend(self._take_calls())
            while calls:
                some = calls.popleft()
                try:
                    some.run_callbacks(self._callback_failed)
                except BaseException:
                    calls.appendleft(some)  # the others are called later
                    raise
        except IndexError:
            return  # another thread has called the last one
        finally:
            if not is_nested:
                self._calling.discard(ident)

    def _finish_calls(self, deadline: Deadline | None = None) -> None:
        """Call the callbacks that wait, and wait for those that other threads are calling."""
        self._call_back()
        ident = threading.get_ident()
        while self._calling - {ident} and not self._is_in_callback():
            if deadline is not None and deadline.expired:
                return
            time.sleep(CALLS_SECONDS)

    def _callback_failed(self) -> None:
        log.exception("a callback of a %s has failed", self._what)

    # -- the keeper -----------------------------------------------------------------------------

    def _keep(self) -> None:
        """Let the keeper work. The caller has the lock."""
        if self._keeper is None:
            self._keeper = threading.Thread(
                target=_run,
                args=(weakref.ref(self),),
                name=f"odradek {self._what}",
                daemon=True,
            )
            self._keeper.start()
        elif self._keeper_sleeps:
            self._keeper_sleeps = False
            self._keeper_wake.wake()

    def _keeper_turn(self) -> tuple[list[Descriptor], int | None] | None:
        """Work if the caller does not. Return what to wait for; None at the end."""
        with self._lock:
            if self._problem is not None:
                return None
            self._keeper_wake.drain()
            descriptor = readable(self._keeper_wake)
            if monotonic_ms() - self._worked_ms < self._caller_ms:
                return [descriptor], self._caller_ms
            self._driver.work()
            descriptors, timeout_ms = [descriptor], None
            self._keeper_sleeps = not self._has_work()
            if not self._keeper_sleeps:
                descriptors = self._driver.descriptors()
                descriptors += [descriptor] if descriptors else []
                timeout_ms = self._driver.timeout_ms()
        self._call_back()
        return descriptors, timeout_ms

    # -- the end --------------------------------------------------------------------------------

    def _end(self, problem: ClientError) -> None:
        """Close the connections, and end the keeper."""
        with self._lock:
            if self._problem is not None:
                return
            self._problem = problem
            self._driver.close()
            self._keeper_wake.wake()
        keeper = self._keeper
        if keeper is not None and keeper is not threading.current_thread():
            keeper.join(_JOIN_SECONDS)
        self._keeper_wake.close()

    def forked(self) -> None:
        """Refuse to be used, because this process is a child of the one that made the object."""
        self._problem = made_before_fork(self._what)

    def __del__(self) -> None:
        if getattr(self, "_problem", self) is None:
            self._problem = ClosedError(f"the {self._what} is closed")
            self._driver.close()
            self._keeper_wake.wake()
            self._keeper_wake.close()
            warnings.warn(
                f"a {self._what} was not closed; use a with statement, or call close",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )


def _run(reference: weakref.ref[Shell]) -> None:
    """Work until the shell is closed or garbage. No reference to it is kept while this waits."""
    while True:
        shell = reference()
        if shell is None:
            return
        turn = shell._keeper_turn()
        del shell
        if turn is None:
            return
        wait(*turn)


class Forkable(Protocol):
    """An object that cannot be used in a child process."""

    def forked(self) -> None:
        """Refuse to be used, in the child."""
        ...


_shells: weakref.WeakSet[Forkable] = weakref.WeakSet()


def refuse_after_fork(shell: Forkable) -> None:
    """Call `forked` of an object in each child process."""
    _shells.add(shell)


def made_before_fork(what: str) -> ClosedError:
    """Return the error of an object in a child process."""
    return ClosedError(
        f"the {what} was made before a fork, and cannot be used in the child process",
        "Make it in the process that uses it.",
    )


def _after_fork() -> None:
    for each in list(_shells):
        each.forked()


os.register_at_fork(after_in_child=_after_fork)
