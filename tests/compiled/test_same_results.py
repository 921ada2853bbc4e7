"""Compiled modules give the results of their source, or raise the same errors.

Run by `make test`: in a checkout nothing is compiled, and there is nothing to compare.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.compiled.pure import import_pure

from odradek.log.cleaner import walk
from odradek.records import batch, builder, compression, record, skim, starts, structure, varint
from odradek.records.batch import HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD, SIZE
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compiled import COMPILED
from odradek.records.compression import Codec

pytestmark = pytest.mark.skipif(
    not COMPILED and "compiled" not in os.environ.get("ODRADEK_REQUIRE", "").split(","),
    reason="the package is not compiled here (make test)",
)

MODULES = (batch, builder, compression, record, skim, starts, structure, varint, walk)
PURE = dict(zip(MODULES, import_pure(*(each.__name__ for each in MODULES)), strict=True))
NOW_MS = 1_700_000_000_000
LIMIT = 1 << 20

int64 = st.integers(-(2**63), 2**63 - 1)
deltas = st.integers(-200, 20_000) | st.sampled_from(
    [edge for bits in (13, 31, 32, 61, 62, 63) for edge in (2**bits - 1, 2**bits, -(2**bits))]
)
contents = st.none() | st.binary(max_size=12) | st.integers(0, 20_000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3)
records = st.lists(st.tuples(deltas, contents, contents, headers), min_size=1, max_size=90)


def outcome(function, *arguments):
    """What a call returns or raises, in a form that does not depend on the mode."""
    try:
        found = function(*arguments)
        return list(map(tuple, found)) if hasattr(found, "__next__") else found
    except Exception as error:  # noqa: BLE001 (whatever it is, it has to be the same)
        return type(error).__name__, str(error)


def test_the_modes_differ():
    assert COMPILED
    for compiled, pure in PURE.items():
        assert not str(compiled.__file__).endswith(".py")
        assert str(pure.__file__).endswith(".py")
        assert compiled is not pure


def build(some_records, codec=Codec.NONE):
    data = RecordBatchBuilder(codec=codec)
    for delta, key, value, some_headers in some_records:
        data.append(max(-(2**63), min(NOW_MS + delta, 2**63 - 1)), key, value, some_headers)
    return data.build()


def assert_alike(data):
    """All that reads records, in both modes."""
    view, pure_view = batch.RecordBatch(data), PURE[batch].RecordBatch(data)
    assert repr(view) == repr(pure_view)
    claimed = view.max_timestamp - view.base_timestamp
    for max_delta in {claimed, claimed - 1, claimed + 1, 2**62 - 1, 2**62, 2**63, -1}:
        for need_keys in (False, True):
            arguments = (data, view.codec, view.count, max_delta, need_keys)
            found = outcome(structure.has_plain_records, *arguments)
            assert found == outcome(PURE[structure].has_plain_records, *arguments)
    for read, pure_read in (
        (skim.skim_records, PURE[skim].skim_records),
        (record.iterate_records, PURE[record].iterate_records),
    ):
        assert outcome(read, view, LIMIT) == outcome(pure_read, pure_view, LIMIT)
    read, pure_read = record.iterate_fields, PURE[record].iterate_fields
    assert outcome(read, view) == outcome(pure_read, pure_view)
    payload = bytes(view.payload)
    assert outcome(walk.walk, payload, view.count) == outcome(PURE[walk].walk, payload, view.count)
    for end in (len(payload), len(payload) - 1):
        found_starts: tuple[list[int], list[int]] = [], []
        arguments = (payload, 0, end, view.count)
        assert outcome(starts.append_starts, *arguments, found_starts[0]) == outcome(
            PURE[starts].append_starts, *arguments, found_starts[1]
        )
        assert found_starts[0] == found_starts[1]
    for position in (0, 7):
        assert outcome(walk.fields_at, payload, position) == outcome(
            PURE[walk].fields_at, payload, position
        )
    for base_of in (lambda _: 5, lambda _: None, lambda key: None if key is None else len(key)):
        arguments = (payload, view.count, base_of, 3, True)
        assert outcome(walk.survivors, *arguments) == outcome(PURE[walk].survivors, *arguments)


@settings(max_examples=300)
@given(records, st.sampled_from(list(Codec)))
@example([(2**63, None, b"", [])], Codec.NONE)
def test_batches_as_producers_write_them(some_records, codec):
    data = build(some_records, codec)
    with_pure = PURE[builder].RecordBatchBuilder(codec=PURE[compression].Codec(codec))
    for delta, key, value, some_headers in some_records:
        with_pure.append(max(-(2**63), min(NOW_MS + delta, 2**63 - 1)), key, value, some_headers)
    assert with_pure.build() == data
    assert_alike(data)


@settings(max_examples=600)
@given(records, st.data())
def test_damaged_batches(some_records, data):
    damaged = build(some_records)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_SIZE, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    assert_alike(damaged)


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.lists(st.integers(0x7E, 0xFF), max_size=40).map(bytes))
@example(b"\xff" * 9 + b"\x01")
def test_noise(noise):
    data = build([(0, None, None, ())])[:HEADER_SIZE] + noise
    SIZE.pack_into(data, LENGTH_POSITION, len(data) - LOG_OVERHEAD)
    assert_alike(data)


@given(st.binary(max_size=14) | st.lists(st.integers(0x7E, 0xFF), max_size=14).map(bytes))
def test_varints(data):
    for name in ("read_varint", "read_varlong"):
        for position in (0, 2, -1, 2**40):
            read, pure_read = getattr(varint, name), getattr(PURE[varint], name)
            assert outcome(read, data, position) == outcome(pure_read, data, position)


@given(int64)
def test_varints_that_are_written(value):
    assert varint.varint(value) == PURE[varint].varint(value)
    assert varint.size_of_varint(value) == PURE[varint].size_of_varint(value)
