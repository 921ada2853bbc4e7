"""A lock that Ctrl-C does not interrupt while it is held.

KeyboardInterrupt may come between any two steps of interpreted code. Then half of a change would have
been made: a batch that no queue has, or half a record; or the lock would never be released. So SIGINT
only leaves a note while the main thread has the lock. `release` then calls the handler that was there
before: Python's own, or another one that raises, as that of a Spark session.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

_MAIN = threading.main_thread()

Handler = Callable[[int, FrameType | None], object]


class Exclusive:
    """The lock of an object. It is never held while somebody waits for the network."""

    def __init__(self) -> None:
        self.plain = threading.Lock()
        """The lock alone, for compiled code, which Ctrl-C does not interrupt."""
        self._owner = 0
        self._held_back: Handler | None = None
        """The handler of SIGINT that `release` restores."""
        self._is_interrupted = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait for the lock, and hold Ctrl-C back."""
        held_back: Handler | None = None
        if threading.get_ident() == _MAIN.ident:
            handler = signal.getsignal(signal.SIGINT)
            # Inside the lock of another object, Ctrl-C is held back already.
            if callable(handler) and not isinstance(getattr(handler, "__self__", None), Exclusive):
                signal.signal(signal.SIGINT, self._note)
                held_back = handler
        self.plain.acquire()
        self._owner = threading.get_ident()
        self._held_back = held_back

    def release(self) -> None:
        """Release the lock, if this thread has it.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed meanwhile. (Or what the handler raises.)
        """
        if self._owner != threading.get_ident():
            return
        held_back, self._held_back = self._held_back, None
        self._owner = 0
        self.plain.release()
        if held_back is not None:
            signal.signal(signal.SIGINT, held_back)
            is_interrupted, self._is_interrupted = self._is_interrupted, False
            if is_interrupted:
                held_back(signal.SIGINT, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_interrupted = True
