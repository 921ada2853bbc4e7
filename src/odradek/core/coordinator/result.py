"""The result of a state machine's operation: records and a response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.model.errors import ApiError

ResponseT_co = TypeVar("ResponseT_co", covariant=True)

OnCommit = Callable[[ApiError | None], None]
"""Called with None when the records are committed, or with an error if this fails."""

NO_RECORDS: Final[Sequence[CoordinatorRecord]] = ()


class CoordinatorResult(Generic[ResponseT_co]):
    """The records and the response of one operation.

    If there are no records, the response is still delayed until all earlier records are committed.

    `replay` is False if the records must not be replayed, because the operation has already changed
    the state (the members of a classic group). If `atomic` is True, all records must be in one
    batch. `on_commit` is called when the records are committed or have failed. It may send
    responses to waiting requests.
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
"""A result with encoded records, for operations that are frequent.

It has the encoded keys and values, and a function that replays all records. The argument of the
function is the offset of the first record. There is no response, because an operation that returns
a result has succeeded.
"""


NOTHING: Final[CoordinatorResult[None]] = CoordinatorResult(NO_RECORDS, None)
"""No records and no response."""
