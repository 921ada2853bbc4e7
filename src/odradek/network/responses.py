"""The order of the responses of one connection.

Responses leave in the order of the requests. A request that cannot be answered at once opens a
`Slot`; responses to later requests wait behind it. While there are slots, no further request is
dispatched, as in Apache Kafka, except Produce requests behind deferred Produce requests: their
order is fixed when they are appended, and only the acknowledgement is late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.env.file_range import FileRange

Part = bytes | bytearray | memoryview | FileRange
"""Of a response: bytes, or a range of a file that is sent without a copy."""


class Slot:
    """The place of a response that does not exist yet."""

    __slots__ = ("_on_completed", "parts")

    def __init__(
        self, on_completed: Callable[[], None] | None = None, parts: list[Part] | None = None
    ) -> None:
        self._on_completed = on_completed
        self.parts = parts
        """None until the slot is completed."""

    def complete(self, parts: list[Part]) -> None:
        """Give the response; empty for a request that gets none."""
        assert self.parts is None, "a request is answered once"
        self.parts = parts
        if self._on_completed is not None:
            self._on_completed()


class ResponseOrder:
    """See the module."""

    __slots__ = ("overlaps", "slots")

    def __init__(self) -> None:
        self.slots: deque[Slot] | None = None
        """None if no response has to wait."""
        self.overlaps = False
        """Whether there are slots, all of them of Produce requests."""

    @property
    def blocks(self) -> bool:
        """Whether no request may be dispatched, not even Produce."""
        return self.slots is not None and not self.overlaps

    def open(self, overlap: bool, on_completed: Callable[[], None]) -> Slot:
        """A slot behind all others. With `overlap` Produce requests may follow.

        `on_completed` is called when it is completed.
        """
        slot = Slot(on_completed)
        if self.slots is None:
            self.slots = deque()
            self.overlaps = overlap
        else:
            self.overlaps &= overlap
        self.slots.append(slot)
        return slot

    def add(self, parts: list[Part]) -> None:
        """A response that is ready, and waits behind the slots."""
        assert self.slots is not None
        self.slots.append(Slot(parts=parts))

    def take_ready(self) -> list[Part]:
        """The parts of the responses whose turn has come; they are forgotten here."""
        ready: list[Part] = []
        slots = self.slots
        while slots and (parts := slots[0].parts) is not None:
            ready += parts
            slots.popleft()
        if not slots:
            self.clear()
        return ready

    def clear(self) -> None:
        """Forget all slots; completing them has no effect here."""
        self.slots = None
        self.overlaps = False
