"""Memory for long requests, which grows without a copy.

A new `bytearray` is cleared at once, and growing one copies its bytes. For a hundred megabytes this
takes a tenth of a second. Therefore larger memory is mapped: the kernel clears a page when it is used
for the first time, and moves pages when the memory grows. Where the kernel cannot move them, the bytes
must be copied.
"""

from __future__ import annotations

import mmap
from typing import Final

MAPPED_BYTES_MIN: Final = 2 << 20
"""Smaller memory is a `bytearray`."""


def allocate(size: int) -> memoryview:
    """Return cleared memory of `size` bytes.

    Raises:
        OSError, MemoryError: the system has not so much memory.
    """
    if size < MAPPED_BYTES_MIN:
        return memoryview(bytearray(size))
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def enlarge(memory: memoryview, size: int) -> memoryview:
    """Return the same memory with `size` bytes. `memory` cannot be used after that.

    If the memory cannot grow, the result has its old size. It cannot if it is not mapped, if there
    are other views of it, or if the system does not support it.
    """
    mapped = memory.obj
    if not isinstance(mapped, mmap.mmap):
        return memory
    memory.release()
    try:
        mapped.resize(size)
    except (BufferError, OSError, SystemError, ValueError):
        pass
    return memoryview(mapped)
