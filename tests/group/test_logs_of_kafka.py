"""Logs that Apache Kafka 4.3.0 wrote, with groups of several clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.group.support import Coordinator

from odradek.core.coordinator.placement import partition_for
from odradek.core.coordinator.record import decode, encode
from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.records import MESSAGES
from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records

FIXTURES = Path(__file__).parents[1] / "fixtures" / "apache-kafka-4.3.0"
PARTITIONS = 3


def log(partition):
    return (FIXTURES / f"__consumer_offsets-{partition}.log").read_bytes()


def records(partition):
    for batch in iterate_batches(log(partition)):
        if not batch.is_control:
            yield from iterate_records(batch)


@pytest.fixture
def loaded():
    coordinator = Coordinator(offsets_topic_num_partitions=PARTITIONS)
    coordinator.groups.shutdown()
    for index in range(PARTITIONS):
        partition = coordinator.topic.partition(index)
        for batch in iterate_batches(log(index)):
            partition.batches.append(bytes(batch.data))
            partition.end = partition.high = batch.next_offset
    coordinator.start()
    yield coordinator
    coordinator.close()


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_every_record_is_written_as_it_was(partition):
    seen = 0
    for record in records(partition):
        decoded = decode(record.key, record.value, MESSAGES)
        if decoded is not None:
            seen += 1
            assert encode(decoded) == (record.key, record.value)
            group_id = getattr(decoded.key, "group", None) or decoded.key.group_id
            assert partition_for(group_id, PARTITIONS) == partition
    assert seen >= 4


def test_the_groups_have_the_recorded_states(loaded):
    groups = {
        group_id: group
        for machine in loaded.groups.runtime.machines()
        for group_id, group in machine.state.groups.items()
    }
    generations = {
        name: each.generation_id for name, each in groups.items() if isinstance(each, ClassicGroup)
    }
    assert generations.items() >= {"cfl-g": 2, "aio-g": 2, "kpy-g": 3, "kjs-g": 2}.items()
    assert "console-consumer-22146" not in groups, "it was deleted"
    assert {groups[name].state_name for name in ("cfl-g", "aio-g")} == {"Empty"}


def test_the_groups_have_the_recorded_offsets(loaded):
    assert loaded.committed("cfl-g") == {("cfl", 1): 50}
    assert loaded.committed("aio-g") == {("aio", 0): 5, ("aio", 1): 0}
    assert loaded.committed("fgo-g", require_stable=True) == {("jv", 0): 699, ("jv", 1): 804}
