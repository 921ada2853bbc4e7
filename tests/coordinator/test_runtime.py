"""Elections: loading, unloading, and a log that another writer has changed."""

from __future__ import annotations

import pytest

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.builder import RecordBatchBuilder


def code_of(bench, partition=0):
    with pytest.raises(ApiError) as refused:
        bench.runtime.shard(partition)
    return refused.value.code


def fill(bench, count):
    for n in range(count):
        bench.ask("put", f"name{n % 10}", n)
        bench.run()


def test_an_empty_log_is_ready_at_once(bench):
    assert bench.machine.heard == ["loaded"]


def test_a_partition_that_is_led_elsewhere(bench):
    assert code_of(bench, 3) is ErrorCode.NOT_COORDINATOR
    bench.topic.elsewhere.add(4)
    bench.runtime.load(4, 0)
    assert code_of(bench, 4) is ErrorCode.NOT_COORDINATOR


def test_a_new_coordinator_knows_what_the_old_one_did(bench):
    fill(bench, 50)
    bench.shard.write_in_transaction(7, 0, 0, bench.machine.put, "open", 1)
    bench.shard.write_in_transaction(8, 0, 0, bench.machine.put, "done", 2)
    bench.shard.complete_transaction(8, 0, 0, True, 0)
    bench.ask("drop", "name3")
    bench.run()
    numbers, pending, offsets = bench.machine.numbers, bench.machine.pending, bench.machine.offsets
    bench.runtime.unload(0)
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR
    bench.runtime.load(0, 2)
    assert code_of(bench) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.runtime.is_loading
    bench.run(1000)
    assert bench.machine.numbers == numbers
    assert bench.machine.pending == pending == {7: {"open": 1}}
    assert bench.machine.offsets == offsets
    assert len(bench.machine.journal) == 0
    bench.ask("put", "more", 1)
    bench.run()
    assert bench.machine.offsets[-1] == bench.log.end - 1


def test_what_was_loaded_above_the_high_watermark_is_shown_when_it_is_committed(replicated):
    """The log is loaded up to its end: the new leader commits what earlier leaders have left."""
    replicated.ask("put", "a", 1)
    replicated.run()
    replicated.log.commit()
    left = replicated.ask("put", "a", 2)
    replicated.run()
    assert (replicated.log.high, replicated.log.end) == (1, 2)
    replicated.runtime.unload(0, 2)
    assert left.exception().code is ErrorCode.NOT_COORDINATOR
    replicated.runtime.load(0, 3)
    replicated.run(100)
    looked, added = replicated.ask("look", "a"), replicated.ask("put", "b", 3)
    replicated.run(100)
    assert not looked.done()
    replicated.log.commit(2)
    assert looked.result() == 2
    assert not added.done()
    replicated.log.commit()
    assert added.result() == "b=3"


def test_resigning_sends_everyone_away(replicated):
    waiting = replicated.ask("put", "a", 1)
    replicated.run()
    open_batch = replicated.ask("put", "b", 2)
    machine = replicated.machine
    replicated.runtime.unload(0, 2)
    for each in (waiting, open_batch):
        assert each.exception().code is ErrorCode.NOT_COORDINATOR
    assert machine.heard[-1] == "unloaded"
    replicated.run(10_000)
    assert replicated.log.appends == 1, "what was not written is not written any more"


def test_an_old_resignation_changes_nothing(bench):
    bench.runtime.load(0, 5)
    bench.runtime.unload(0, 5)
    assert bench.ask("look", "a") is None
    bench.runtime.unload(0, 6)
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR


def test_a_second_election_does_not_load_again(bench):
    machine = bench.machine
    bench.runtime.load(0, 9)
    assert bench.machine is machine


def test_resigning_while_loading(bench):
    fill(bench, 50)
    bench.runtime.unload(0)
    bench.runtime.load(0, 2)
    bench.runtime.unload(0)
    bench.run(1000)
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR


def test_a_log_that_moved_is_read_again(bench):
    bench.ask("put", "a", 1)
    bench.run()
    bench.log.end += 1  # somebody else wrote
    answer = bench.ask("put", "b", 2)
    bench.run()
    assert answer.exception().code is ErrorCode.NOT_COORDINATOR
    bench.run(100)
    assert bench.machine.numbers == {"a": 1, "b": 2}, "what is in the log, is true"
    bench.ask("put", "c", 3)
    bench.run()
    assert bench.machine.numbers["c"] == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", b""), (b"\x00\x01junk", b""), (b"\x00\x02\x00\x01g", b"\x00\x63"), (None, b"")],
)
def test_a_damaged_log_is_not_coordinated(bench, key, value):
    bench.runtime.unload(0)
    builder = RecordBatchBuilder()
    builder.append(0, key, value)
    bench.log.append(builder.build())
    bench.runtime.load(0, 2)
    bench.run(100)
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR
    bench.log.batches.clear()
    bench.log.end = bench.log.high = 0
    bench.runtime.load(0, 3)
    assert bench.ask("look", "a") is None


def test_records_of_unknown_types_are_passed_over(bench):
    fill(bench, 3)
    bench.runtime.unload(0)
    builder = RecordBatchBuilder()
    builder.append(0, b"\x03\xe7what", b"ever")
    bench.log.append(builder.build())
    bench.runtime.load(0, 2)
    bench.run(100)
    assert len(bench.machine.numbers) == 3


def test_metadata_is_passed_on(bench):
    bench.runtime.on_metadata(MetadataDelta(EMPTY_IMAGE), EMPTY_IMAGE)
    assert bench.machine.heard[-1] is EMPTY_IMAGE


def test_all_can_be_asked(bench):
    bench.runtime.load(1, 0)
    bench.runtime.write_all(pytest.fail, lambda machine: machine.put("a", 1))
    bench.run()
    assert [machine.numbers for machine in bench.runtime.machines()] == [{"a": 1}] * 2
