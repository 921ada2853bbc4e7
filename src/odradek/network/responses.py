"""The order of the responses of one connection.

Responses are sent in the order of the requests. A request whose response is not ready opens a
`Slot`; responses to later requests wait behind it. While there are slots, no further request is
dispatched, as in Apache Kafka, except Produce requests behind deferred Produce requests: their
order is fixed when they are appended, and only the response comes later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.env.file_range import FileRange

Part = bytes | bytearray | memoryview | FileRange
"""Part of a response: bytes, or a range of a file that is sent without a copy."""


class Slot:
    """The place of a response that is not ready."""

    __slots__ = ("_on_completed", "parts")

    def __init__(
        self, on_completed: Callable[[], None] | None = None, parts: list[Part] | None = None
    ) -> None:
        self._on_completed = on_completed
        self.parts = parts
        """None until the slot is completed."""

    def complete(self, parts: list[Part]) -> None:
        """Set the response; empty for a request that gets none."""
        assert self.parts is None, "a request is answered once"
        self.parts = parts
        if self._on_completed is not None:
            self._on_completed()


class ResponseOrder:
    """See the module."""

    __slots__ = ("overlaps", "slots")

    def __init__(self) -> None:
        self.slots: deque[Slot] | None = None
        """None if no response waits."""
        self.overlaps = False
        """Whether there are slots and all belong to Produce requests."""

    @property
    def blocks(self) -> bool:
        """Whether no request may be dispatched, not even Produce."""
        return self.slots is not None and not self.overlaps

    def open(self, overlap: bool, on_completed: Callable[[], None]) -> Slot:
        """Return a new last slot. With `overlap`, Produce requests may follow.

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
        """Add a ready response behind the open slots."""
        assert self.slots is not None
        self.slots.append(Slot(parts=parts))

    def take_ready(self) -> list[Part]:
        """Remove and return the parts of the responses that wait for no earlier one."""
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
