"""A lock that Ctrl-C does not interrupt while it is held.

KeyboardInterrupt may come between any two steps of interpreted code. Then half of a change would have
been made: a batch that no queue has, or half a record. So SIGINT only leaves a note while the main thread
has the lock. `release` raises KeyboardInterrupt. This is done only if SIGINT has Python's usual
handler; other handlers should not raise exceptions.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

_MAIN = threading.main_thread()


class Exclusive:
    """The lock of an object. It is never held while somebody waits for the network."""

    def __init__(self) -> None:
        self.plain = threading.Lock()
        """The lock alone, for compiled code, which Ctrl-C does not interrupt."""
        self._owner = 0
        self._is_noting = False
        self._is_interrupted = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait for the lock, and hold Ctrl-C back."""
        is_noting = False
        if threading.get_ident() == _MAIN.ident:
            is_noting = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if is_noting:
                signal.signal(signal.SIGINT, self._note)
        self.plain.acquire()
        self._owner = threading.get_ident()
        self._is_noting = is_noting

    def release(self) -> None:
        """Release the lock, if this thread has it.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed meanwhile.
        """
        if self._owner != threading.get_ident():
            return
        is_noting = self._is_noting
        self._is_noting = False
        self._owner = 0
        self.plain.release()
        if is_noting:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            is_interrupted, self._is_interrupted = self._is_interrupted, False
            if is_interrupted:
                raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_interrupted = True
