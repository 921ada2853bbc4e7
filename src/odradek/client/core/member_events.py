"""What a member of a group has to tell its user. The user answers each event.

    machine:  poll ... (waits in its state, heartbeats go on) ................ poll
    user:              take_event --> works on it, as long as it takes --> done

An assignment is in effect from the moment the user takes `Assigned`. Partitions are given up when the
user has answered `Revoked` or `Lost`; from the moment it takes the event, it must not hand out their
records any more.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from odradek.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Assigned:
    """The member has got these partitions, in addition to those that it has."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The member gives up these partitions. Their offsets can still be committed."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """The group has taken these partitions away. Others may have them: no offset can be committed."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """The member is in a generation of a group whose protocol this client does not know."""

    generation_id: int
    protocol_name: str
    is_leader: bool
    assignment: bytes


MemberEvent = Assigned | Revoked | Lost | Joined


class Events:
    """The events that the user has not answered, in order. The user works on one at a time."""

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[MemberEvent] = deque()
        self._taken: MemberEvent | None = None

    def __bool__(self) -> bool:
        return self._taken is not None or bool(self._waiting)

    def add(self, *events: MemberEvent) -> None:
        """Add events."""
        self._waiting.extend(events)

    def take(self) -> MemberEvent | None:
        """Return the next event; None if there is none, or one is being worked on."""
        if self._taken is None and self._waiting:
            self._taken = self._waiting.popleft()
            return self._taken
        return None

    def done(self, event: MemberEvent) -> None:
        """Note that the user has answered.

        Raises:
            ValueError: the user has not taken this event.
        """
        if event is not self._taken:
            raise ValueError(f"{event} was not taken, or was answered before")
        self._taken = None

    def drop_waiting(self) -> None:
        """Forget the events that the user has not taken."""
        self._waiting.clear()
