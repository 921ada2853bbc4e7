"""Partitions as the Java producer chooses them."""

from __future__ import annotations

import random
from collections import Counter
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.core.partitioners import (
    KeyPartitioner,
    StickyPartition,
    murmur2,
    partition_for_key,
)
from odradek.client.core.topic_queues import TopicQueues
from odradek.client.metadata import Partition, Topic

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
    b"kafka": -798503068,
    "é".encode(): 186971271,
    "你好".encode(): 183567948,
    bytes(range(256)): -1948347274,
    b"\xff\xfe\x00\x01\x02": -1074705298,
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


def chosen(leaders, count, stick_bytes=1, *, is_full=True):
    draw = random.Random(1)
    queues = TopicQueues(topic(leaders), lambda: draw.getrandbits(31), stick_bytes)
    found = []
    for _ in range(count):
        found.append(queues.choose())
        queues.sticky.sent(100, is_full=is_full)
    return found


def test_records_without_a_key_stick_for_a_batch():
    found = chosen([1] * 8, 100, 1000)
    runs = [found[start : start + 10] for start in range(0, 100, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert len(set(found)) > 1


def test_they_stick_until_the_batch_is_complete_but_not_for_two():
    found = chosen([1] * 8, 100, 1000, is_full=False)
    runs = [found[start : start + 20] for start in range(0, 100, 20)]
    assert all(len(set(run)) == 1 for run in runs)
    assert len(set(found)) > 1


def test_partitions_without_a_leader_are_left_out():
    assert set(chosen([-1, 1, -1, 1], 50)) == {1, 3}


def test_without_any_leader_all_are_chosen_from():
    assert set(chosen([-1, -1], 50)) == {0, 1}


def test_partitions_with_more_waiting_batches_are_chosen_less():
    draw = random.Random(1)
    sticky = StickyPartition(lambda: draw.getrandbits(31), 1)
    found = Counter(sticky.choose([4, 5, 7], [0, 3, 2]) for _ in range(7000))
    assert found.keys() == {4, 5, 7}, "weights 4, 1 and 2"
    assert found[4] > found[7] > found[5]


def test_the_partitioners_of_librdkafka():
    assert KeyPartitioner("consistent_random").partition(b"kafka", 10) == crc32(b"kafka") % 10
    assert KeyPartitioner("consistent_random").partition(b"", 10) == -1
    assert KeyPartitioner("consistent").partition(None, 10) == crc32(b"") % 10
    assert KeyPartitioner("murmur2").partition(None, 10) == partition_for_key(b"", 10)
    assert KeyPartitioner("murmur2_random").partition(None, 10) == -1
    assert KeyPartitioner("murmur2_random").partition(b"", 10) == partition_for_key(b"", 10)
    assert KeyPartitioner("random").partition(b"kafka", 10) == -1
    assert KeyPartitioner("murmur2_random", ignores_keys=True).partition(b"kafka", 10) == -1
