"""A source task as a machine: it polls, converts, sends, and stores the offsets of what is written.

    poll --> convert --> send ...... delivered --> store offsets --> commit
      ^                    |
      +--------------------+

`SourceMachine` stores offsets after the records (at least once); `exact_source_machine` in the same
transactions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from odradek.core.connect import task_messages as m
from odradek.core.connect.config_log import TargetState
from odradek.core.connect.errors import ConnectError, RetriableError
from odradek.core.connect.records import SourceRecord
from odradek.core.connect.source_task import Offset, Partition, SourceProgress
from odradek.core.connect.task_machine import Steps, TaskMachine, Wait

RELEASE_MS = 1_500
"""How long a task that stops may stay in `poll` before its `stop` is called."""


class SourceMachine(TaskMachine):
    """See the module."""

    def __init__(self, state: TargetState, interval_ms: int, *, is_tolerant: bool) -> None:
        """`interval_ms` is `offset.flush.interval.ms`. If it is tolerant, records may be lost."""
        super().__init__(state)
        self._interval_ms = interval_ms
        self._is_tolerant = is_tolerant
        self._progress = SourceProgress()
        self._offsets: dict[str, tuple[Partition, Offset]] = {}
        """What can be stored, by partition: all records before it are written."""
        self._commit_at_ms = 0
        self._written: list[tuple[SourceRecord, int | None]] = []
        """What the task is to hear of."""
        self._hears = False
        """Whether the task wants to hear of written records."""
        self._failure: Exception | None = None
        """The first record that was not written."""
        self._owes_commit = False
        """Whether offsets were stored while the task was in `poll`, so that `commit` could not be called."""
        self._is_released = False
        """Whether `stop` was called beside `poll`."""

    def _note_more(self, event: m.Event) -> None:
        if not isinstance(event, m.Delivered):
            super()._note_more(event)
            return
        for outgoing, offset, error in event.written:
            if error is not None and not self._is_tolerant:
                self._failure = self._failure or error
                continue
            if outgoing.submitted is not None:
                outgoing.submitted.written()
            self._note_written(outgoing.record, None if error is not None else offset)

    def _note_written(self, record: SourceRecord, offset: int | None) -> None:
        if self._hears:
            self._written.append((record, offset))

    # -- the procedure --------------------------------------------------------------------------

    def _live(self) -> Steps:
        yield from self._do(m.OpenOffsets)
        self._hears = yield from self._do(m.MakeTask)
        yield from self._do(m.OpenProducer)
        failure: Exception | None = None
        is_started = False
        try:
            yield from self._do(m.StartTask)
            is_started = True
            yield from self._loop()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            failure = error
        if is_started:
            yield from self._commit_finally()
        yield from self._stop_task()
        if failure is not None:
            raise failure

    def _stop_task(self) -> Steps:
        """Stop the task, also if its start has failed, as in Apache Kafka."""
        if not self._is_released:
            yield from self._do_quietly("it cannot be stopped", m.StopTask)

    def _loop(self) -> Steps:
        self._commit_at_ms = self._now_ms + self._interval_ms
        shown: str | None = None
        while not self._is_stopping:
            state = "PAUSED" if self._is_paused else "RUNNING"
            if state != shown:
                self._out.append(m.Tell(state))
                if shown is not None:
                    yield from self._change_state()
                shown = state
            if self._is_paused:
                yield from self._sleep(None)
                continue
            records = yield from self._poll()
            yield from self._send(records)
            yield from self._serve()

    def _poll(self) -> Steps:
        """Return the next records. While the task is in `poll`, offsets are stored when it is time."""
        token = self._ask(m.Poll)
        release_at_ms: int | None = None
        while not self._is_done(token):
            due = (self._store_at_ms(), None if self._is_released else release_at_ms)
            until_ms = min((each for each in due if each is not None), default=None)
            yield Wait(token, until_ms, wakes=True)
            self._check()
            store_at_ms = self._store_at_ms()
            if store_at_ms is not None and self._now_ms >= store_at_ms:
                self._owes_commit |= yield from self._store()
            if self._is_stopping and release_at_ms is None:
                release_at_ms = self._now_ms + RELEASE_MS
            elif (
                release_at_ms is not None
                and self._now_ms >= release_at_ms
                and not self._is_released
            ):
                self._is_released = True
                self._out.append(m.Release())
        try:
            return self._answer(token)
        except RetriableError as error:
            self._out.append(m.Warn("it is polled again", error))
            return ()

    def _store_at_ms(self) -> int | None:
        """Return when offsets are stored while the task is in `poll`."""
        return self._commit_at_ms

    def _check(self) -> None:
        if self._failure is not None:
            raise ConnectError(
                "Unrecoverable exception from producer send callback"
            ) from self._failure

    # -- records --------------------------------------------------------------------------------

    def _send(self, records: Sequence[SourceRecord]) -> Steps:
        if not records:
            return
        found: m.Converted = yield from self._do(lambda token: m.Convert(token, records))
        outgoing = []
        for record, encoded in zip(records, found.items, strict=False):
            submitted = self._progress.submit(record)
            if encoded is not None:
                outgoing.append(m.Outgoing(encoded, record, submitted))
                continue
            if submitted is not None:
                submitted.written()
            self._note_written(record, None)
        if outgoing:
            yield from self._do(lambda token: m.Send(token, outgoing))
        if found.error is not None:
            raise found.error

    def _serve(self) -> Steps:
        """Tell the task what is written, and commit if it is time."""
        self._check()
        yield from self._tell_written()
        if self._now_ms >= self._commit_at_ms:
            yield from self._commit()
        elif self._owes_commit:
            yield from self._commit_task()

    def _tell_written(self) -> Steps:
        told, self._written = self._written, []
        if told:
            yield from self._do_quietly(
                "it has failed to hear of written records",
                lambda token: m.TellWritten(token, told),
            )

    # -- commits --------------------------------------------------------------------------------

    def _change_state(self) -> Steps:
        """Do what belongs to a pause and to its end."""
        yield from self._commit()

    def _commit(self) -> Steps:
        """Wait for the records that are in flight, store the offsets, and tell the task."""
        yield from self._do(m.Flush)
        self._check()
        yield from self._tell_written()
        if (yield from self._store()):
            yield from self._commit_task()

    def _commit_task(self) -> Steps:
        self._owes_commit = False
        yield from self._do_quietly("its commit has failed", m.CommitTask)

    def _store(self) -> Steps:
        """Store the offsets. What cannot be stored is stored with the next offsets."""
        self._commit_at_ms = self._now_ms + self._interval_ms
        for partition, offset in self._progress.take_committable():
            self._offsets[_key(partition)] = partition, offset
        if not self._offsets:
            return True
        stored, offsets = self._offsets, list(self._offsets.values())
        self._offsets = {}
        is_stored = yield from self._do_quietly(
            "its offsets are not stored", lambda token: m.StoreOffsets(token, offsets)
        )
        if not is_stored:
            self._offsets = {**stored, **self._offsets}
        return is_stored

    def _commit_finally(self) -> Steps:
        """Commit what is written, also if the task has failed."""
        yield from self._do_quietly("not all records are written", m.Flush)
        yield from self._tell_written()
        if (yield from self._store()):
            yield from self._commit_task()


def _key(partition: Partition) -> str:
    known: Any = dict(partition)
    return json.dumps(known, sort_keys=True, default=str)
