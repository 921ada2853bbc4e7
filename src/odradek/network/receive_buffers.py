"""Memory that connections receive into, reused.

Fresh memory is expensive to receive into: it is cleared first, and the kernel maps every page of it
when it is touched. So most bytes are received into one buffer that all connections of a server
share. It is in use only from a receive until the frames in it have been dispatched.

An incomplete frame needs memory of its own until the rest has arrived. It is lent, and given back
when the frame has been dispatched; a few spare buffers of each size are kept. How much is lent
depends on the bytes that have arrived, not on the length that the client claims.
"""

from __future__ import annotations

SHARED_BYTES = 256 * 1024
"""Several requests fit, and the processor's cache still holds them when they are written."""
MARGIN_BYTES = 4096
"""Batches are often a power of two long; a request has this much more around them."""
SIZES = tuple((1 << exponent) + MARGIN_BYTES for exponent in range(14, 21))
"""Of the buffers that are kept, from 16 KB to 1 MB. A larger frame's buffer is not kept."""
SPARE_BYTES_MAX = 2 * 1024 * 1024
"""Kept of each size."""
SMALL_BYTES_MAX = 2048
"""The beginning of a frame is copied exactly if it is not longer."""
LENT_BYTES_MIN = SIZES[2]
"""A longer beginning has a buffer for the whole frame, if the frame is not longer than this;"""
GROWTH = 4
"""otherwise the buffer has at most so many times the bytes that have arrived."""


class ReceiveBuffers:
    """See the module. Belongs to one event loop's thread."""

    __slots__ = ("_spare", "shared")

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self._spare: dict[int, list[memoryview]] = {size: [] for size in SIZES}

    @property
    def spare_bytes(self) -> int:
        """Memory that is kept and not lent."""
        return sum(size * len(buffers) for size, buffers in self._spare.items())

    def lend(self, count: int, size: int) -> memoryview:
        """Memory for a frame of `size` bytes of which `count` have arrived.

        It has room for all of them, or for more than `count`, or `count` is small.
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
        """Nobody uses what was lent any more."""
        spare = self._spare.get(len(memory))
        if spare is not None and (len(spare) + 1) * len(memory) <= SPARE_BYTES_MAX:
            spare.append(memory)
