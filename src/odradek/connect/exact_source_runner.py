"""Runs a source task exactly once (KIP-618): does what `core.connect.exact_source_machine` decides."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from odradek.client.errors import RequestTimeoutError
from odradek.connect.runner import Listener, now_ms
from odradek.connect.source_runner import Json, SourceRunner
from odradek.core.connect import task_messages as m
from odradek.core.connect.api import TransactionContext
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.exact_source_machine import ExactSourceMachine
from odradek.core.connect.records import SourceRecord
from odradek.core.connect.source_task import Boundary, Transactions

log = logging.getLogger(__name__)

_INIT_SECONDS = 1.0


class Guard(NamedTuple):
    """What is asked before a task may write."""

    fence: Callable[[Callable[[], bool]], None]
    """Fences the tasks of earlier configurations. The argument says whether to stop waiting."""
    check: Callable[[], Future[Any]]
    """Fails if the task is not this worker's any more, or has a newer configuration."""


class Ends:
    """How a task ends its transactions (`TransactionContext`)."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """See `TransactionContext`."""
        self._transactions.ask(record, is_commit=True)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """See `TransactionContext`."""
        self._transactions.ask(record, is_commit=False)


class ExactSourceRunner(SourceRunner):
    """See the module."""

    def __init__(
        self,
        task: TaskId,
        state: TargetState,
        listener: Listener,
        *,
        guard: Guard,
        boundary: Boundary,
        interval_ms: int,
        **named: Any,
    ) -> None:
        super().__init__(task, state, listener, **named)
        self._close_s = 0.0  # what is not committed is aborted by the next producer
        self._guard = guard
        self._exact = ExactSourceMachine(
            task, state, interval_ms, boundary=boundary, now_ms=now_ms()
        )
        self.machine = self._exact

    def _transaction_context(self) -> TransactionContext | None:
        transactions = self._exact.transactions
        return Ends(transactions) if transactions.boundary == Boundary.CONNECTOR else None

    def _do(self, wanted: m.Asking) -> Any:
        match wanted:
            case m.Fence():
                return self._guard.fence(self._stopping.is_set)
            case m.TakeId():
                return self._take_id()
            case m.CheckTask():
                return self._guard.check()
            case m.BeginTransaction():
                return self.producer.begin_transaction()
            case m.CommitTransaction(_, offsets):
                return self._commit(offsets)
            case m.AbortTransaction():
                return self.producer.abort_transaction()
            case m.CopyOffsets(_, offsets):
                return self._copy_offsets(offsets)
            case _:
                return super()._do(wanted)

    def _take_id(self) -> bool:
        """Fence the earlier producer of this task. Return False if that takes longer."""
        try:
            self.producer.init_transactions(_INIT_SECONDS)
        except RequestTimeoutError as error:
            log.info("task %s waits for its transactional id: %s", self.task, error)
            return False
        return True

    def _commit(self, offsets: Sequence[tuple[Json, Json]]) -> None:
        """Write the offsets, and commit."""
        for key, value in self._offsets.encoded(self.task.connector, offsets):
            self.producer.send(self._offsets.topic, value, key=key)
        self.producer.commit_transaction()

    def _copy_offsets(self, offsets: Sequence[tuple[Json, Json]]) -> None:
        """Write the offsets to the worker's topic, too, if the connector has its own."""
        copy = getattr(self._offsets, "written", None)
        if copy is not None:
            copy(self.task.connector, offsets)
