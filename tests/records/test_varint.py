"""Varints of records: encoded, decoded, and rejected in the same cases as by Kafka's
`ByteUtils`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.records.errors import InvalidRecords
from odradek.records.varint import (
    append_varint,
    read_varint,
    read_varlong,
    size_of_varint,
    varint,
)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
EDGES = [edge for bits in range(64) for edge in (2**bits - 1, -(2**bits))]


def outcome(read, data, position=0):
    try:
        return read(data, position)
    except (IndexError, InvalidRecords) as error:
        return type(error)


def as_kafka(data, last_shift, width):
    """`ByteUtils.readVarint` and `readVarlong`, with Java's integers of so many bits."""
    value = 0
    for position, byte in enumerate(data):
        shift = 7 * position
        value = (value | (byte & 0x7F) << shift) & (1 << width) - 1
        if byte < 0x80:
            unsigned = (value >> 1) ^ (-(value & 1) & (1 << width) - 1)
            signed = unsigned - (1 << width) if unsigned >> width - 1 else unsigned
            return signed, position + 1
        if shift == last_shift:
            return InvalidRecords
    return IndexError


@given(int64 | st.sampled_from(EDGES), st.binary(max_size=3))
def test_what_is_written_is_read(value, before):
    data = before + varint(value)
    assert read_varlong(data, len(before)) == (value, len(data))
    if -(2**31) <= value < 2**31:
        assert read_varint(data, len(before)) == (value, len(data))
    assert size_of_varint(value) == len(data) - len(before)
    out = bytearray(before)
    append_varint(out, value)
    assert out == data


@given(st.binary(max_size=12) | st.lists(st.integers(0x7E, 0xFF), max_size=12).map(bytes))
def test_bytes_are_read_as_kafka_reads_them(data):
    assert outcome(read_varint, data) == as_kafka(data, 28, 32)
    assert outcome(read_varlong, data) == as_kafka(data, 63, 64)


@pytest.mark.parametrize(
    ("read", "size", "last"), [(read_varint, 5, 0x0F), (read_varlong, 10, 0x01)]
)
def test_the_last_byte(read, size, last):
    longest = b"\xff" * (size - 1)
    number = read(longest + bytes([last]), 0)
    assert number == (-(2 ** (31 if size == 5 else 63)), size)
    assert read(longest + b"\x7f", 0) == number  # bits that do not fit are ignored
    with pytest.raises(InvalidRecords, match=f"longer than {size} bytes"):
        read(longest + b"\x80\x00", 0)
    with pytest.raises(IndexError):
        read(longest, 0)
