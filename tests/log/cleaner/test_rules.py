"""The records that a round of cleaning keeps, compared with a simple model."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.cleaner.support import COMPACTED, clean, clean_wholly
from tests.log.support import (
    NOW_MS,
    LogWorkspace,
    batch,
    end_transaction,
    read_batches,
    read_records,
)

from odradek.log import PartitionLog
from odradek.log.cleaner.dict_offset_map import DictOffsetMap
from odradek.log.cleaner.offset_map import KEY_SIZE_MAX, OffsetMap, digest
from odradek.log.cleaner.offset_table import OffsetTable
from odradek.log.cleaner.round import Round
from odradek.log.errors import DamagedFile
from odradek.records.batch import BASE_OFFSET, RecordBatch
from odradek.records.compression import Codec
from odradek.records.record import Record

MAPS = (DictOffsetMap, OffsetTable)
KEYS = [b"a", b"b", b"c", b"d" * 40, b""]


@pytest.fixture(params=MAPS, autouse=True)
def _map_of_rounds(request, monkeypatch):
    """Run every test with both maps."""
    monkeypatch.setattr(Round, "new_map", request.param)


def put(log: PartitionLog, *records: tuple[bytes | None, bytes | None], **fields) -> int:
    """Append a batch, and return its first offset."""
    info = log.append_as_leader(batch(*records, **fields), 0)
    log.high_watermark = log.log_end_offset
    return info.base_offset


def kept(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_records(log)]


def open_log(workspace: LogWorkspace, **settings) -> PartitionLog:
    workspace.storage.verify_transactions = False
    return workspace.open(**{**COMPACTED, **settings})


def test_only_the_last_record_of_a_key_is_kept(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"b", b"2"), (b"c", b"1"))
    log.roll()
    put(log, (b"a", b"3"))

    assert clean(log, workspace) == 5

    assert kept(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1"), (5, b"a", b"3")]
    assert [each.base_offset for each in read_batches(log)] == [0, 3, 5]
    assert [each.last_offset for each in read_batches(log)] == [2, 4, 5]


def test_a_clean_part_loses_keys_that_the_dirty_part_has(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll()
    clean(log, workspace)
    put(log, (b"a", b"2"))
    log.roll()

    assert clean(log, workspace) == 3

    assert kept(log) == [(1, b"b", b"1"), (2, b"a", b"2")]
    assert len(log.segments) == 2, "both old segments became one"


def test_untouched_batches_are_copied_byte_by_byte(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"), (b"b", b"1"), codec=Codec.LZ4)
    log.roll()
    before = [bytes(each.data) for each in read_batches(log)]

    clean(log, workspace)

    assert [bytes(each.data) for each in read_batches(log)] == before


def clean_without_tombstones(log: PartitionLog, workspace: LogWorkspace) -> None:
    """Clean the whole log before and after the delete horizon of its tombstones."""
    clean(log, workspace)
    workspace.clock.ms += 2000
    log.cleaning.cleaned_to(0)
    clean(log, workspace)


def test_a_round_leaves_no_empty_batch(workspace):
    """The next round would leave another one (KAFKA-20452)."""
    log = open_log(workspace)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    log.roll()
    put(log, (b"b", b"1"))

    clean_without_tombstones(log, workspace)

    assert [(each.base_offset, each.count) for each in read_batches(log)] == [(2, 1)]


def test_the_last_committed_batch_stays_without_records(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    log.roll()

    clean_without_tombstones(log, workspace)

    assert [(each.base_offset, each.count) for each in read_batches(log)] == [(1, 0)]
    put(log, (b"b", b"1"))
    log.roll()
    put(log, (b"b", b"2"))
    clean(log, workspace)
    assert [(each.base_offset, each.count) for each in read_batches(log)] == [(2, 1), (3, 1)]


def test_records_without_a_key_go(workspace):
    log = workspace.open()  # not compacted yet: the setting was changed later
    log.append_as_leader(batch((None, b"x"), (b"a", b"1")), 0)
    log.high_watermark = log.log_end_offset
    log.roll()

    clean(log, workspace)

    assert kept(log) == [(1, b"a", b"1")]


def test_a_tombstone_goes_when_its_delete_horizon_has_passed(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"), timestamp=NOW_MS + 5)
    log.roll()

    clean(log, workspace)

    [_, second] = read_batches(log)
    assert second.delete_horizon_ms == NOW_MS + 1000
    assert second.max_timestamp == NOW_MS + 5
    found = read_records(log)
    assert [(each.offset, each.value) for each in found] == [(1, b"1"), (2, None), (3, b"1")]
    assert [each.timestamp for each in found] == [NOW_MS, NOW_MS + 5, NOW_MS + 5]

    workspace.clock.ms += 999
    put(log, (b"d", b"1"))
    log.roll()
    clean(log, workspace)
    assert (2, b"a", None) in kept(log)
    assert read_batches(log)[1].delete_horizon_ms == NOW_MS + 1000, "it is set once"

    workspace.clock.ms += 1
    put(log, (b"e", b"1"))
    log.roll()
    clean(log, workspace)
    assert kept(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1"), (5, b"e", b"1")]


def test_aborted_records_go_at_once_and_their_marker_later(workspace):
    log = open_log(workspace)
    fields = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), (b"b", b"2"), base_sequence=0, **fields)
    end_transaction(log, False, 7)
    put(log, (b"c", b"3"), base_sequence=2, **fields)
    end_transaction(log, True, 7)
    put(log, (b"z", b"4"))
    log.roll()

    clean(log, workspace)

    assert [(each.base_offset, each.count, each.is_control) for each in read_batches(log)] == [
        (0, 1, False),
        (3, 1, True),
        (4, 1, False),
        (5, 1, True),
        (6, 1, False),
    ]
    assert [each.first_offset for each in log.aborted_transactions(0, 100)] == [1]

    # The marker has no batches left. It gets a delete horizon now, and is removed afterwards.
    put(log, (b"y", b"5"))
    log.roll()
    clean(log, workspace)
    assert [each.base_offset for each in read_batches(log)] == [0, 3, 4, 5, 6, 7]
    assert read_batches(log)[1].delete_horizon_ms == NOW_MS + 1000
    assert log.aborted_transactions(0, 100) == []
    workspace.clock.ms += 1000
    put(log, (b"x", b"6"))
    log.roll()
    clean(log, workspace)
    assert [each.base_offset for each in read_batches(log)] == [0, 4, 5, 6, 7, 8]


def test_the_last_batch_of_a_producer_stays_without_records(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"), (b"b", b"1"), producer_id=7, producer_epoch=3, base_sequence=40)
    put(log, (b"a", b"2"), (b"b", b"2"))
    log.roll()

    clean(log, workspace)

    [emptied, _] = read_batches(log)
    assert (emptied.count, emptied.base_offset, emptied.last_offset) == (0, 0, 1)
    assert (emptied.producer_id, emptied.producer_epoch, emptied.last_sequence) == (7, 3, 41)
    log.close()
    log = workspace.reopen(**COMPACTED)
    assert log.producers.entries[7].next_sequence == 42


def test_the_last_batch_of_a_round_keeps_its_offset(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"))
    fields = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    put(log, (b"a", b"2"), base_sequence=0, **fields)
    end_transaction(log, False, 7)
    log.expire_producers()
    log.producers.entries.clear()
    log.roll()
    clean(log, workspace)
    put(log, (b"b", b"1"))
    log.roll()
    assert log.segments[0].next_offset() == 3


def test_nothing_of_an_open_transaction_is_cleaned(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"))
    log.roll()
    fields = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    put(log, (b"a", b"2"), base_sequence=0, **fields)
    log.roll()
    put(log, (b"a", b"3"))
    log.roll()

    assert clean(log, workspace) == 1
    assert len(read_records(log)) == 3


def test_a_damaged_batch_is_not_copied(workspace):
    log = open_log(workspace)
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll()
    path = log.segments[0].path(".log")
    with open(path, "r+b") as file:
        file.seek(70)
        file.write(b"\xff")

    with pytest.raises(DamagedFile, match="checksum"):
        clean(log, workspace)
    assert not [name for name in workspace.files() if "cleaned" in name]


def test_a_full_map_ends_the_round_and_the_next_goes_on(workspace):
    log = open_log(workspace)
    put(log, *[(b"%d" % number, b"old") for number in range(10)])
    put(log, *[(b"%d" % number, b"new") for number in range(10)])
    log.roll()

    assert clean(log, workspace, entries_max=4) == 4
    assert len(read_records(log)) == 20
    assert clean_wholly(log, workspace, entries_max=4) == 20
    assert kept(log) == [(10 + number, b"%d" % number, b"new") for number in range(10)]


def _added(offset_map: OffsetMap, base_offset: int, *keys: bytes | None) -> bool:
    data = bytearray(batch(*((key, b"value") for key in keys)))
    BASE_OFFSET.pack_into(data, 0, base_offset)
    one = RecordBatch(data)
    return offset_map.add_batch(one, bytes(one.payload))


@pytest.mark.parametrize("new_map", MAPS)
def test_a_map_is_bounded_by_memory(new_map):
    bounded = new_map(0, 100_000)
    number = 0
    while _added(bounded, number, b"%016d" % number):
        number += 1
    assert 600 < number < 1100
    assert not _added(bounded, number, b"another")
    assert bounded.latest_offset == number - 1
    assert bounded.utilization > 0.99


@pytest.mark.parametrize("new_map", MAPS)
def test_a_batch_that_fits_in_part_is_added_in_part(new_map):
    bounded = new_map(2, 1e9, 3)
    assert _added(bounded, 0, b"a", b"b", b"c")
    assert bounded.latest_offset == 2
    assert not _added(bounded, 3, b"d", None, b"e", b"f", b"g")
    assert bounded.latest_offset == 5


@settings(max_examples=200)
@given(st.data())
def test_both_maps_keep_the_same_records(draw):
    keys = st.sampled_from([None, *KEYS, b"e" * 15, b"f" * 16, b"f" * 17, b"g" * 300])
    record = st.tuples(keys, st.one_of(st.none(), st.binary(max_size=90)))
    logs = draw.draw(st.lists(st.lists(record, min_size=1, max_size=20), min_size=1, max_size=8))
    batches = []
    for records in logs:
        data = bytearray(batch(*records))
        BASE_OFFSET.pack_into(data, 0, batches[-1].next_offset if batches else 0)
        batches.append(RecordBatch(data))
    first = draw.draw(st.integers(0, batches[-1].last_offset))
    size = draw.draw(st.sampled_from([1, 3, 5, 1000]))
    maps = [new_map(first, 1e6, size) for new_map in MAPS]
    for each in batches:
        payload = bytes(each.payload)
        if each.last_offset >= first:
            one, other = (offset_map.add_batch(each, payload) for offset_map in maps)
            assert one == other
            if not one:
                break
    assert maps[0].latest_offset == maps[1].latest_offset
    for offset_map in maps:
        offset_map.finish()
    for each in batches:
        payload = bytes(each.payload)
        for drop in (False, True):
            one, other = (offset_map.survivors(each, payload, drop) for offset_map in maps)
            assert one == other
            if not drop and one.spans:
                assert all(offset_map.has_survivors(each) for offset_map in maps)


def test_many_keys_are_told_apart():
    count, rounds = 3000, 3
    table = OffsetTable(0, 1e9)
    keys = [b"%d" % number * (1 + number % 7) for number in range(count)]
    for number in range(rounds):
        assert _added(table, number * count, *keys)
    table.finish()
    data = bytearray(batch(*((key, b"") for key in keys)))
    for number in range(rounds):
        BASE_OFFSET.pack_into(data, 0, number * count)
        one = RecordBatch(data)
        expected = count if number + 1 == rounds else 0
        assert table.has_survivors(one) == (expected > 0)
        assert len(table.survivors(one, bytes(one.payload), False).spans) == expected


def test_a_table_refuses_a_batch_that_its_header_does_not_describe():
    data = bytearray(batch((b"a", b"1"), (b"b", b"2")))
    one = RecordBatch(data)
    payload = bytes(one.payload)
    for damaged in (payload[:-1], payload + b"\0", payload[:3] + b"\7" + payload[4:]):
        with pytest.raises(DamagedFile):
            OffsetTable(0, 1e9).add_batch(one, damaged)


def test_long_keys_are_told_apart_from_digests(workspace):
    log = open_log(workspace, segment_bytes=100_000)
    long = b"k" * (KEY_SIZE_MAX + 1)
    huge = b"k" * 5000
    put(log, (long, b"1"), (digest(long), b"1"), (huge, b"1"), (b"", b"1"))
    put(log, (long, b"2"), (huge, b"2"), (b"", b"2"))
    log.roll()
    clean(log, workspace)
    assert kept(log) == [(1, digest(long), b"1"), (4, long, b"2"), (5, huge, b"2"), (6, b"", b"2")]


# -- against a model ------------------------------------------------------------------------------

data_records = st.tuples(
    st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=90)), st.integers(0, 50)
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.lists(data_records, min_size=1, max_size=6),
            st.sampled_from([Codec.NONE, Codec.LZ4, Codec.GZIP]),
            st.sampled_from([None, 1, 2]),
        ),
        st.tuples(st.just("end"), st.sampled_from([1, 2]), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("clean"), st.sampled_from([None, 1, 2, 3])),
        st.tuples(st.just("wait"), st.integers(1, 800)),
    ),
    max_size=30,
)


class Model:
    """All appended records, and which of them must, may or must not be in the log."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.transaction_of: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.aborted: set[int] = set()
        self.sequences = {1: 0, 2: 0}
        self.tombstones_may_go = False

    def check(self, log: PartitionLog, clean_to: int) -> None:
        found = {record.offset: record for each in _data(log) for record in each}
        last: dict[bytes, int] = {}
        for offset, record in self.records.items():
            if offset < clean_to and offset not in self.aborted:
                last[record.key] = offset
        for offset, record in self.records.items():
            if offset in self.aborted:
                # A round that ends inside a segment may remove aborted records after its end.
                assert offset >= clean_to or offset not in found
            elif offset >= clean_to:
                assert found[offset][1:5] == record[1:5], "what is not clean is untouched"
            elif last[record.key] != offset:
                assert offset not in found
            elif record.value is not None or offset in found:
                assert found[offset][1:5] == record[1:5]
            else:
                assert self.tombstones_may_go, "a tombstone went early"
        assert set(found) <= set(self.records)


