"""A small state machine of a coordinator for tests: it stores a number for each name."""

from __future__ import annotations

from typing import Any

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.machine import Effects, Task
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.records import MESSAGES, offset_commit, offset_tombstone
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.offset_commit_value import OffsetCommitValue


def entry(name: str, number: int, text: str = "") -> CoordinatorRecord:
    return offset_commit(name, "topic", 0, OffsetCommitValue(offset=number, metadata=text))


class Ledger:
    def __init__(self, clock: Any) -> None:
        self.journal = Journal()
        self.timers = TimerTable(clock.monotonic_ms)
        self.effects = Effects()
        self.messages = MESSAGES
        self.quick_replay = None
        self.numbers: dict[str, int] = {}
        self.pending: dict[int, dict[str, int]] = {}
        self.offsets: list[int] = []
        self.heard: list[Any] = []

    # questions

    def put(self, name: str, number: int, text: str = "") -> CoordinatorResult[str]:
        if number < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        return CoordinatorResult([entry(name, number, text)], f"{name}={number}")

    def put_all(self, numbers: dict[str, int], *, atomic: bool = True) -> CoordinatorResult[int]:
        records = [entry(name, number) for name, number in numbers.items()]
        return CoordinatorResult(records, len(records), atomic=atomic, on_commit=self.heard.append)

    def drop(self, name: str) -> CoordinatorResult[None]:
        return CoordinatorResult([offset_tombstone(name, "topic", 0)], None)

    def look(self, name: str) -> CoordinatorResult[int | None]:
        return CoordinatorResult((), self.numbers.get(name))

    def break_down(self) -> CoordinatorResult[None]:
        return CoordinatorResult([entry("defect", 13)], None)

    def put_later(self, name: str, number: int, delay_ms: int) -> CoordinatorResult[None]:
        self.timers.schedule(name, delay_ms, self.put, name, number, retry_ms=1000)
        return CoordinatorResult((), None)

    def put_computed(self, name: str, work: Any) -> CoordinatorResult[None]:
        self.effects.tasks.append(Task(name, work, lambda number: self._computed(name, number)))
        return CoordinatorResult((), None)

    def _computed(self, name: str, number: Any) -> CoordinatorResult[None]:
        self.heard.append(number)
        if isinstance(number, Exception):
            return CoordinatorResult((), None)
        return CoordinatorResult([entry(name, number)], None)

    def keep_waiting(self, ticket: Any) -> CoordinatorResult[None]:
        self.timers.schedule("answer", 50, self._answer, ticket)
        return CoordinatorResult((), None)

    def _answer(self, ticket: Any) -> CoordinatorResult[None]:
        self.effects.answer(ticket, "now")
        return CoordinatorResult((), None)

    # what the runtime tells

    def replay(
        self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord
    ) -> None:
        name = record.key.group
        if record.value is None:
            self.journal.remove(self.numbers, name)
            return
        assert name != "defect"
        numbers = self.numbers
        if producer_id >= 0:
            numbers = self.pending.get(producer_id, {})
            self.journal.put(self.pending, producer_id, numbers)
        self.journal.put(numbers, name, record.value.offset)
        self.offsets.append(offset)

    def replay_end_of_transaction(
        self, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        numbers = self.journal.remove(self.pending, producer_id) or {}
        for name, number in numbers.items():
            if committed:
                self.journal.put(self.numbers, name, number)

    def on_loaded(self, image: Any) -> None:
        self.heard.append("loaded")

    def on_unloaded(self) -> None:
        self.heard.append("unloaded")

    def update_config(self, config: Any) -> None:
        self.heard.append(config)

    def on_metadata(self, delta: Any, image: Any) -> None:
        self.heard.append(image)
