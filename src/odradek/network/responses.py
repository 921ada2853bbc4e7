"""The order of the responses of one connection.

Responses are sent in the order of the requests. A `Slot` is the place of a response that is not
ready. Responses to later requests wait until the slot is completed.

While there are slots, no further request is dispatched, as in Apache Kafka. There is one exception:
if all slots belong to Produce requests, further Produce requests are dispatched. Their order is
correct, because the records are appended when the request is dispatched. Only the response is sent
later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.env.file_range import FileRange

Part = bytes | bytearray | memoryview | FileRange
"""A part of a response: bytes, or a range of a file."""


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
        """Set the response. `parts` is empty if the request gets no response."""
        assert self.parts is None, "a request is answered once"
        self.parts = parts
        if self._on_completed is not None:
            self._on_completed()


class ResponseOrder:
    """The slots of one connection, and the responses that wait for them."""

    __slots__ = ("overlaps", "slots")

    def __init__(self) -> None:
        self.slots: deque[Slot] | None = None
        """The slots in the order of the requests; None if there is no slot."""
        self.overlaps = False
        """Whether there are slots, and all of them belong to Produce requests."""

    @property
    def blocks(self) -> bool:
        """Whether no request may be dispatched, not even a Produce request."""
        return self.slots is not None and not self.overlaps

    def open(self, overlap: bool, on_completed: Callable[[], None]) -> Slot:
        """Add a slot after all other slots. With `overlap`, Produce requests may follow.

        `on_completed` is called when the slot is completed.
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
        """Add a ready response after the open slots."""
        assert self.slots is not None
        self.slots.append(Slot(parts=parts))

    def take_ready(self) -> list[Part]:
        """Remove and return the parts of all responses that need not wait for an earlier one."""
        ready: list[Part] = []
        slots = self.slots
        while slots and (parts := slots[0].parts) is not None:
            ready += parts
            slots.popleft()
        if not slots:
            self.clear()
        return ready

    def clear(self) -> None:
        """Remove all slots. Their completion has no effect on this object."""
        self.slots = None
        self.overlaps = False
