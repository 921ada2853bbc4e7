"""Changes to an immutable mapping, gathered before the next one is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class MapChanges(Generic[KeyT, ValueT]):
    """What is put into and removed from `before`, newest per key.

    `changed` may be read by anyone: by key the new value, or None where the key is removed.
    """

    __slots__ = ("before", "changed")

    def __init__(self, before: Mapping[KeyT, ValueT]) -> None:
        self.before = before
        self.changed: dict[KeyT, ValueT | None] = {}

    def get(self, key: KeyT) -> ValueT | None:
        """The value as it is now; None if there is none."""
        if key in self.changed:
            return self.changed[key]
        return self.before.get(key)

    def put(self, key: KeyT, value: ValueT) -> None:
        """Set the value of a key."""
        self.changed[key] = value

    def remove(self, key: KeyT) -> None:
        """Make a key absent; nothing is noted of one that came and went within the delta."""
        if key in self.before:
            self.changed[key] = None
        else:
            self.changed.pop(key, None)

    def remove_unmentioned(self) -> None:
        """Make every key absent that was not put: the end of a snapshot."""
        for key in self.before:
            if key not in self.changed:
                self.changed[key] = None

    def apply(self) -> Mapping[KeyT, ValueT]:
        """The mapping with the changes made; `before` itself if there are none."""
        if not self.changed:
            return self.before
        after = dict(self.before)
        for key, value in self.changed.items():
            if value is None:
                after.pop(key, None)
            else:
                after[key] = value
        return after
