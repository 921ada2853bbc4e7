"""The result of an operation: records and a response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.model.errors import ApiError

ResponseT_co = TypeVar("ResponseT_co", covariant=True)

OnCommit = Callable[[ApiError | None], None]
"""Called with None when the records are committed, or with the error."""

NO_RECORDS: Final[Sequence[CoordinatorRecord]] = ()


class CoordinatorResult(Generic[ResponseT_co]):
    """A decision. Without records, the response still waits for all earlier writes.

    `replay`: False if the machine has already changed its state, because the records only describe
    it (the members of a classic group). `atomic`: all records must be in one batch. `on_commit`:
    called after the commit; it may send responses to waiting requests.
    """

    __slots__ = ("atomic", "on_commit", "records", "replay", "response")

    def __init__(
        self,
        records: Sequence[CoordinatorRecord],
        response: ResponseT_co,
        *,
        replay: bool = True,
        atomic: bool = True,
        on_commit: OnCommit | None = None,
    ) -> None:
        self.records = records
        self.response = response
        self.replay = replay
        self.atomic = atomic
        self.on_commit = on_commit


PackedResult = tuple[Sequence[tuple[bytes, bytes]], Callable[[int], None]]
"""A common decision: its records as encoded keys and values, and a function that replays them
all, given the first offset. The response reports success."""


NOTHING: Final[CoordinatorResult[None]] = CoordinatorResult(NO_RECORDS, None)
"""No records and no response."""
