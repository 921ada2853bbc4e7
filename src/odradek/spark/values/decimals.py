"""Converts decimals between columns and unscaled numbers in two's complement, big-endian."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

WIDTH = 16
"""The size of an Arrow decimal in bytes. It is little-endian."""
PRECISION_MAX = 38

Bytes = NDArray[np.uint8]


def decoded(numbers: pa.BinaryArray, kind: pa.Decimal128Type) -> pa.Decimal128Array:
    """Return decimals of unscaled numbers.

    Raises:
        pa.ArrowInvalid: a number has more digits than the precision of the type allows.
    """
    count = len(numbers)
    lengths = pc.fill_null(pc.binary_length(numbers), 0).to_numpy().astype(np.int64)
    if lengths.max(initial=0) > WIDTH:
        numbers, lengths = _shortened(numbers)
    _, bounds, data = numbers.buffers()
    little = np.zeros((count, WIDTH), np.uint8)
    if data is not None and count:
        ends = np.frombuffer(bounds, np.int32)[numbers.offset + 1 :][:count].astype(np.int64)
        source = np.frombuffer(data, np.uint8)
        for place in range(int(lengths.max())):
            rows = np.flatnonzero(lengths > place)
            little[rows, place] = source[ends[rows] - 1 - place]
        last = little[np.arange(count), np.maximum(lengths - 1, 0)]
        is_negative = (last & 0x80) != 0
        beyond = np.arange(WIDTH) >= lengths[:, np.newaxis]
        little[beyond & is_negative[:, np.newaxis]] = 0xFF
    validity = numbers.is_valid()
    array = pa.Array.from_buffers(kind, count, [_bits(validity), pa.py_buffer(little)])
    array.validate(full=True)
    return array


def _shortened(numbers: pa.BinaryArray) -> tuple[pa.BinaryArray, NDArray[np.int64]]:
    """Return numbers, of which some are longer than needed, in at most `WIDTH` bytes."""
    short = []
    for each in numbers.to_pylist():
        if each is not None and len(each) > WIDTH:
            try:
                each = int.from_bytes(each, "big", signed=True).to_bytes(WIDTH, "big", signed=True)
            except OverflowError as error:
                raise pa.ArrowInvalid("a decimal has too many digits") from error
        short.append(each)
    array = pa.array(short, pa.binary())
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy().astype(np.int64)
    return array, lengths


def encoded(array: pa.Decimal128Array, size: int | None = None) -> pa.Array:
    """Return the unscaled numbers: in `size` bytes, or in as few as possible.

    Raises:
        ValueError: a number does not fit `size` bytes.
    """
    count = len(array)
    data = array.buffers()[1]
    little = np.frombuffer(data, np.uint8)[array.offset * WIDTH :][: count * WIDTH]
    big = little.reshape(count, WIDTH)[:, ::-1].copy()
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    big[is_null] = 0
    redundant = _redundant(big)
    if size is not None:
        if (WIDTH - redundant).max(initial=0) > size:
            raise ValueError(f"a decimal does not fit {size} bytes")
        fixed = np.where(big[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
        fixed = np.repeat(fixed, max(size - WIDTH, 0), axis=1)
        fixed = np.concatenate([fixed, big[:, max(WIDTH - size, 0) :]], axis=1)
        buffers = [_bits(array.is_valid()), pa.py_buffer(np.ascontiguousarray(fixed))]
        return pa.Array.from_buffers(pa.binary(size), count, buffers)
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(WIDTH - redundant, out=bounds[1:])
    used = big[np.arange(WIDTH) >= redundant[:, np.newaxis]]
    buffers = [_bits(array.is_valid()), pa.py_buffer(bounds), pa.py_buffer(used)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _redundant(big: Bytes) -> NDArray[np.int64]:
    """Return how many leading bytes of each number only repeat its sign."""
    sign = np.where(big[:, :1] & 0x80, 0xFF, 0)
    repeats = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) & 0x80 == 0)
    counts: NDArray[np.int64] = np.cumprod(repeats, axis=1).sum(axis=1)
    return counts


def _bits(is_valid: pa.BooleanArray) -> pa.Buffer | None:
    """Return the validity bitmap of an array that begins at its first row."""
    flags = np.asarray(is_valid.to_numpy(zero_copy_only=False))
    if flags.all():
        return None
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
