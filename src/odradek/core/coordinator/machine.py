"""The interface between a coordinator's machine and the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from odradek.config.broker_config import BrokerConfig
from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.record import CoordinatorRecord, KeyMessages
from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.coordinator.timers import TimerTable
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage

QuickReplay = Callable[[int, int, bytes | None, bytes | None], bool]
"""Replays a record (offset, producer id, key, value) while a log is loaded.

Returns False if the record must be decoded and passed to `replay`.
"""


class Answer(NamedTuple):
    """The response to a waiting request. `ticket` is the one that was passed to the operation."""

    ticket: Any
    response: Any


class Task(NamedTuple):
    """Work that takes too long for the event loop. `work` runs in a thread and may use no state.

    Its result, or the exception that it raised, is passed to `done`, which returns records. At most
    one task per key runs at a time; a second one with the same key is dropped.
    """

    key: Any
    work: Callable[[], Any]
    done: Callable[[Any], CoordinatorResult[None]]


class Effects:
    """What the runtime must do after each operation, in this order; it removes the entries."""

    __slots__ = ("answers", "tasks")

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.tasks: list[Task] = []

    def take_answers(self, count: int) -> list[Answer]:
        """Remove and return the oldest `count` responses."""
        taken = self.answers[:count]
        del self.answers[:count]
        return taken

    def take_tasks(self) -> list[Task]:
        """Remove and return all tasks."""
        taken, self.tasks = self.tasks, []
        return taken

    def answer(self, ticket: Any, response: Any) -> None:
        """Send the response of a waiting request; does nothing if the ticket is None."""
        if ticket is not None:
            self.answers.append(Answer(ticket, response))


class CoordinatorMachine(Protocol):
    """The state of one partition of a coordinator's topic. Operations are its other methods."""

    journal: Journal
    timers: TimerTable
    effects: Effects
    messages: KeyMessages
    """The types of records in its log."""
    quick_replay: QuickReplay | None
    """Replays records of the most common form without decoding; None if there is no such form."""

    def replay(
        self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord
    ) -> None:
        """Apply a record; `producer_id` is -1 outside of transactions."""
        ...

    def replay_end_of_transaction(
        self, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """Apply the end of a producer's transaction."""
        ...

    def on_loaded(self, image: MetadataImage) -> None:
        """Called when the log is replayed, before the first operation; schedules timers."""
        ...

    def on_unloaded(self) -> None:
        """Called when another broker becomes the coordinator.

        Sends errors to all waiting requests.
        """
        ...

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed broker settings."""
        ...

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a metadata change."""
        ...
