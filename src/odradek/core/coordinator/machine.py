"""The interface between a coordinator's state machine and the runtime."""

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
"""Replays a record while a log is loaded. The arguments are offset, producer id, key and value.

Returns False if it has not replayed the record. Then the runtime decodes the record and passes it
to `replay`.
"""


class Answer(NamedTuple):
    """A response to a waiting request. `ticket` identifies the request.

    The caller of the operation has created the ticket.
    """

    ticket: Any
    response: Any


class Task(NamedTuple):
    """Work that takes too long for the event loop.

    `work` runs in a thread and must not use the state of the state machine. Its result, or the
    exception that it raised, is passed to `done`, which runs as an operation. If a task with the
    same key is running, the new task is dropped.
    """

    key: Any
    work: Callable[[], Any]
    done: Callable[[Any], CoordinatorResult[None]]


class Effects:
    """What the runtime must do after an operation: send `answers`, then start `tasks`.

    The runtime removes the entries.
    """

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
        """Send a response to a waiting request. Do nothing if the ticket is None."""
        if ticket is not None:
            self.answers.append(Answer(ticket, response))


class CoordinatorMachine(Protocol):
    """The state machine of one partition of a coordinator's topic.

    Its operations are not part of this interface.
    """

    journal: Journal
    timers: TimerTable
    effects: Effects
    messages: KeyMessages
    """The types of the records in the log."""
    quick_replay: QuickReplay | None
    """A fast replay function for the most common form of records; None if there is none."""

    def replay(
        self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord
    ) -> None:
        """Apply a record. `producer_id` is -1 if the record is not part of a transaction."""
        ...

    def replay_end_of_transaction(
        self, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """Apply the end of a producer's transaction."""
        ...

    def on_loaded(self, image: MetadataImage) -> None:
        """Schedule timers. The runtime calls this after the log is loaded, before any operation."""
        ...

    def on_unloaded(self) -> None:
        """Send errors to all waiting requests, because this broker is no longer the coordinator."""
        ...

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed broker settings."""
        ...

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a metadata change."""
        ...
