"""Reusable buffers that connections receive into.

New memory is expensive, because it is cleared first, and the kernel maps each page on its first
use. Therefore most bytes are received into one buffer that all connections of a server share. A
connection uses the shared buffer only until the received frames have been dispatched.

An incomplete frame needs its own buffer until the rest of the frame has arrived. The connection
borrows a buffer (`lend`) and returns it (`give_back`) when the frame has been dispatched. Some
returned buffers of each size are kept for reuse. The size of a buffer is limited by the number of
bytes that have arrived, because the length that a client announces may be wrong.
"""

from __future__ import annotations

from typing import Final

from odradek.env.large_memory import allocate

SHARED_BYTES: Final = 256 * 1024
"""Size of the shared buffer. It is large enough for several requests. It is small enough that the
records stay in the processor's cache until they are written."""
MARGIN_BYTES: Final = 4096
"""The size of a batch is often a power of two. This is the space for the rest of the request."""
SIZES: Final = tuple((1 << exponent) + MARGIN_BYTES for exponent in range(14, 21))
"""Sizes of the buffers that are kept, from 16 KB to 1 MB. Larger buffers are not kept."""
REUSED_BYTES_MAX: Final = SIZES[-1]
"""A longer frame is in memory of its own, which is not used again after the frame."""
SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Maximum total size of the spare buffers of each size."""
SMALL_BYTES_MAX: Final = 2048
"""If at most this many bytes of a frame have arrived, the buffer has exactly their size."""
LENT_BYTES_MIN: Final = SIZES[2]
"""If more bytes have arrived, a buffer may always be this large."""
GROWTH: Final = 4
"""A larger buffer has at most this many times the size of the bytes that have arrived."""


class ReceiveBuffers:
    """The shared buffer and the spare buffers. Use them only on the event loop's thread."""

    __slots__ = ("_spare", "shared")

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self._spare: dict[int, list[memoryview]] = {size: [] for size in SIZES}

    @property
    def spare_bytes(self) -> int:
        """Total size of the spare buffers, which are not lent."""
        return sum(size * len(buffers) for size, buffers in self._spare.items())

    def lend(self, count: int, size: int) -> memoryview:
        """Return memory for a frame with its length field. `count` of `size` bytes have arrived.

        The memory has room for the whole frame, or at least for more than `count` bytes. If `count`
        is small, the memory has exactly `count` bytes.
        """
        if count <= SMALL_BYTES_MAX:
            return memoryview(bytearray(count))
        length = self.length(count, size)
        spare = self._spare.get(length)
        return spare.pop() if spare else allocate(length)

    @staticmethod
    def length(count: int, size: int) -> int:
        """Return the length of the memory for a frame of `size` bytes of which `count` have arrived."""
        length_max = max(LENT_BYTES_MIN, count * GROWTH)
        length = next((each for each in SIZES if each >= size), size)
        if length > length_max:
            length = next((each for each in reversed(SIZES) if each <= length_max), length_max)
            if length_max >= 2 * SIZES[-1]:
                length = length_max
        return length

    def give_back(self, memory: memoryview) -> None:
        """Take back a buffer from `lend`. The caller must not use the buffer after that."""
        spare = self._spare.get(len(memory))
        if spare is not None and (len(spare) + 1) * len(memory) <= SPARE_BYTES_MAX:
            spare.append(memory)
