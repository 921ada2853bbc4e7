"""Answers whose records are not in the page cache wait for the disk in a thread.

`sendfile` of such a range would stop the loop until the device has delivered, and with it every
client. So before an answer leaves, its ranges are looked at (a few microseconds), and those that
are cold are read once in the background, which brings them into the page cache; `sendfile` then
finds them there. Consumers at the tail never come this way.

The kernel is told not to read ahead in such files: it would do so in whatever call comes across
the end of what it has read, `sendfile` among them, and a device may be set to megabytes at a time,
which is milliseconds of the kernel's work that nothing interrupts. The steps are small for the
same reason.
"""

from __future__ import annotations

import asyncio
import os

from odradek.env.file_range import FileRange
from odradek.env.file_system import FileSystem
from odradek.log.storage import Background
from odradek.wire.generated.fetch_response import FetchResponse

_STEP_BYTES = 128 * 1024


class ColdReads:
    """See the module. Lives on the loop's thread."""

    def __init__(
        self, file_system: FileSystem, background: Background, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._is_resident = file_system.is_resident
        self._background = background
        self._loop = loop
        self._scratch = memoryview(bytearray(_STEP_BYTES))
        """Where all threads read to at once: nobody looks at what comes."""
        self.answers = 0
        """Answers that had to wait for the disk."""
        self.bytes = 0

    def warm(self, response: FetchResponse) -> FetchResponse | asyncio.Future[FetchResponse]:
        """The response, at once if all of its records are at hand."""
        is_resident = self._is_resident
        cold: list[FileRange] = []
        for topic in response.responses:
            for partition in topic.partitions:
                records = partition.records
                if isinstance(records, FileRange) and not is_resident(
                    records.descriptor, records.position, records.length
                ):
                    cold.append(records)
        if not cold:
            return response
        self.answers += 1
        self.bytes += sum(map(len, cold))
        future: asyncio.Future[FetchResponse] = self._loop.create_future()

        def done(error: OSError | None) -> None:
            # A device that fails here fails again in `sendfile`, which ends the connection.
            if not future.done():
                future.set_result(response)

        self._background(lambda: self._read(cold), done)
        return future

    def _read(self, ranges: list[FileRange]) -> None:
        """Read ranges and throw the bytes away; in a thread.

        Raises:
            OSError: the device failed.
        """
        for each in ranges:
            os.posix_fadvise(each.descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            position, end = each.position, each.position + each.length
            while position < end:
                count = os.preadv(each.descriptor, [self._scratch[: end - position]], position)
                if not count:
                    break
                position += count
