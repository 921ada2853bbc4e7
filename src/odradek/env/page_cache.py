"""Tells which part of a file is in the page cache, and reads without waiting for the device.

Linux has two system calls for this. `cachestat` counts the pages of a range that are in the page
cache; it has no side effects. A read with the flag `RWF_NOWAIT` returns the bytes that are cached.
If the first page is not cached, the read fails with EAGAIN instead of waiting, but the kernel
starts to read the page. Therefore a second check of the same page may report that the page is
cached.

On other systems, and on file systems that do not use the page cache, this module reports every
range as cached. Reads then wait for the device.
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
"""Without `cachestat`, one page of each piece of this size is checked, and the last page. This is
enough because Linux reads and evicts consecutive pages together."""
_UNREAD = memoryview(bytearray(128 * 1024))
"""A buffer for bytes that are never used. All threads share the buffer."""
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_UNKNOWN_FLAG = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
_CACHESTAT = 451
_MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x"})
"""Architectures on which system call 451 is `cachestat`."""
_BEHIND_ALL = 2**62
"""A position after the end of any file. A read at this position returns no bytes."""


def _system_call() -> Callable[..., int] | None:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return None
    # `cachestat` never waits, so the call need not release the interpreter's lock.
    call = ctypes.PyDLL(None).syscall
    pointer = ctypes.c_void_p
    call.argtypes = (ctypes.c_long, ctypes.c_int, pointer, pointer, ctypes.c_uint)
    return call


_syscall = _system_call()


class ReadWouldBlock(Exception):
    """A read would have waited for the device. Call `read` on another thread to perform the read.

    The exception may hold several reads.
    """

    def __init__(self, reads: Iterable[tuple[int, int, int]]) -> None:
        """`reads` are tuples (descriptor, length, position). This object owns the descriptors."""
        super().__init__("not in memory")
        self._reads = list(reads)

    @classmethod
    def all_of(cls, several: Iterable[ReadWouldBlock]) -> ReadWouldBlock:
        """Move the reads of all given exceptions into one new exception, and return it."""
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
    """Do `os.pread` if the whole range is in the page cache, or if that cannot be determined.

    Raises:
        ReadWouldBlock: a part of the range is not in the page cache.
        OSError: the device failed.
    """
    if _NOWAIT is None:
        return os.pread(descriptor, length, position)
    data = bytearray(length)
    free = memoryview(data)
    at = position
    try:
        count = os.preadv(descriptor, (data,), position, _NOWAIT)
        if count == length:
            return bytes(data)
        while count:
            free = free[count:]
            at += count
            count = os.preadv(descriptor, (free,), at, _NOWAIT) if free else 0
        return bytes(data[: at - position])
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno not in _UNKNOWN_FLAG:
            raise
        return os.pread(descriptor, length, position)
    try:
        own = os.dup(descriptor)
    except OSError:  # no descriptor is free for another thread, so read now
        return os.pread(descriptor, length, position)
    raise ReadWouldBlock([(own, len(free), at)])


class _Probe:
    """The arguments of a `cachestat` call. They are reused, because creating them costs more."""

    __slots__ = ("asked", "asked_at", "found", "found_at")

    def __init__(self) -> None:
        self.asked = (ctypes.c_uint64 * 2)()  # position, length
        # Numbers of pages: in the cache, dirty, being written, evicted, recently evicted.
        self.found = (ctypes.c_uint64 * 5)()
        self.asked_at = ctypes.c_void_p(ctypes.addressof(self.asked))
        self.found_at = ctypes.c_void_p(ctypes.addressof(self.found))


_probes: list[_Probe] = []
"""Probes that no thread is using."""


def missing_bytes(descriptor: int, position: int, length: int) -> int:
    """Return an estimate of how many bytes of the range are not in the page cache.

    The unit is whole pages, but the result is at most `length`. Without `cachestat`, the result is
    0 or `length`.
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
    """Read the missing part of the range into the page cache, but no pages after the range.

    Switch off read-ahead for this descriptor. Otherwise the kernel would also read pages after the
    range, and a page counts as cached as soon as the kernel begins to read it.

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
    """Wait until the range is in the page cache, without a copy of the bytes.

    Return False if that is not possible for this file.
    """
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
    """Return whether the checked pages of the range are cached."""
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
        return True  # the file system does not support the flag
    return True


def _knows_nowait(descriptor: int) -> bool:
    """Return whether the file system uses the page cache. If so, it supports `RWF_NOWAIT`."""
    assert _NOWAIT is not None
    try:
        os.preadv(descriptor, [bytearray(1)], _BEHIND_ALL, _NOWAIT)
    except OSError:
        return False
    return True
