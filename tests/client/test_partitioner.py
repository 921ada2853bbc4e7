"""Partitions as the Java producer chooses them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.metadata import Partition, Topic
from odradek.client.partitioner import StickyPartitioner, murmur2, partition_for_key

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Signed, as Java has them."""


@pytest.mark.parametrize(("data", "expected"), KNOWN.items())
def test_known_hashes(data, expected):
    assert murmur2(data) == expected & 0xFFFFFFFF


@given(st.binary(max_size=40))
def test_as_another_client(data):
    from aiokafka.partitioner import murmur2 as other

    assert murmur2(data) == other(data) & 0xFFFFFFFF


@given(st.binary(), st.integers(1, 1000))
def test_a_key_always_goes_to_the_same_partition(key, count):
    partition = partition_for_key(key, count)
    assert 0 <= partition < count
    assert partition == partition_for_key(key, count)


def topic(leaders):
    partitions = {
        index: Partition(index, leader, 0, (1,), (1,), ()) for index, leader in enumerate(leaders)
    }
    return Topic("t", bytes(16), False, partitions)


def test_records_without_a_key_stick_for_a_batch():
    sticky = StickyPartitioner(random.Random(1).randbytes, 1000)
    chosen = [sticky.partition(topic([1] * 8), 100) for _ in range(100)]
    runs = [chosen[start : start + 10] for start in range(0, 100, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert len(set(chosen)) > 1


def test_partitions_without_a_leader_are_left_out():
    sticky = StickyPartitioner(random.Random(1).randbytes, 1)
    assert {sticky.partition(topic([-1, 1, -1, 1]), 1) for _ in range(50)} == {1, 3}


def test_without_any_leader_all_are_chosen_from():
    sticky = StickyPartitioner(random.Random(1).randbytes, 1)
    assert {sticky.partition(topic([-1, -1]), 1) for _ in range(50)} == {0, 1}
