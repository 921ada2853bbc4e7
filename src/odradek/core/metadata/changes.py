"""Collects changes to an immutable mapping, and creates the changed mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class MapChanges(Generic[KeyT, ValueT]):
    """The changes to the mapping `before`.

    `changed` maps each changed key to its newest value, or to None if the key was removed.
    """

    __slots__ = ("before", "changed")

    def __init__(self, before: Mapping[KeyT, ValueT]) -> None:
        self.before = before
        self.changed: dict[KeyT, ValueT | None] = {}

    def get(self, key: KeyT) -> ValueT | None:
        """Return the current value of a key; None if the key is missing."""
        if key in self.changed:
            return self.changed[key]
        return self.before.get(key)

    def put(self, key: KeyT, value: ValueT) -> None:
        """Set the value of a key."""
        self.changed[key] = value

    def remove(self, key: KeyT) -> None:
        """Remove a key. If the key is not in `before`, it also disappears from `changed`."""
        if key in self.before:
            self.changed[key] = None
        else:
            self.changed.pop(key, None)

    def remove_unmentioned(self) -> None:
        """Remove every key that has not changed. Call this at the end of a snapshot."""
        for key in self.before:
            if key not in self.changed:
                self.changed[key] = None

    def apply(self) -> Mapping[KeyT, ValueT]:
        """Return the changed mapping, or `before` if there are no changes."""
        if not self.changed:
            return self.before
        after = dict(self.before)
        for key, value in self.changed.items():
            if value is None:
                after.pop(key, None)
            else:
                after[key] = value
        return after
