"""What a machine answers: records and a response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.model.errors import ApiError

ResponseT_co = TypeVar("ResponseT_co", covariant=True)

OnCommit = Callable[[ApiError | None], None]
"""Called with None when the records are committed, or with what went wrong instead."""

NO_RECORDS: Sequence[CoordinatorRecord] = ()


class CoordinatorResult(Generic[ResponseT_co]):
    """A decision. Without records the response still waits for whatever was written before.

    `replay`: False where the machine has changed its state already, because the records only
    describe what is not theirs to change (the members of a classic group).
    `atomic`: all records in one batch, or none.
    `on_commit`: the machine goes on here; it may answer whom it has kept waiting.
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
"""A decision of the usual kind: its records as key and value in bytes, and what replays them all,
given the offset of the first. The answer is that all is well."""


NOTHING: CoordinatorResult[None] = CoordinatorResult(NO_RECORDS, None)
"""No records and no response."""
