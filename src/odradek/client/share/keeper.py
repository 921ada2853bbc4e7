"""The thread that keeps the locks of a share consumer while the user's handlers run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from weakref import WeakMethod

from odradek.client.errors import ClientError

log = logging.getLogger(__name__)

PAUSE_SECONDS_MAX = 1.0
"""The longest time between two calls."""


class Keeper:
    """A thread that calls a method again and again, from `begin` to `end`.

    `pause_seconds` returns the time between two calls. The thread also ends when the object of the
    methods is garbage: a consumer that nobody has closed must not keep its records locked forever.

    Errors that may pass are only logged: the user gets them in the results. A permanent error is
    kept until `take_error` returns it.
    """

    def __init__(self, keep: Callable[[], None], pause_seconds: Callable[[], float]) -> None:
        self._keep = WeakMethod(keep)
        self._pause_seconds = WeakMethod(pause_seconds)
        self._thread = threading.Thread(target=self._run, name="share consumer", daemon=True)
        self._must_end = threading.Event()
        self._error: ClientError | None = None

    @property
    def is_current(self) -> bool:
        """Whether this thread is running the caller."""
        return threading.current_thread() is self._thread

    def take_error(self) -> ClientError | None:
        """Return the last permanent error, once."""
        error, self._error = self._error, None
        return error

    def begin(self) -> None:
        """Start the thread, unless it was started."""
        if self._thread.ident is None:
            self._thread.start()

    def end(self) -> None:
        """End the thread, and wait for it."""
        self._must_end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _pause(self) -> float:
        pause_seconds = self._pause_seconds()
        return 0.0 if pause_seconds is None else min(PAUSE_SECONDS_MAX, pause_seconds())

    def _run(self) -> None:
        while not self._must_end.wait(self._pause()):
            keep = self._keep()
            if keep is None:
                return
            try:
                keep()
            except ClientError as error:
                log.debug("the locks of a share consumer cannot be renewed: %s", error)
                if not error.retriable:
                    self._error = error
            del keep
