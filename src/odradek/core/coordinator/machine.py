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
"""(offset, producer id, key, value) of a record while a log is loaded: whether it was replayed.
What was not is decoded, and given to `replay`."""


class Answer(NamedTuple):
    """An answer to a request that was kept waiting. `ticket` came with the operation."""

    ticket: Any
    response: Any


class Task(NamedTuple):
    """Work that takes too long for the event loop. `work` runs in a thread and may use no state.

    Its outcome, or the exception that it raised, is handed to `done`, which decides on records.
    One task of a key runs at a time; another one of the same key is dropped.
    """

    key: Any
    work: Callable[[], Any]
    done: Callable[[Any], CoordinatorResult[None]]


class Effects:
    """What the runtime has to do after each operation, in this order; it takes the entries."""

    __slots__ = ("answers", "tasks")

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.tasks: list[Task] = []

    def take_answers(self, count: int) -> list[Answer]:
        """Remove and return the oldest `count` answers."""
        taken = self.answers[:count]
        del self.answers[:count]
        return taken

    def take_tasks(self) -> list[Task]:
        """Remove and return all tasks."""
        taken, self.tasks = self.tasks, []
        return taken

    def answer(self, ticket: Any, response: Any) -> None:
        """Answer a request that waits; a ticket of None stands for none."""
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
    """Takes records of the commonest form as they are in the log; None: there is no such form."""

    def replay(
        self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord
    ) -> None:
        """Take a record; `producer_id` is -1 outside of transactions."""
        ...

    def replay_end_of_transaction(
        self, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """The producer's transaction is committed or aborted."""
        ...

    def on_loaded(self, image: MetadataImage) -> None:
        """The log is replayed; operations follow. Schedule timers."""
        ...

    def on_unloaded(self) -> None:
        """Another broker coordinates now. Answer all requests that wait."""
        ...

    def update_config(self, config: BrokerConfig) -> None:
        """The settings of the broker have changed."""
        ...

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The cluster has changed."""
        ...
