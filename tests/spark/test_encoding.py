"""Arrow to record batches: the same bytes as record by record."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.strategies import content, headers
from tests.spark.batches import record_batch

from odradek.arrow.columns import ARROW_HEADERS
from odradek.arrow.encoding import Rows, encode_records, varints, zigzag
from odradek.client.core.partitioners import murmur2, partition_for_key
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.spark import partitioning

NOW = 1_700_000_000_000

some_rows = st.lists(st.tuples(content, content, headers), min_size=1, max_size=30)


def header_column(rows):
    entries = [[{"key": k, "value": v} for k, v in row[2]] or None for row in rows]
    return pa.array(entries, ARROW_HEADERS)


def columns(rows, with_key=True, with_headers=True) -> Rows:
    return Rows(
        value=pa.array([row[1] for row in rows], pa.binary()),
        key=pa.array([row[0] for row in rows], pa.binary()) if with_key else None,
        headers=header_column(rows) if with_headers else None,
    )


@given(some_rows, st.booleans(), st.booleans(), st.sampled_from(list(Codec)))
def test_the_bytes_are_those_of_the_record_room(rows, with_key, with_headers, codec):
    expected = RecordBatchBuilder(codec=codec, producer_id=9, producer_epoch=3, base_sequence=77)
    for key, value, header_pairs in rows:
        expected.append(NOW, key if with_key else None, value, header_pairs if with_headers else ())
    (records,) = encode_records(columns(rows, with_key, with_headers), 1 << 30)
    assert record_batch(records, NOW, codec, (9, 3, 77)) == expected.build()


@given(some_rows, st.integers(1, 2000), st.data())
def test_batches_are_cut_by_size_and_together_hold_all_rows(rows, batch_size, data):
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    some = rows[start:stop]
    pieces = list(encode_records(columns(rows).slice(start, stop), batch_size))
    position = 0
    for piece in pieces:
        inside = some[position : position + piece.record_count]
        expected = RecordBatchBuilder()
        for key, value, header_pairs in inside:
            expected.append(NOW, key, value, header_pairs)
        assert record_batch(piece, NOW) == expected.build()
        assert len(piece.data) <= batch_size or piece.record_count == 1
        position += piece.record_count
    assert position == len(some)


def test_a_header_without_a_key_is_refused():
    broken = pa.array([[{"key": None, "value": b"x"}]], ARROW_HEADERS)
    with pytest.raises(ValueError, match="header has no key"):
        list(encode_records(Rows(pa.array([b"v"], pa.binary()), headers=broken), 1000))


def test_varints_of_every_width():
    numbers = [0, 1, 63, 64, 127, 128, 16383, 16384, (1 << 21) - 1, 1 << 21, 1 << 28, (1 << 31) - 1]
    signed = pa.array([-1, *numbers]).to_numpy()
    written = varints([zigzag(signed)]).to_pylist()
    assert written[:4] == [b"\x01", b"\x00", b"\x02", b"\x7e"]
    assert [len(w) for w in written] == [1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5]


@given(st.lists(st.binary(max_size=40), max_size=50), st.data())
def test_murmur2_of_a_column_is_that_of_each_key(keys, data):
    column = pa.array(keys, pa.binary())
    start = data.draw(st.integers(0, len(keys)))
    assert partitioning.murmur2(column[start:]).tolist() == [murmur2(k) for k in keys[start:]]


def test_rows_without_a_key_go_where_they_are_told():
    keys = [b"a", None, b"b", None]
    chosen = partitioning.partitions_of_keys(pa.array(keys, pa.binary()), 5, keyless=3).tolist()
    assert chosen == [partition_for_key(b"a", 5), 3, partition_for_key(b"b", 5), 3]
