"""A source task that runs exactly once (KIP-618): records and offsets are in the same transactions.

    fence earlier tasks --> take the transactional id --> check that the task is still this worker's
        --> start --> [ poll, send ... offsets, commit ] ...

A task that was given up, or whose worker is cut off, may still run. The next one with the same transactional
id fences it. What it has not committed is aborted, and read again.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.core.connect import task_messages as m
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.offsets import offset_key
from odradek.core.connect.records import SourceRecord
from odradek.core.connect.source_machine import SourceMachine
from odradek.core.connect.source_task import Boundary, Offset, Partition, Transactions
from odradek.core.connect.task_machine import Steps

OWN_TOPIC = (
    "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"
)


class ExactSourceMachine(SourceMachine):
    """See the module."""

    def __init__(
        self,
        task: TaskId,
        state: TargetState,
        interval_ms: int,
        *,
        boundary: Boundary,
        now_ms: int,
    ) -> None:
        """`interval_ms` is `transaction.boundary.interval.ms`."""
        super().__init__(state, interval_ms, is_tolerant=True)
        self._task = task
        self.transactions = Transactions(boundary, interval_ms, now_ms)
        """When transactions end. The task may say so."""
        self._is_open = False
        """Whether there is a transaction."""
        self._new_offsets: dict[bytes, tuple[Partition, Offset]] = {}
        """The last offset of each partition of the source since the last commit, by its key."""
        self._offsets_topic: str | None = None

    # -- the procedure --------------------------------------------------------------------------

    def _live(self) -> Steps:
        self._offsets_topic = yield from self._do(m.OpenOffsets)
        if not (yield from self._take_over()):
            return
        self._hears = yield from self._do(m.MakeTask)
        failure: Exception | None = None
        try:
            yield from self._do(m.StartTask)
            yield from self._loop()
            yield from self._commit_finally()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            failure = error
        yield from self._stop_task()
        if failure is not None:
            raise failure

    def _take_over(self) -> Steps:
        """Become the only one that writes for this task. Return False if the task shall stop."""
        yield from self._do(m.Fence)
        if self._shall_stop():
            return False
        yield from self._do(m.OpenProducer)
        while not (yield from self._do(m.TakeId)):
            if self._shall_stop():
                return False
        return (yield from self._do_unless_stopped(m.CheckTask))

    def _store_at_ms(self) -> int | None:
        """Offsets are only written in transactions."""
        return None

    def _serve(self) -> Steps:
        """Everything is done by `_send`."""
        yield from ()

    # -- records --------------------------------------------------------------------------------

    def _send(self, records: Sequence[SourceRecord]) -> Steps:
        rest = list(records)
        while rest:
            count = self.transactions.records_before_end(rest)
            part, rest = rest[:count], rest[count:]
            yield from self._send_part(part)
            yield from self._end(self.transactions.after_record(part[-1]))
        if records or self.transactions.boundary != Boundary.CONNECTOR:
            yield from self._end(self.transactions.after_batch(self._now_ms))

    def _send_part(self, records: Sequence[SourceRecord]) -> Steps:
        found: m.Converted = yield from self._do(lambda token: m.Convert(token, records))
        outgoing = []
        for record, encoded in zip(records, found.items, strict=False):
            if encoded is None:
                self._note_written(record, None)
                continue
            if encoded.record.topic == self._offsets_topic:
                raise ConnectError(OWN_TOPIC)
            outgoing.append(m.Outgoing(encoded, record, None))
        if outgoing:
            yield from self._begin()
            yield from self._do(lambda token: m.Send(token, outgoing))
        for each in outgoing:
            partition, offset = each.record.source_partition, each.record.source_offset
            if partition is not None and offset is not None:
                key = offset_key(self._task.connector, partition)
                self._new_offsets[key] = (partition, offset)
        if found.error is not None:
            raise found.error

    # -- transactions ---------------------------------------------------------------------------

    def _begin(self) -> Steps:
        if not self._is_open:
            yield from self._do(m.BeginTransaction)
            self._is_open = True

    def _end(self, wanted: bool | None) -> Steps:
        """End the transaction. After an abort the offsets are committed, so that its records do not return."""
        if wanted is None:
            return
        if not wanted and self._is_open:
            yield from self._do(m.AbortTransaction)
            self._is_open = False
        yield from self._commit()

    def _change_state(self) -> Steps:
        """Leave no transaction open in a pause."""
        if self._is_paused:
            yield from self._commit_finally()

    def _commit(self) -> Steps:
        """Write the offsets, and commit."""
        offsets = list(self._new_offsets.values())
        if offsets or self._is_open:
            try:
                yield from self._begin()
                yield from self._do(lambda token: m.CommitTransaction(token, offsets))
            except Exception as error:
                raise ConnectError(
                    f"Failed to flush offsets and/or records for task {self._task}"
                ) from error
            self._is_open = False
            self._new_offsets.clear()
            if offsets:
                yield from self._do_quietly(
                    "its offsets are only in its own topic",
                    lambda token: m.CopyOffsets(token, offsets),
                )
        self.transactions.committed(self._now_ms)
        yield from self._tell_written()
        yield from self._commit_task()

    def _commit_finally(self) -> Steps:
        """Commit what was sent, unless the task says where transactions end."""
        if self.transactions.boundary == Boundary.CONNECTOR:
            yield from self._end(self.transactions.after_batch(self._now_ms))
        else:
            yield from self._commit()
