"""Share fetches: acquire records for a member, and wait until there are some.

A share fetch reads each of its partitions from the next fetch offset of the share partition on, if
records can be acquired there. If there are fewer than `min_bytes`, it waits: for records that are
committed, for records that are released, and for space in the window of records in flight. After
`max_wait_ms` it returns the records that are available.

Reading and acquiring happen in one step of the event loop. So two share fetches never read the same
records at the same time, and Kafka's fetch lock is not needed. If data is not in the page cache, a
thread reads it first, and the step is repeated from the beginning.

The response has ranges of the log's files, from the first acquired batch to the last one, and the
offsets that the member has acquired in these ranges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from odradek.broker.cold_reads import ColdReads
from odradek.broker.partition import Partition
from odradek.broker.share.local import LocalSharePartition
from odradek.broker.share.manager import SharePartitionManager
from odradek.broker.share.records import fetched_batches, sliced
from odradek.core.share.acquisition import Aborted, FetchedBatch, Request
from odradek.core.share.session import PartitionKey, SessionKey
from odradek.env.file_range import FileRange
from odradek.env.file_system import FileSystem
from odradek.env.page_cache import ReadWouldBlock
from odradek.log.errors import OffsetOutOfRange
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.errors import CorruptBatch
from odradek.wire.generated.share_fetch_response import PartitionData

Results = dict[PartitionKey, PartitionData]


class FetchLimits(NamedTuple):
    """What a ShareFetch request asks for."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    records_max: int
    batch_size: int
    is_record_limit: bool


class _Read(NamedTuple):
    """The data of one partition that was read, or an error."""

    local: LocalSharePartition
    offset: int
    records: FileRange | None
    batches: list[FetchedBatch]
    aborted: Sequence[Aborted]
    error: ErrorCode


def failed(key: PartitionKey, error: ApiError) -> PartitionData:
    """Return the result of a partition that cannot be fetched."""
    return PartitionData(
        partition_index=key[1], error_code=error.code, error_message=error.message, records=b""
    )