def _data(log: PartitionLog) -> list[list[Record]]:
    from odradek.records.record import iterate_records

    return [list(iterate_records(each)) for each in read_batches(log) if not each.is_control]


@settings(max_examples=60)
@given(steps)
def test_rounds_agree_with_the_model(script):
    with tempfile.TemporaryDirectory() as path:
        workspace = LogWorkspace(path)
        workspace.storage.verify_transactions = False
        log = workspace.open(**COMPACTED)
        model = Model()
        clean_to = 0
        for step in script:
            match step:
                case ("put", records, codec, producer):
                    _put(log, model, records, codec, producer)
                case ("end", producer, committed):
                    if producer in model.open:
                        offsets = model.open.pop(producer)
                        end_transaction(log, committed, producer)
                        if not committed:
                            model.aborted.update(offsets)
                case ("roll",):
                    log.roll()
                case ("clean", entries_max):
                    log.roll()
                    clean_to = max(clean_to, _clean(log, workspace, entries_max, clean_to))
                    model.check(log, clean_to)
                case ("wait", milliseconds):
                    workspace.clock.ms += milliseconds
                    model.tombstones_may_go |= workspace.clock.ms >= NOW_MS + 1000
        end = log.log_end_offset
        before = read_records(log)
        log.close()
        log = workspace.reopen(arguments={"recovery_point": 0}, **COMPACTED)
        assert log.log_end_offset == end
        assert read_records(log) == before
        log.close()


