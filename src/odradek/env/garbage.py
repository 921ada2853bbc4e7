"""Keeps garbage collections short.

Python's collector looks at all objects that refer to others, again and again while their number
grows. With ten thousand connections, one collection takes 40 ms, in which the event loop serves
nobody. Almost all of these objects are not garbage. Therefore, after a long collection, the objects
that have survived it are excluded from later ones. They are still freed when nothing refers to them;
only if they become part of a cycle of references, their memory is lost.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter

LONG_SECONDS = 0.002
THRESHOLD_2 = 3
"""After so many collections of the two younger generations, the oldest one is collected if it has grown
by a quarter. The default of Python is 10. Then the collection takes up to 8 ms."""


class CollectionLimiter:
    """Excludes the survivors of each long collection from the next collections."""

    def __init__(
        self,
        clock: Callable[[], float] = perf_counter,
        exclude: Callable[[], object] = gc.freeze,
    ) -> None:
        """`clock` returns seconds. `exclude` excludes all existing objects."""
        self._clock = clock
        self._exclude = exclude
        self._began = 0.0

    def watch(self) -> None:
        """Exclude all objects that exist, and watch the collections of this process from now on.

        What is garbage already stays. A node that starts has almost none, and to look for it takes
        as long as a tenth of the start.
        """
        gc.freeze()
        gc.collect()  # The collector notes that it has nothing to look at.
        gc.set_threshold(*gc.get_threshold()[:2], THRESHOLD_2)
        gc.callbacks.append(self.on_collection)

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Note that a collection has begun or ended (see `gc.callbacks`)."""
        if phase == "start":
            self._began = self._clock()
        elif info["generation"] == 2 and self._clock() - self._began > LONG_SECONDS:
            self._exclude()
