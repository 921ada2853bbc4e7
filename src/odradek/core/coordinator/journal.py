"""Rolls back changes whose records could not be written to the log.

State is changed when records are added to a batch, so that the next operation sees it; the batch is
written later. Until then the journal keeps the previous value of every changed item of durable
state. When the write succeeds, the entries are dropped; when it fails, they are applied in reverse
order.
"""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from typing import Any, Final, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

_ABSENT: Final[Any] = object()


class Journal:
    """The previous values. `recording` is False while a log is loaded."""

    __slots__ = ("_notes", "recording")

    def __init__(self) -> None:
        self._notes: list[tuple[Any, Any, Any]] = []
        self.recording = True

    def pause(self) -> None:
        """Stop recording changes: replayed records are already in the log."""
        self.recording = False

    def resume(self) -> None:
        """Record changes again."""
        self.recording = True

    def __len__(self) -> int:
        return len(self._notes)

    def put(self, mapping: MutableMapping[KeyT, ValueT], key: KeyT, value: ValueT) -> ValueT | None:
        """`mapping[key] = value`; returns the previous value."""
        before = mapping.get(key, _ABSENT)
        if self.recording:
            self._notes.append((mapping, key, before))
        mapping[key] = value
        return None if before is _ABSENT else before

    def remove(self, mapping: MutableMapping[KeyT, ValueT], key: KeyT) -> ValueT | None:
        """`del mapping[key]` if it is there; returns the previous value."""
        before = mapping.pop(key, _ABSENT)
        if before is _ABSENT:
            return None
        if self.recording:
            self._notes.append((mapping, key, before))
        return before  # type: ignore[no-any-return]

    def assign(self, owner: object, name: str, value: object) -> None:
        """`owner.name = value`."""
        if self.recording:
            self._notes.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def commit(self) -> None:
        """Drop the entries: the changes are in the log."""
        if self._notes:
            self._notes.clear()

    def roll_back(self) -> None:
        """Undo the changes, the last one first."""
        notes, self._notes = self._notes, []
        notes.reverse()
        for owner, key, before in notes:
            if not isinstance(owner, MutableMapping):
                setattr(owner, key, before)
            elif before is _ABSENT:
                owner.pop(key, None)
            else:
                owner[key] = before
