"""Undoes changes whose records could not be written to the log.

State is changed when records are added to a batch, so that the next operation sees the change. The
batch is written later. Until then the journal keeps the previous value of every changed item of
durable state. When the write succeeds, the journal drops these values. When the write fails, the
journal restores them in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, Final, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

_ABSENT: Final[Any] = object()
_CALL: Final[Any] = object()
"""Stands for the owner of an item that is restored by a call."""


class Journal:
    """The previous values of changed items. `recording` is False while a log is loaded."""

    __slots__ = ("_notes", "recording")

    def __init__(self) -> None:
        self._notes: list[tuple[Any, Any, Any]] = []
        self.recording = True

    def pause(self) -> None:
        """Stop recording changes. Call this before a log is loaded."""
        self.recording = False

    def resume(self) -> None:
        """Record changes again."""
        self.recording = True

    def __len__(self) -> int:
        return len(self._notes)

    def put(self, mapping: MutableMapping[KeyT, ValueT], key: KeyT, value: ValueT) -> ValueT | None:
        """Set `mapping[key] = value`. Return the previous value, or None."""
        before = mapping.get(key, _ABSENT)
        if self.recording:
            self._notes.append((mapping, key, before))
        mapping[key] = value
        return None if before is _ABSENT else before

    def remove(self, mapping: MutableMapping[KeyT, ValueT], key: KeyT) -> ValueT | None:
        """Remove `key` from the mapping, if it exists. Return its value, or None."""
        before = mapping.pop(key, _ABSENT)
        if before is _ABSENT:
            return None
        if self.recording:
            self._notes.append((mapping, key, before))
        return before  # type: ignore[no-any-return]

    def assign(self, owner: object, name: str, value: object) -> None:
        """Set `owner.name = value`."""
        if self.recording:
            self._notes.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def on_roll_back(self, restore: Callable[[], None]) -> None:
        """Call `restore` if the change that is about to be recorded is undone."""
        self._notes.append((_CALL, restore, None))

    def commit(self) -> None:
        """Drop the previous values, because the changes are in the log."""
        if self._notes:
            self._notes.clear()

    def roll_back(self) -> None:
        """Undo all recorded changes in reverse order."""
        notes, self._notes = self._notes, []
        notes.reverse()
        for owner, key, before in notes:
            if owner is _CALL:
                key()
            elif not isinstance(owner, MutableMapping):
                setattr(owner, key, before)
            elif before is _ABSENT:
                owner.pop(key, None)
            else:
                owner[key] = before
