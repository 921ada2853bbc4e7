"""Decodes long requests with a limit of the number of elements in all their arrays.

An element of two bytes can need a hundred bytes of memory when it is decoded, and a microsecond. So
a malicious request of 100 MB could occupy the event loop for minutes. `check_count` limits each
array, but not the arrays in the elements of an array. The decoders of short requests do not count
the elements of all arrays, because the length of the request already limits them.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, Final, cast

from odradek.wire.primitives import Buffer, Decoder, MalformedMessage, check_count

LARGE_BYTES: Final = 100_000
"""The elements of longer requests are counted. Shorter requests have fewer bytes than `ELEMENTS_MAX`,
and so fewer elements."""
ELEMENTS_MAX: Final = 125_000
"""Maximum number of elements of all arrays of a request. Apache Kafka has no such limit. A request about
all of 10 000 partitions with their replicas has 50 000 elements."""


def decode_large(decoder: Decoder, buffer: Buffer, position: int) -> tuple[Any, int]:
    """Decode a message with a generated decoder, and count the elements of its arrays.

    Raises:
        MalformedMessage: there are too many elements, or the decoder has raised the error.
        IndexError, struct.error: the message is truncated.
    """
    left = ELEMENTS_MAX

    def check(count: int, element_size_min: int, buffer: Buffer, position: int) -> None:
        nonlocal left
        check_count(count, element_size_min, buffer, position)
        left -= count
        if left < 0:
            raise MalformedMessage(f"more than {ELEMENTS_MAX} elements in all arrays")

    # The same code, which finds another check_count.
    generated = cast("FunctionType", decoder)
    counting = FunctionType(generated.__code__, {**generated.__globals__, "check_count": check})
    return cast("tuple[Any, int]", counting(buffer, position))
