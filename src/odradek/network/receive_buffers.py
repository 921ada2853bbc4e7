"""Reusable memory that connections receive into.

Receiving into new memory is expensive: it is cleared first, and the kernel maps every page of it
when it is touched. So most bytes are received into one buffer that all connections of a server
share. It is in use only from a receive until the frames in it have been dispatched.

An incomplete frame needs memory of its own until the rest has arrived. The connection borrows it
(`lend`) and returns it (`give_back`) when the frame has been dispatched; a few spare buffers of
each size are kept. The size depends on the bytes that have arrived, not on the length that the
client claims.
"""

from __future__ import annotations

from typing import Final

SHARED_BYTES: Final = 256 * 1024
"""Large enough for several requests, small enough to stay in the processor's cache until written.
"""
MARGIN_BYTES: Final = 4096
"""Batches are often a power of two long; a request has this much more around them."""
SIZES: Final = tuple((1 << exponent) + MARGIN_BYTES for exponent in range(14, 21))
"""Sizes of the buffers that are kept, from 16 KB to 1 MB. Larger buffers are not kept."""
SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Number of spare buffers of each size."""
SMALL_BYTES_MAX: Final = 2048
"""An incomplete frame of at most this many bytes is copied into memory of exactly its size."""
LENT_BYTES_MIN: Final = SIZES[2]
"""A longer one gets a buffer for the whole frame, if the frame is not longer than this;"""
GROWTH: Final = 4
"""otherwise the buffer has at most this many times the bytes that have arrived."""


class ReceiveBuffers:
    """See the module. Belongs to one event loop's thread."""

    __slots__ = ("_spare", "shared")

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self._spare: dict[int, list[memoryview]] = {size: [] for size in SIZES}

    @property
    def spare_bytes(self) -> int:
        """Bytes of spare buffers that nobody has borrowed."""
        return sum(size * len(buffers) for size, buffers in self._spare.items())

    def lend(self, count: int, size: int) -> memoryview:
        """Return memory for a frame of `size` bytes of which `count` have arrived.

        It holds the whole frame, or more than `count` bytes, or `count` is small.
        """
        if count <= SMALL_BYTES_MAX:
            return memoryview(bytearray(count))
        length_max = max(LENT_BYTES_MIN, count * GROWTH)
        length = next((each for each in SIZES if each >= size), size)
        if length > length_max:
            length = next((each for each in reversed(SIZES) if each <= length_max), length_max)
            if length_max >= 2 * SIZES[-1]:
                length = length_max
        spare = self._spare.get(length)
        return spare.pop() if spare else memoryview(bytearray(length))

    def give_back(self, memory: memoryview) -> None:
        """Return a buffer from `lend` that is not used any more."""
        spare = self._spare.get(len(memory))
        if spare is not None and (len(spare) + 1) * len(memory) <= SPARE_BYTES_MAX:
            spare.append(memory)
