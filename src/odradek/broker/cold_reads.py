"""Answers whose records are not in the page cache wait for the disk in a thread.

To read such records on the loop would stop it until the device has delivered, and with it every
client. That has two parts. Where in a log an answer begins is told by an index and by the headers
of batches: `look` runs such a search with reads that fail instead of waiting, and after a failure
`look_again` has a thread bring what was missing and repeats the search from its beginning. Then,
before the answer leaves by `sendfile`, `warm` looks at its ranges (a few microseconds), and has
those that are cold read in the background. Consumers at the tail never come this way.

A cold range is read past the page cache, in one step, into a buffer from which it is then sent.
To find a page for each 4 KB costs the kernel several times the processor time, in stretches that
nothing interrupts, and pushes out what consumers at the tail are about to read. There are
`BUFFERS` buffers, made when they are first used and used again when their range has been sent.

What has no place there (all buffers are taken, perhaps by consumers that do not read; a longer
range; a file system that has no such reads) is read through the page cache, where `sendfile` then
finds it. The kernel is told not to read ahead in such files: it would do so in whatever call comes
across the end of what it has read, `sendfile` among them, and a device may be set to megabytes at
a time. The steps are small for the same reason.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import TypeVar

from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.file_system import DIRECT_STEP, FileSystem, aligned_memory
from odradek.env.page_cache import NotAtHand
from odradek.log.storage import Storage
from odradek.wire.generated.fetch_response import FetchResponse, PartitionData

log = logging.getLogger("odradek.broker")

BUFFERS = 32
BUFFER_BYTES = (1 << 20) + (64 << 10)
"""What consumers ask of a partition by default, or one batch of the largest default size; and the
rest of the blocks in which it begins and ends."""
SEARCHES = 1_000
"""How often a search that finds something missing is repeated before it may wait on the loop: more
pieces than one reads one after the other (after a start, a search for a time reads one of each
segment), unless memory is taken away as fast as it is filled."""

T = TypeVar("T")


class _Loan:
    """A buffer that goes back with the last reference, as `OpenFile` closes with it."""

    __slots__ = ("_free", "memory")

    def __init__(self, memory: memoryview, free: list[memoryview]) -> None:
        self.memory = memory
        self._free = free

    def __del__(self) -> None:
        self._free.append(self.memory)


class ColdReads:
    """See the module. Lives on the loop's thread."""

    def __init__(
        self, storage: Storage, loop: asyncio.AbstractEventLoop, buffers: int = BUFFERS
    ) -> None:
        self._impatient = storage.impatient
        self._file_system = storage.file_system
        self._is_resident = storage.file_system.is_resident
        self._background = storage.background
        self._loop = loop
        self._free: list[memoryview] = []
        self._unmade = buffers
        self.answers = 0
        """Answers that had to wait for the disk."""
        self.bytes = 0

    def look(self, look: Callable[[FileSystem], T]) -> T:
        """What `look` returns; it searches logs by way of a file system that does not wait.

        Raises:
            NotAtHand: it would have had to wait for the device; see `look_again`.
        """
        return look(self._impatient)

    async def look_again(self, look: Callable[[FileSystem], T], missing: NotAtHand) -> T:
        """What `look` returns, once a thread has brought what it was missing."""
        for _ in range(SEARCHES):
            if await self._bring(missing) is not None:
                break  # the device fails: the search will meet that, and the log take note
            try:
                return look(self._impatient)
            except NotAtHand as another:
                missing = another
        return look(self._file_system)

    def _bring(self, missing: NotAtHand) -> asyncio.Future[BaseException | None]:
        brought: asyncio.Future[BaseException | None] = self._loop.create_future()

        def done(error: BaseException | None) -> None:
            if not brought.done():  # the node may be ending
                brought.set_result(error)

        self._background(missing.bring, done)
        return brought

    def warm(self, response: FetchResponse) -> FetchResponse | asyncio.Future[FetchResponse]:
        """The response, at once if all of its records are at hand."""
        is_resident = self._is_resident
        cold: list[tuple[PartitionData, FileRange]] = []
        for topic in response.responses:
            for partition in topic.partitions:
                records = partition.records
                if isinstance(records, FileRange) and not is_resident(
                    records.descriptor, records.position, records.length
                ):
                    cold.append((partition, records))
        if not cold:
            return response
        self.answers += 1
        self.bytes += sum(len(records) for _, records in cold)
        future: asyncio.Future[FetchResponse] = self._loop.create_future()
        work = [(partition, records, self._borrow(records)) for partition, records in cold]

        def read() -> None:
            while work:
                partition, records, loan = work.pop(0)
                partition.records = self._read(records, loan)

        def done(error: BaseException | None) -> None:
            # A device that fails here fails again in `sendfile`, which ends the connection.
            if error is not None and not isinstance(error, OSError):
                log.error("reading records from the disk failed", exc_info=error)
            if not future.done():
                future.set_result(response)

        self._background(read, done)
        return future

    def _borrow(self, records: FileRange) -> _Loan | None:
        """A buffer for the range; None if it is too long for one, or all are taken."""
        if records.position % DIRECT_STEP + records.length > BUFFER_BYTES:
            return None
        try:
            memory = self._free.pop()  # the one used last: its pages are at hand
        except IndexError:
            if not self._unmade:
                return None
            self._unmade -= 1
            memory = aligned_memory(BUFFER_BYTES)
        return _Loan(memory, self._free)

    def _read(self, records: FileRange, loan: _Loan | None) -> FileRange:
        """The range, in the loan's memory or, as it was given, in the page cache; in a thread.

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
        """Bytes read past the page cache, from `before` bytes ahead of the range on; 0 where there
        is no such thing."""
        try:  # the same file again, whatever its name is by now
            descriptor = self._file_system.open_direct(f"/proc/self/fd/{records.descriptor}")
        except OSError:  # no /proc here, or no descriptor left
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
            return 0  # the file system wants larger steps
        finally:
            self._file_system.close(descriptor)
