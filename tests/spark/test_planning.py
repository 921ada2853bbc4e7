"""Splits and limits: every offset once, in proportion, and none left behind for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.model.topic_partition import TopicPartition
from odradek.spark.planning import limited, splits

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))
ranges = st.dictionaries(
    partitions,
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)).map(lambda p: (p[0], p[0] + p[1])),
)


@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 100))
def test_splits_cover_each_offset_once(wanted, min_partitions, max_records):
    found = splits(wanted, min_partitions, max_records)
    covered = [(s.topic_partition, o) for s in found for o in range(s.start, s.end)]
    expected = [(tp, o) for tp, (start, end) in sorted(wanted.items()) for o in range(start, end)]
    assert covered == expected
    assert all(s.size > 0 for s in found)
    if max_records is not None:
        assert all(s.size <= max_records for s in found)
    if min_partitions is not None:
        assert len(found) >= min(min_partitions, len(expected))


def test_large_partitions_are_cut_and_small_ones_are_not():
    wanted = {TopicPartition("t", 0): (0, 900), TopicPartition("t", 1): (5, 105)}
    found = splits(wanted, 10, None)
    assert [s.size for s in found] == [100] * 10
    assert len(splits(wanted, None, None)) == 2


@given(ranges, st.integers(1, 3000))
def test_a_limit_is_used_fully_and_never_exceeded(wanted, records):
    start = {tp: bounds[0] for tp, bounds in wanted.items()}
    end = {tp: bounds[1] for tp, bounds in wanted.items()}
    until = limited(start, end, records)
    taken = sum(until[tp] - start[tp] for tp in wanted)
    assert taken == min(records, sum(end[tp] - start[tp] for tp in wanted))
    assert all(start[tp] <= until[tp] <= end[tp] for tp in wanted)


@given(ranges, st.integers(1, 50))
def test_with_any_limit_the_end_is_reached(wanted, records):
    position = {tp: bounds[0] for tp, bounds in wanted.items()}
    end = {tp: bounds[1] for tp, bounds in wanted.items()}
    for _ in range(1 + sum(end[tp] - position[tp] for tp in wanted) // records):
        position = limited(position, end, records)
    assert position == end


def test_a_partition_that_lost_records_is_not_read_backwards():
    tp = TopicPartition("t", 0)
    assert limited({tp: 50}, {tp: 20}, 10) == {tp: 20}
