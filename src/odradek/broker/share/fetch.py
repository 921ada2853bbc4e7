"""Share fetches: acquire records for a member, and wait until there are some.

A share fetch reads each of its partitions from the next fetch offset of the share partition on, if
records can be acquired there. If there are fewer than `min_bytes`, it waits: for records that are
committed, for records that are released, and for space in the window of records in flight. After
`max_wait_ms` it returns the records that are available.

Reading and acquiring happen in one step of the event loop. So two share fetches never read the same
records at the same time, and Kafka's fetch lock is not needed. If data is not in the page cache, a
thread reads it first, and the step is repeated from the beginning.

If the group has priorities (`odradek.share.priority`, see `core/share/priority.py`), a share fetch
gets records of one priority only: of the highest that has some.

The response has ranges of the log's files, from the first acquired batch to the last one, and the
offsets that the member has acquired in these ranges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.partition import Partition
from odradek.broker.share.local import LocalSharePartition
from odradek.broker.share.manager import SharePartitionManager
from odradek.broker.share.records import Extent, fetched_batches, sliced
from odradek.broker.share.times import READ_BYTES_MAX, ReadyRecords, read_ready, read_times
from odradek.core.share.acquisition import Aborted, Acquired, FetchedBatch, Request
from odradek.core.share.priority import levels
from odradek.core.share.schedule import RecordTime
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
    times: Sequence[RecordTime] | None = None
    """The times of the records, if the group needs them."""
    ready: ReadyRecords | None = None
    """Deferred records, instead of records of the window."""

    @property
    def size(self) -> int:
        """Number of bytes of records."""
        if self.ready is not None:
            return len(self.ready.data)
        return 0 if self.records is None else self.records.length


def failed(key: PartitionKey, error: ApiError) -> PartitionData:
    """Return the result of a partition that cannot be fetched."""
    return PartitionData(
        partition_index=key[1], error_code=error.code, error_message=error.message, records=b""
    )


class ShareFetch:
    """One share fetch. Create it, call `begin`, and `wait` if it has not ended then."""

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
        self._read_committed, self._priorities = manager.settings.of_fetch(session.group_id)
        self._partitions: list[Partition] = []
        self._future: asyncio.Future[Results] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._is_reading = False
        self._is_final = False

    def begin(self) -> None:
        """Acquire records if there are enough; otherwise begin to wait for them."""
        limits = self._limits
        if not self._keys or limits.records_max <= 0 or limits.bytes_max <= 0:
            self._future.set_result({})
            return
        for key in self._keys:
            try:
                self._locals[key] = self._manager.get(self._session.group_id, key)
            except ApiError as error:
                self._errors[key] = error
        if not self._locals:
            self._future.set_result(self._with_errors({}))
            return
        self.try_complete()
        if not self._future.done():
            self._watch()
            self._timer = self._loop.call_later(max(0, limits.wait_ms) / 1000, self.expire)

    @property
    def is_done(self) -> bool:
        """Whether the fetch has ended."""
        return self._future.done()

    async def wait(self) -> None:
        """Wait until the fetch has ended."""
        try:
            await self._future
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._unwatch()

    def results(self) -> Results:
        """Return the results of the partitions that were fetched or have an error, at the end."""
        return self._future.result()

    # -- waiting --------------------------------------------------------------------------------

    def _watch(self) -> None:
        for local in self._locals.values():
            local.waiters.add(self)

    def _unwatch(self) -> None:
        for local in self._locals.values():
            local.waiters.remove(self)

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
        if self._priorities:
            return self._evaluate_levels(offsets, files)
        reads = self._read_all(offsets, files)
        total = sum(each.size for each in reads)
        has_error = any(each.error for each in reads)
        if total < self._limits.bytes_min and not has_error and not self._is_final:
            return None
        results, found_none = self._acquire(reads)
        if found_none and not self._is_final:
            self._wake(self)  # other records may follow those that were deferred
            return None
        return results

    def _evaluate_levels(
        self, offsets: Mapping[PartitionKey, int | None], files: FileSystem
    ) -> Results | None:
        """Do the same as `_evaluate`, but acquire records of one priority only.

        The bytes of all priorities count for `bytes_min`. So priorities decide which records a
        fetch gets, and not how long it waits. Partitions that are being loaded may have records, so
        lower priorities wait for them.
        """
        total = 0
        is_enough = self._is_final
        results: Results = {}
        unused: list[list[_Read]] = []
        for level in levels(offsets, self._priority, self._priority_loading()):
            reads = self._read_all(level, files)
            unused.append(reads)
            total += sum(each.size for each in reads)
            is_enough = (
                is_enough or total >= self._limits.bytes_min or any(each.error for each in reads)
            )
            if not is_enough:
                continue
            for each in unused:
                found, found_none = self._acquire(each)
                if found_none and not self._is_final:
                    self._wake(self)  # other records of this priority may follow
                    return None
                results.update(found)
                if any(result.acquired_records for result in found.values()):
                    return results
            unused.clear()
        return results if is_enough else None

    def _priority(self, key: PartitionKey) -> int:
        return self._priorities.get(self._locals[key].partition.topic, 0)

    def _priority_loading(self) -> int | None:
        """Return the highest priority of partitions that are being loaded, if it is waited for."""
        if self._is_final:
            return None
        loading = (key for key, local in self._locals.items() if local.machine.is_loading)
        return max(map(self._priority, loading), default=None)

    def _acquirable(self) -> dict[PartitionKey, int | None]:
        """Return the partitions from which records can be acquired, with their fetch offsets.

        The offset is None if only deferred records can be acquired.
        """
        offsets: dict[PartitionKey, int | None] = {}
        for key, local in self._locals.items():
            offset = local.machine.acquirable_from()
            if offset is not None or local.machine.has_ready:
                offsets[key] = offset
            elif local.load_error is not None:
                self._errors[key] = local.load_error
        return offsets

    def _read_all(
        self, offsets: Mapping[PartitionKey, int | None], files: FileSystem
    ) -> list[_Read]:
        """Read all partitions. Each gets the same part of the maximum size."""
        bytes_max = max(1, self._limits.bytes_max // len(offsets))
        reads, missing = [], []
        is_first = True
        for key, offset in offsets.items():
            try:
                read = self._read_next(self._locals[key], offset, bytes_max, is_first, files)
            except ReadWouldBlock as part:
                missing.append(part)
                continue
            is_first = is_first and not read.size
            reads.append(read)
        if missing:
            raise ReadWouldBlock.all_of(missing)
        return reads

    def _read_next(
        self,
        local: LocalSharePartition,
        offset: int | None,
        bytes_max: int,
        whole_first: bool,
        files: FileSystem,
    ) -> _Read:
        """Read deferred records, or records from `offset` on."""
        if not local.machine.has_ready:
            assert offset is not None
            return self._read_one(local, offset, bytes_max, whole_first, files)
        if offset is not None and not local.prefers_ready:
            read = self._read_one(local, offset, bytes_max, whole_first, files)
            if read.error or read.size:
                return read
        return self._read_ready(local, bytes_max, files)

    def _read_ready(self, local: LocalSharePartition, bytes_max: int, files: FileSystem) -> _Read:
        """Read deferred records that are ready."""
        partition = local.partition
        error = ErrorCode.NONE
        found = None
        try:
            partition.check_leader()
            log = partition.log
            limit = log.last_stable_offset if self._read_committed else log.high_watermark
            offsets = local.machine.ready(self._limits.records_max)
            found = read_ready(files, log, offsets, limit, bytes_max, with_times=local.has_ttl)
        except ApiError as failure:
            error = failure.code
        except (CorruptBatch, OSError):
            error = ErrorCode.KAFKA_STORAGE_ERROR
        return _Read(local, -1, None, [], (), error, ready=found)

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
            if local.reads_times:
                bytes_max = min(bytes_max, READ_BYTES_MAX)
            data = log.read(offset, bytes_max, limit, whole_first, committed, files)
            if data is None:
                return _Read(local, offset, None, [], (), ErrorCode.NONE)
            times = None
            extent = None
            if not local.reads_times:
                new_from = max(offset, local.machine.end_offset + 1)
                extent = Extent(new_from, self._limits.records_max)
            batches = fetched_batches(files, data.records, extent)
            if local.reads_times and batches:
                batches, times = read_times(files, data.records, batches, reads_all=local.has_ttl)
        except OffsetOutOfRange:  # the log ends before the offset
            return _Read(local, offset, None, [], (), ErrorCode.NONE)
        except ApiError as error:
            return _Read(local, offset, None, [], (), error.code)
        except (CorruptBatch, OSError):
            return _Read(local, offset, None, [], (), ErrorCode.KAFKA_STORAGE_ERROR)
        aborted = [
            Aborted(each.producer_id, each.first_offset) for each in data.aborted_transactions
        ]
        return _Read(local, offset, data.records, batches, aborted, ErrorCode.NONE, times)

    def _acquire(self, reads: list[_Read]) -> tuple[Results, bool]:
        """Acquire records of all partitions, at most as many as the request asks for.

        Also return whether only records were found that are not delivered now.
        """
        limits = self._limits
        results: Results = {}
        found_none = False
        left = limits.records_max
        if any(each.ready is not None for each in reads):
            reads = sorted(reads, key=lambda each: each.ready is None)  # what is due comes first
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
            if read.ready is None and read.times is None:
                acquired = read.local.acquire(request, read.offset, read.batches, read.aborted)
            else:
                acquired, is_put_off = _acquire_scheduled(read, request)
                found_none = found_none or (is_put_off and not acquired.records)
            if acquired.records and read.ready is not None:
                result.records = read.ready.data
                result.acquired_records = acquired.records
                left -= acquired.total
                partition.on_fetched(len(result.records))
            elif acquired.records and read.records is not None:
                first, last = acquired.records[0], acquired.records[-1]
                result.records = sliced(
                    read.records, read.batches, first.first_offset, last.last_offset
                )
                result.acquired_records = acquired.records
                left -= acquired.total
                partition.on_fetched(len(result.records))
        has_news = any(each.acquired_records or each.error_code for each in results.values())
        return results, found_none and not has_news


def _acquire_scheduled(read: _Read, request: Request) -> tuple[Acquired, bool]:
    """Acquire records of a group that uses their times, or deferred records.

    Also return whether records were deferred or given up, so that others may follow them.
    """
    ready = read.ready
    if ready is not None:
        offsets = ready.offsets[: max(0, request.records_max)]
        result = read.local.acquire_ready(request, offsets, ready.gone, ready.times)
        return result.acquired, bool(result.change.transitions or ready.gone)
    assert read.times is not None
    result = read.local.acquire_scheduled(
        request, read.offset, read.batches, read.aborted, read.times
    )
    return result.acquired, bool(result.has_deferred or result.change.transitions)
