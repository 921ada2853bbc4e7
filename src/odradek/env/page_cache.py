"""Tells which part of a file is in the page cache, and reads without waiting for the device.

Linux offers two ways. `cachestat` counts the pages of a range that are in the page cache and has no
side effects. A read with `RWF_NOWAIT` returns what is cached, and fails with EAGAIN instead of
waiting. It also makes the kernel start to read the page: after sampling some pages, a second check
would report the range as cached. On other systems, and on file systems with a cache of their own,
everything counts as cached: reads then wait for the device.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Callable, Iterable
from mmap import PAGESIZE

STEP = 524_288
"""Without `cachestat`, one page of each piece of this size, and the last page, are sampled: Linux
reads ahead and evicts pages in runs."""
_UNREAD = memoryview(bytearray(128 * 1024))
"""The target of reads by all threads at once: the bytes are never used."""
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_UNKNOWN_FLAG = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
_CACHESTAT = 451
_MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x"})
"""Architectures whose system call 451 is known to be `cachestat`."""
_BEHIND_ALL = 2**62
"""A position beyond the end of any file: nothing is read there."""


def _system_call() -> Callable[..., int] | None:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return None
    # `cachestat` never waits, so the call keeps the interpreter's lock.
    call = ctypes.PyDLL(None).syscall
    pointer = ctypes.c_void_p
    call.argtypes = (ctypes.c_long, ctypes.c_int, pointer, pointer, ctypes.c_uint)
    return call


_syscall = _system_call()


class ReadWouldBlock(Exception):
    """Reads that would have waited for the device; `read` performs them, in a thread."""

    def __init__(self, reads: Iterable[tuple[int, int, int]]) -> None:
        """`reads`: descriptors, which this object now owns, lengths, and positions."""
        super().__init__("not in memory")
        self._reads = list(reads)

    @classmethod
    def all_of(cls, several: Iterable[ReadWouldBlock]) -> ReadWouldBlock:
        """Move the reads of all given exceptions into one."""
        whole = cls(())
        for each in several:
            whole._reads += each._reads
            each._reads = []
        return whole

    def read(self) -> None:
        """Read the bytes into the page cache.

        Raises:
            OSError: the device failed.
        """
        while self._reads:
            descriptor, length, position = self._reads.pop()
            try:
                os.pread(descriptor, length, position)
            finally:
                os.close(descriptor)

    def __del__(self) -> None:
        for descriptor, _, _ in self._reads:
            os.close(descriptor)


def read_without_blocking(descriptor: int, length: int, position: int) -> bytes:
    """Do `os.pread` if all of the range is in the page cache.

    Raises:
        ReadWouldBlock: a part of the range is not.
        OSError: the device failed.
    """
    if _NOWAIT is None:
        return os.pread(descriptor, length, position)
    data = bytearray(length)
    free = memoryview(data)
    at = position
    try:
        while free and (count := os.preadv(descriptor, [free], at, _NOWAIT)):
            free = free[count:]
            at += count
        return bytes(data[: at - position])
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno not in _UNKNOWN_FLAG:
            raise
        return os.pread(descriptor, length, position)
    try:
        own = os.dup(descriptor)
    except OSError:  # no descriptor left, so no other thread can read it
        return os.pread(descriptor, length, position)
    raise ReadWouldBlock([(own, len(free), at)])


class _Probe:
    """The reusable arguments of a `cachestat` call: creating them costs more than the call."""

    __slots__ = ("asked", "asked_at", "found", "found_at")

    def __init__(self) -> None:
        self.asked = (ctypes.c_uint64 * 2)()  # position, length
        # Pages in the cache, dirty, being written, evicted, recently evicted.
        self.found = (ctypes.c_uint64 * 5)()
        self.asked_at = ctypes.c_void_p(ctypes.addressof(self.asked))
        self.found_at = ctypes.c_void_p(ctypes.addressof(self.found))


_probes: list[_Probe] = []
"""Probes that no thread is using."""


def missing_bytes(descriptor: int, position: int, length: int) -> int:
    """Return how many bytes of the range are, as far as known, not in the page cache.

    Counts whole pages. Without `cachestat` the result is 0 or `length`.
    """
    if _syscall is None or length <= 0:
        return 0 if length <= 0 or _seems_resident(descriptor, position, length) else length
    try:
        probe = _probes.pop()
    except IndexError:
        probe = _Probe()
    asked = probe.asked
    asked[0] = position
    asked[1] = length
    failed = _syscall(_CACHESTAT, descriptor, probe.asked_at, probe.found_at, 0)
    cached = probe.found[0]
    _probes.append(probe)
    if failed:
        return 0 if _seems_resident(descriptor, position, length) else length
    missing = (position + length - 1) // PAGESIZE - position // PAGESIZE + 1 - cached
    if missing <= 0 or not _knows_nowait(descriptor):
        return 0
    return int(min(missing * PAGESIZE, length))


def load(descriptor: int, position: int, length: int) -> None:
    """Read the missing part of the range into the page cache, and nothing beyond it.

    Read-ahead is switched off for this file. Otherwise the kernel would read ahead in any call that
    reaches the end of the pages read so far, including `sendfile`, and pages that are being read
    count as cached.

    Raises:
        OSError: the device failed.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_WILLNEED)
    if sys.platform == "linux" and _wait_for(descriptor, position, length):
        return
    end = position + length
    while position < end:
        count = os.preadv(descriptor, [_UNREAD[: end - position]], position)
        if not count:
            break
        position += count


def _wait_for(descriptor: int, position: int, length: int) -> bool:
    """Wait until the range has been read, without copying it; False if the file cannot do that."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # no descriptor left
        return False
    end = position + length
    try:
        while position < end and (
            count := os.sendfile(nowhere, descriptor, position, end - position)
        ):
            position += count
    except OSError as error:
        if error.errno not in _UNKNOWN_FLAG:
            raise
        return False
    finally:
        os.close(nowhere)
    return True


def _seems_resident(descriptor: int, position: int, length: int) -> bool:
    """Return whether the range seems to be cached, by sampling pages."""
    if _NOWAIT is None:
        return True
    byte = bytearray(1)
    end = position + length
    try:
        for each in range(position, end, STEP):
            os.preadv(descriptor, [byte], each, _NOWAIT)
        os.preadv(descriptor, [byte], max(position, end - 1), _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # the file system does not know the flag
    return True


def _knows_nowait(descriptor: int) -> bool:
    """Return whether the file system uses the page cache: those that do know `RWF_NOWAIT`."""
    assert _NOWAIT is not None
    try:
        os.preadv(descriptor, [bytearray(1)], _BEHIND_ALL, _NOWAIT)
    except OSError:
        return False
    return True
