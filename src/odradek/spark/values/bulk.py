"""What a decoder returns, and the search for what cannot be decoded.

Rows are decoded in one step. If that fails, the first and the second half are decoded again, one
after the other. This is repeated until each row that cannot be decoded is alone.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""Numbers of rows."""
UNDECODABLE = (pa.ArrowInvalid, OverflowError, UnicodeDecodeError)


class Decoded(NamedTuple):
    """One row for each byte string."""

    rows: pa.Array
    """Null for null, and for what cannot be decoded."""
    bad: NDArray[np.bool_]
    """Whether the byte string cannot be decoded."""
    reasons: dict[int, str]
    """Why byte strings cannot be decoded, by row."""


class Decoder(Protocol):
    """Decodes a column. Tasks get a copy, so a decoder can be pickled."""

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded column."""
        ...

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode all byte strings."""
        ...


class Encoder(Protocol):
    """Encodes a column. Tasks get a copy, so an encoder can be pickled."""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the byte string of each row; null for null.

        Raises:
            ValueError: a row does not fit the schema.
        """
        ...


class Parts:
    """What was decoded so far, and of which items."""

    def __init__(self) -> None:
        self.arrays: list[pa.Array] = []
        self.numbers: list[Rows] = []
        self.reasons: dict[int, str] = {}

    def add(self, array: pa.Array, first: int) -> None:
        """Add the rows of the items from `first` on."""
        self.arrays.append(array)
        self.numbers.append(np.arange(first, first + len(array)))

    def fail(self, number: int, reason: str) -> None:
        """Note that an item cannot be decoded."""
        self.reasons[number] = reason


def decode_in_parts(count: int, decode: Callable[[int, int], pa.Array]) -> Parts:
    """Decode the items 0 to `count`. `decode` decodes those from a number to before another one.

    `decode` raises one of `UNDECODABLE` if one of them cannot be decoded.
    """
    parts = Parts()
    _decode(0, count, decode, parts)
    return parts


def _decode(start: int, stop: int, decode: Callable[[int, int], pa.Array], parts: Parts) -> None:
    if start == stop:
        return
    try:
        parts.add(decode(start, stop), start)
    except UNDECODABLE as error:
        if stop - start == 1:
            parts.fail(start, str(error))
            return
        middle = (start + stop) // 2
        _decode(start, middle, decode, parts)
        _decode(middle, stop, decode, parts)


def arranged(
    values: pa.BinaryArray,
    row_of: Rows,
    parts: Parts,
    kind: pa.DataType,
    otherwise: str | Mapping[int, str],
) -> Decoded:
    """Return decoded items in the order of `values`.

    `row_of` has the row of each item. `otherwise` says why values that are no items cannot be
    decoded: for all such rows, or by row.
    """
    source = np.full(len(values), -1)
    if parts.numbers:
        decoded = row_of[np.concatenate(parts.numbers)]
        source[decoded] = np.arange(len(decoded))
        array = parts.arrays[0] if len(parts.arrays) == 1 else pa.concat_arrays(parts.arrays)
        if len(decoded) != len(values) or np.any(source[1:] < source[:-1]):
            array = array.take(pa.array(source, mask=source < 0))
    else:
        array = pa.nulls(len(values), kind)
    bad = (source < 0) & values.is_valid().to_numpy(zero_copy_only=False)
    if isinstance(otherwise, str):
        reasons = dict.fromkeys(np.flatnonzero(bad).tolist(), otherwise)
    else:
        reasons = dict(otherwise)
    reasons |= {int(row_of[number]): reason for number, reason in parts.reasons.items()}
    return Decoded(array, bad, reasons)


def binary_column(data: bytes, ends: list[int], is_null: NDArray[np.bool_]) -> pa.BinaryArray:
    """Return byte strings that follow one another. `ends` has the end of each."""
    bounds = np.array([0, *ends], np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    values = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    if not is_null.any():
        return values
    return pc.if_else(pa.array(is_null), pa.scalar(None, pa.binary()), values)


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Pause the garbage collector, which would search all rows again and again for cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