class ShareFetch:
    """One share fetch. Create it, and await `run`."""

    def __init__(
        self,
        manager: SharePartitionManager,
        session: SessionKey,
        limits: FetchLimits,
        keys: Sequence[PartitionKey],
        cold_reads: ColdReads,
        wake: Callable[[ShareFetch], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`wake` arranges that `try_complete` is called soon."""
        self._manager = manager
        self._session = session
        self._limits = limits
        self._keys = keys
        self._cold_reads = cold_reads
        self._wake = wake
        self._loop = loop
        self._locals: dict[PartitionKey, LocalSharePartition] = {}
        self._errors: dict[PartitionKey, ApiError] = {}
        self._read_committed = manager.settings.is_read_committed(session.group_id)
        self._partitions: list[Partition] = []
        self._future: asyncio.Future[Results] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._is_reading = False
        self._is_final = False

    async def run(self) -> Results:
        """Return the results of the partitions that were fetched or have an error."""
        limits = self._limits
        if not self._keys or limits.records_max <= 0 or limits.bytes_max <= 0:
            return {}
        for key in self._keys:
            try:
                self._locals[key] = self._manager.get(self._session.group_id, key)
            except ApiError as error:
                self._errors[key] = error
        if not self._locals:
            return self._with_errors({})
        self._watch()
        self._timer = self._loop.call_later(max(0, limits.wait_ms) / 1000, self.expire)
        try:
            self.try_complete()
            return await self._future
        finally:
            self._timer.cancel()
            self._unwatch()

    # -- waiting --------------------------------------------------------------------------------

    def _watch(self) -> None:
        for local in self._locals.values():
            local.add_waiter(self)
            local.partition.add_waiter(self)

    def _unwatch(self) -> None:
        for local in self._locals.values():
            local.remove_waiter(self)
            local.partition.remove_waiter(self)

    def on_committed(self, appended_bytes: int) -> None:
        """See `Waiter`."""
        self._wake(self)

    def on_state_changed(self) -> None:
        """See `ShareWaiter`."""
        self._wake(self)

    def try_complete(self) -> None:
        """Complete the fetch if there is enough data."""
        if self._future.done() or self._is_reading:
            return
        try:
            results = self._evaluate(self._cold_reads.non_blocking)
        except ReadWouldBlock as missing:
            self._is_reading = True
            self._manager.run(self._read(missing))
        except Exception as error:  # noqa: BLE001  the request fails, and must not wait for ever
            self._future.set_exception(error)
        else:
            self._complete(results)

    def expire(self) -> None:
        """Complete the fetch with the data that there is."""
        self._is_final = True
        self.try_complete()

    def _complete(self, results: Results | None) -> None:
        if not self._future.done() and (results is not None or self._is_final):
            self._future.set_result(self._with_errors(results or {}))

    async def _read(self, missing: ReadWouldBlock) -> None:
        """Evaluate again after a thread has read the missing data."""
        try:
            results = await self._cold_reads.look_again(self._evaluate, missing)
        except Exception as error:  # noqa: BLE001  the request fails, and must not wait for ever
            if not self._future.done():
                self._future.set_exception(error)
            return
        self._is_reading = False
        self._complete(results)

    def _with_errors(self, results: Results) -> Results:
        for key, error in self._errors.items():
            results[key] = failed(key, error)
        return results

    # -- evaluating -----------------------------------------------------------------------------

    def _evaluate(self, files: FileSystem) -> Results | None:
        """Acquire records if there are enough; otherwise return None.

        Raises:
            ReadWouldBlock: a read from `files` would wait for the device. Nothing is acquired.
        """
        if self._future.done():
            return None
        if not self._manager.has_session(self._session):
            return {}  # the connection is closed: nobody would acknowledge the records
        offsets = self._acquirable()
        if not offsets:
            return {} if len(self._errors) == len(self._keys) else None
        reads = self._read_all(offsets, files)
        total = sum(0 if each.records is None else each.records.length for each in reads)
        has_error = any(each.error for each in reads)
        if total < self._limits.bytes_min and not has_error and not self._is_final:
            return None
        return self._acquire(reads)

    def _acquirable(self) -> dict[PartitionKey, int]:
        """Return the partitions from which records can be acquired, with their fetch offsets."""
        offsets = {}
        for key, local in self._locals.items():
            offset = local.machine.acquirable_from()
            if offset is not None:
                offsets[key] = offset
            elif local.load_error is not None:
                self._errors[key] = local.load_error
        return offsets

    def _read_all(self, offsets: Mapping[PartitionKey, int], files: FileSystem) -> list[_Read]:
        """Read all partitions. Each gets the same part of the maximum size."""
        bytes_max = max(1, self._limits.bytes_max // len(offsets))
        reads, missing = [], []
        is_first = True
        for key, offset in offsets.items():
            try:
                read = self._read_one(self._locals[key], offset, bytes_max, is_first, files)
            except ReadWouldBlock as part:
                missing.append(part)
                continue
            is_first = is_first and read.records is None
            reads.append(read)
        if missing:
            raise ReadWouldBlock.all_of(missing)
        return reads

    def _read_one(
        self,
        local: LocalSharePartition,
        offset: int,
        bytes_max: int,
        whole_first: bool,
        files: FileSystem,
    ) -> _Read:
        partition = local.partition
        try:
            partition.check_leader()
            log = partition.log
            if offset < log.log_start_offset:
                local.machine.on_log_start(log.log_start_offset)
                offset = max(offset, log.log_start_offset)
            committed = self._read_committed
            limit = log.last_stable_offset if committed else log.high_watermark
            data = log.read(offset, bytes_max, limit, whole_first, committed, files)
            if data is None:
                return _Read(local, offset, None, [], (), ErrorCode.NONE)
            batches = fetched_batches(files, data.records)
        except OffsetOutOfRange:  # the log ends before the offset
            return _Read(local, offset, None, [], (), ErrorCode.NONE)
        except ApiError as error:
            return _Read(local, offset, None, [], (), error.code)
        except (CorruptBatch, OSError):
            return _Read(local, offset, None, [], (), ErrorCode.KAFKA_STORAGE_ERROR)
        aborted = [
            Aborted(each.producer_id, each.first_offset) for each in data.aborted_transactions
        ]
        return _Read(local, offset, data.records, batches, aborted, ErrorCode.NONE)

    def _acquire(self, reads: list[_Read]) -> Results:
        """Acquire records of all partitions, at most as many as the request asks for."""
        limits = self._limits
        results: Results = {}
        left = limits.records_max
        for read in reads:
            partition = read.local.partition
            key = (partition.topic_id, partition.index)
            result = results[key] = PartitionData(
                partition_index=partition.index, error_code=read.error, records=b""
            )
            if read.error:
                continue
            request = Request(
                self._session.member_id, limits.is_record_limit, limits.batch_size, left
            )
            acquired = read.local.acquire(request, read.offset, read.batches, read.aborted)
            if acquired.records and read.records is not None:
                first, last = acquired.records[0], acquired.records[-1]
                result.records = sliced(
                    read.records, read.batches, first.first_offset, last.last_offset
                )
                result.acquired_records = acquired.records
                left -= acquired.total
                partition.on_fetched(len(result.records))
        return results
