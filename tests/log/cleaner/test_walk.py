"""Finding keys in bytes gives the same result as decoding every record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.cleaner.last_records import last_records
from odradek.log.cleaner.offset_map import KEY_SIZE_MAX, digest
from odradek.log.cleaner.walk import fields_at, survivors, walk
from odradek.log.errors import DamagedFile
from odradek.records.batch import HEADER_SIZE
from odradek.records.builder import RecordBatchBuilder

keys = st.one_of(
    st.none(),
    st.binary(max_size=3),
    st.sampled_from([b"k" * size for size in (31, 32, 33, 63, 64, 200)]),
)
single = st.tuples(keys, st.one_of(st.none(), st.binary(max_size=150)), st.integers(0, 300))
runs = st.builds(
    lambda count, key_size, value, step: [
        (b"%0*d" % (key_size, number), value, number * step) for number in range(count)
    ],
    st.integers(15, 100),
    st.integers(3, 40),
    st.one_of(st.none(), st.binary(max_size=100)),
    st.integers(0, 9),
)
batches = st.lists(st.one_of(single.map(lambda one: [one]), runs), min_size=1, max_size=6).map(
    lambda parts: [record for part in parts for record in part]
)


def _payload(records) -> bytes:
    builder = RecordBatchBuilder()
    for key, value, age in records:
        builder.append(1_700_000_000_000 + age, key, value, headers=[("h", None)] * (age % 7 == 6))
    return bytes(builder.build()[HEADER_SIZE:])


def _as_in_the_map(key: bytes | None) -> bytes | None:
    return digest(key) if key is not None and len(key) > KEY_SIZE_MAX else key


@given(batches)
def test_every_record_is_found(records):
    data = _payload(records)
    walked = walk(data, len(records))
    assert walked.keys == [_as_in_the_map(key) for key, _, _ in records]
    position = 0
    for number, start in enumerate(walked.starts):
        assert start == position
        fields = fields_at(data, start)
        position = fields.end
        if fields.key is not None:
            assert fields.is_tombstone == (data[walked.tails[number]] == 1)
            assert fields.is_tombstone == (records[number][1] is None)


@given(batches, st.booleans())
def test_the_last_record_of_a_key_survives(records, drop_tombstones):
    data = _payload(records)
    bases = {_as_in_the_map(key): 5 for key, _, _ in records if key}
    found = survivors(data, len(records), bases.get, 5, drop_tombstones)
    last = {key: number for number, (key, _, _) in enumerate(records) if key}
    expected = [
        number
        for number, (key, value, _) in enumerate(records)
        if key is not None
        and (key == b"" or last[key] == number)
        and not (value is None and drop_tombstones)
    ]
    starts = [*walk(data, len(records)).starts, len(data)]
    assert found.spans == [(starts[number], starts[number + 1]) for number in expected]
    assert found.have_tombstone == any(records[number][1] is None for number in expected)


@given(batches, st.booleans(), st.data())
def test_the_last_records_of_known_keys_are_those_that_the_map_keeps(records, drop, draw):
    data = _payload(records)
    keys = {_as_in_the_map(key) for key, _, _ in records} - {None}
    last_keys = draw.draw(st.lists(st.sampled_from(sorted(keys)), unique=True)) if keys else []
    bases = {key: 5 if key in last_keys else 6 for key in keys}
    found = last_records(data, len(records), last_keys, drop)
    assert found == survivors(data, len(records), bases.get, 5, drop)


@given(batches, st.data())
def test_damage_is_refused_or_read_as_something(records, draw):
    data = bytearray(_payload(records))
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] = draw.draw(st.integers(0, 255))
    try:
        walked = walk(bytes(data), len(records))
    except DamagedFile:
        return
    assert len(walked.keys) == len(walked.starts) == len(walked.tails) == len(records)


@pytest.mark.parametrize("count", [0, 2, 40])
def test_another_count_is_refused(count):
    with pytest.raises(DamagedFile):
        walk(_payload([(b"key", b"value", 0)]), count)
