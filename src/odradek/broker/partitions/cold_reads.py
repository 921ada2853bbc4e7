"""Reads records from the disk in a thread before they are sent, if the page cache lacks them.

A read on the event loop would block all clients until the device has delivered the data. A fetch
may need the device twice:

- A search in an index and in the headers of batches finds where the response begins. The
  search uses `non_blocking`, a file system that raises an error instead of waiting for the device.
  Then `look_again` reads the missing data in a thread and repeats the search.
- The records are sent by `sendfile`. Before that, `warm` checks which ranges of the response are in
  the page cache (a few microseconds each) and reads the other ranges in a thread.

Neither is necessary for consumers that read the newest records, because these records are in the
page cache.

If at most half of a range's pages are missing, these pages are read into the page cache. If more
pages are missing, the whole range is read into a buffer with direct I/O (without the page cache),
and is sent from the buffer. Direct I/O needs about half the processor time of a read into the page
cache. It also does not evict pages that consumers of the newest records will read. If a second
consumer requests the same records, they are read into the page cache, so that later reads need not
wait for the device.

There are `BUFFERS` buffers. A buffer is allocated on first use and reused when its range has been
sent. The range is read into the page cache if no buffer is free, if the range is longer than a
buffer, or if the file system does not support direct I/O.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import TypeVar

from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.file_system import DIRECT_STEP, FileSystem, aligned_memory
from odradek.env.page_cache import ReadWouldBlock
from odradek.log.storage import Storage
from odradek.wire.generated.fetch_response import FetchResponse, PartitionData
from odradek.wire.generated.share_fetch_response import PartitionData as SharePartitionData
from odradek.wire.generated.share_fetch_response import ShareFetchResponse

log = logging.getLogger("odradek.broker")

BUFFERS = 32
BUFFER_BYTES = (1 << 20) + (64 << 10)
"""Size of a buffer in bytes. A buffer has room for the default fetch size per partition, or for one
batch of the default maximum size, plus the disk blocks at both ends that are only partly in the
range."""
PIECE_BYTES = 1 << 20
"""Files are divided into pieces of this size to record which parts were read with direct I/O."""
PIECES_KEPT = 16_384
"""Maximum number of file pieces that are recorded as read with direct I/O."""
SEARCHES = 1_000
"""How often a search with missing data is repeated before it may block the event loop. Normally a
search ends earlier. After a start, a search by time reads one piece of data per segment. A search
needs more repetitions only if pages are evicted as fast as they are read."""

T = TypeVar("T")
Response = TypeVar("Response", FetchResponse, ShareFetchResponse)
_Cold = tuple[PartitionData | SharePartitionData, FileRange, int]
"""A partition of a response, its records, and the number of their bytes that must be read."""


class _Loan:
    """A buffer in use. The buffer is free again when the last reference to this object is gone."""

    __slots__ = ("_free", "memory")

    def __init__(self, memory: memoryview, free: list[memoryview]) -> None:
        self.memory = memory
        self._free = free

    def __del__(self) -> None:
        self._free.append(self.memory)


class ColdReads:
    """Reads data that is not in the page cache. Use it only on the event loop's thread."""

    def __init__(
        self, storage: Storage, loop: asyncio.AbstractEventLoop, buffers: int = BUFFERS
    ) -> None:
        self.non_blocking: FileSystem = storage.non_blocking
        """For searches of logs: reads raise `ReadWouldBlock` instead of waiting for the device."""
        self._file_system = storage.file_system
        self._missing_bytes = storage.file_system.missing_bytes
        self._background = storage.background
        self._loop = loop
        self._free: list[memoryview] = []
        self._unmade = buffers
        self._under_way: list[FileRange] = []
        """Ranges that threads are reading."""
        self._read_to: dict[tuple[int, int], int] = {}
        """Ranges read with direct I/O: (file, piece) -> the end of the last range in the piece."""
        self.answers = 0
        """Number of responses that waited for the disk."""
        self.bytes = 0
        """Number of bytes that these responses had to read from the disk."""

    async def look_again(self, look: Callable[[FileSystem], T], missing: ReadWouldBlock) -> T:
        """Return the result of `look` after a thread has read the missing data."""
        for _ in range(SEARCHES):
            if await self._read_missing(missing) is not None:
                break  # the device failed: the search fails too, and the log handles the error
            try:
                return look(self.non_blocking)
            except ReadWouldBlock as another:
                missing = another
        return look(self._file_system)

    def _read_missing(self, missing: ReadWouldBlock) -> asyncio.Future[BaseException | None]:
        ended: asyncio.Future[BaseException | None] = self._loop.create_future()

        def done(error: BaseException | None) -> None:
            if not ended.done():  # the node may be shutting down
                ended.set_result(error)

        self._background(missing.read, done)
        return ended

    def warm(self, response: Response) -> Response | asyncio.Future[Response]:
        """Return the response, or a future if some of its records are not in the page cache."""
        missing_bytes = self._missing_bytes
        cold: list[_Cold] = []
        for topic in response.responses:
            for partition in topic.partitions:
                records = partition.records
                if isinstance(records, FileRange):
                    missing = missing_bytes(records.descriptor, records.position, records.length)
                    if missing or (self._under_way and self._is_under_way(records)):
                        cold.append((partition, records, missing))
        return self._read_all(response, cold) if cold else response

    def _read_all(self, response: Response, cold: list[_Cold]) -> asyncio.Future[Response]:
        """Return the response after a thread has read its cold ranges."""
        self.answers += 1
        self.bytes += sum(missing for _, _, missing in cold)
        future: asyncio.Future[Response] = self._loop.create_future()
        ranges = [records for _, records, _ in cold]
        work = [
            (partition, records, self._borrow(records, missing))
            for partition, records, missing in cold
        ]
        self._under_way += ranges

        def read() -> None:
            while work:
                partition, records, loan = work.pop(0)
                partition.records = self._read(records, loan)

        def done(error: BaseException | None) -> None:
            # A device that fails here fails again in `sendfile`, which ends the connection.
            if error is not None and not isinstance(error, OSError):
                log.error("reading records from the disk failed", exc_info=error)
            for each in ranges:
                self._under_way.remove(each)
            if not future.done():
                future.set_result(response)

        self._background(read, done)
        return future

    def _is_under_way(self, records: FileRange) -> bool:
        """Whether a thread is reading a part of the range.

        The pages of such a range can already count as cached before the device has delivered their
        data.
        """
        end = records.position + records.length
        return any(
            each.owner is records.owner
            and each.position < end
            and records.position < each.position + each.length
            for each in self._under_way
        )

    def _borrow(self, records: FileRange, missing: int) -> _Loan | None:
        """Return a buffer for the range; None if it must be read through the page cache."""
        if (
            records.position % DIRECT_STEP + records.length > BUFFER_BYTES
            or 2 * missing <= records.length
            or self._was_read_before(records)
        ):
            return None
        try:
            # The most recently used buffer is most likely in the processor's caches.
            memory = self._free.pop()
        except IndexError:
            if not self._unmade:
                return None
            self._unmade -= 1
            memory = aligned_memory(BUFFER_BYTES)
        return _Loan(memory, self._free)

    def _was_read_before(self, records: FileRange) -> bool:
        """Return whether most of the range was recently read with direct I/O, and record this read.

        A small overlap with the earlier read does not count. If the end of a batch did not fit into
        a response, the same consumer reads the batch again.
        """
        file = id(records.owner)
        end = records.position + records.length
        read_to = self._read_to
        latest = 0
        for piece in range(records.position // PIECE_BYTES, (end - 1) // PIECE_BYTES + 1):
            known = read_to.pop((file, piece), 0)
            latest = max(latest, known)
            read_to[file, piece] = max(known, end)
        while len(read_to) > PIECES_KEPT:
            del read_to[next(iter(read_to))]
        return 2 * (latest - records.position) > records.length

    def _read(self, records: FileRange, loan: _Loan | None) -> FileRange:
        """Read the range into the loan's memory, or into the page cache. Runs in a thread.

        Raises:
            OSError: the device failed.
        """
        if loan is not None:
            before = records.position % DIRECT_STEP
            if self._read_direct(records, before, loan.memory) >= before + records.length:
                return BufferedRange(loan.memory, before, records.length, loan)
        self._file_system.load(records.descriptor, records.position, records.length)
        return records

    def _read_direct(self, records: FileRange, before: int, memory: memoryview) -> int:
        """Read with direct I/O, starting `before` bytes before the range.

        Return the number of bytes read; 0 if direct I/O is not supported.
        """
        try:  # this path opens the same file even if it was renamed
            descriptor = self._file_system.open_direct(f"/proc/self/fd/{records.descriptor}")
        except OSError:  # there is no /proc, or no file descriptor is left
            return 0
        if descriptor is None:
            return 0
        blocks = -(-(before + records.length) // DIRECT_STEP)
        try:
            return self._file_system.read_into(
                descriptor, memory[: blocks * DIRECT_STEP], records.position - before
            )
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return 0  # the file system requires a larger alignment
        finally:
            self._file_system.close(descriptor)