def _put(log, model, records, codec, producer) -> None:
    fields = {}
    if producer is not None:
        fields = {
            "producer_id": producer,
            "producer_epoch": 0,
            "base_sequence": model.sequences[producer],
            "is_transactional": True,
        }
        model.sequences[producer] += len(records)
    from odradek.records.builder import RecordBatchBuilder

    builder = RecordBatchBuilder(codec=codec, **fields)
    for key, value, age in records:
        builder.append(NOW_MS - age, key, value, headers=[("h", b"x")] if age == 7 else ())
    info = log.append_as_leader(builder.build(), 0)
    log.high_watermark = log.log_end_offset
    for number, (key, value, age) in enumerate(records):
        offset = info.base_offset + number
        headers = (("h", b"x"),) if age == 7 else ()
        model.records[offset] = Record(offset, NOW_MS - age, key, value, headers)
        if producer is not None:
            model.open.setdefault(producer, []).append(offset)


def _clean(log, workspace, entries_max, clean_to) -> int:
    from odradek.log.cleaner.facts import facts_of
    from odradek.log.cleaner.planning import find_cleanable

    cleanable = find_cleanable(facts_of(log), workspace.clock.now_ms())
    return clean(log, workspace, entries_max) if cleanable.dirty_bytes else clean_to
