"""Journal, timers, placement and the form of records."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.placement import partition_for
from odradek.core.coordinator.record import MalformedRecord, decode, encode
from odradek.core.coordinator.result import NOTHING
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.records import MESSAGES, offset_commit, offset_tombstone
from odradek.model.java_hash import java_hash
from odradek.model.java_order import java_hash_order
from odradek.wire.generated.offset_commit_value import OffsetCommitValue


class Thing:
    name = "before"


@given(
    st.dictionaries(st.integers(0, 5), st.integers()),
    st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers())),
)
def test_the_journal_takes_everything_back(mapping, changes):
    journal, thing = Journal(), Thing()
    before = dict(mapping)
    for key, value in changes:
        if value is None:
            there = mapping.get(key)
            assert journal.remove(mapping, key) == there
        else:
            journal.put(mapping, key, value)
            journal.assign(thing, "name", value)
    journal.roll_back()
    assert mapping == before
    assert thing.name == "before"
    assert len(journal) == 0


def test_what_is_committed_stays():
    journal, mapping = Journal(), {}
    journal.put(mapping, 1, 2)
    journal.commit()
    journal.put(mapping, 1, 3)
    journal.roll_back()
    assert mapping == {1: 2}
    journal.pause()
    journal.put(mapping, 1, 4)
    assert len(journal) == 0


class Table:
    def __init__(self):
        self.now = 0
        self.table = TimerTable(lambda: self.now)

    def due(self, now):
        self.now = now
        taken = []
        while (timer := self.table.take_due()) is not None:
            taken.append(timer.key)
        return taken

    def schedule(self, key, delay):
        self.table.schedule(key, delay, lambda: NOTHING)


def test_a_timer_that_was_cancelled_because_of_records_comes_back_without_them():
    timers, journal = Table(), Journal()
    for key in ("kept", "replaced", "removed"):
        timers.schedule(key, 5)
        timers.table.cancel_recorded(key, journal)
        if key == "removed":
            journal.commit()
        elif key == "replaced":
            timers.schedule(key, 9)
        journal.roll_back()
    timers.table.cancel_recorded("none", journal)
    assert len(journal) == 0
    assert timers.due(5) == ["kept"]
    assert timers.due(9) == ["replaced"]


def test_timers_come_in_the_order_of_their_deadlines():
    timers = Table()
    for key, delay in (("c", 30), ("a", 10), ("b", 20)):
        timers.schedule(key, delay)
    assert timers.table.next_deadline_ms() == 10
    assert timers.due(9) == []
    assert timers.due(25) == ["a", "b"]
    assert "c" in timers.table
    assert "a" not in timers.table


def test_timers_are_pushed_back_and_brought_forward():
    timers = Table()
    timers.schedule("late", 10)
    timers.schedule("late", 50)
    timers.schedule("early", 50)
    timers.schedule("early", 5)
    timers.schedule("gone", 5)
    timers.table.cancel("gone")
    assert timers.due(20) == ["early"]
    assert timers.due(49) == []
    assert timers.due(50) == ["late"]
    assert timers.table.next_deadline_ms() is None


def test_a_thousand_heartbeats_leave_no_heap_behind():
    timers = Table()
    for now in range(0, 100_000, 10):
        timers.now = now
        timers.schedule(now % 70, 1000)
        timers.table.cancel((now + 30) % 70)
    assert len(timers.table) <= 70
    assert len(timers.table._heap) <= 300


@given(st.integers())
def test_timers_agree_with_a_simple_model(seed):
    chance = random.Random(seed)
    timers, model = Table(), {}
    for _ in range(200):
        key = chance.randrange(10)
        action = chance.randrange(4)
        if action < 2:
            delay = chance.randrange(100)
            timers.schedule(key, delay)
            model[key] = timers.now + delay
        elif action == 2:
            timers.table.cancel(key)
            model.pop(key, None)
        else:
            taken = timers.due(timers.now + chance.randrange(60))
            due = {each for each, deadline in model.items() if deadline <= timers.now}
            assert set(taken) == due
            assert [model[each] for each in taken] == sorted(model[each] for each in taken)
            for each in due:
                del model[each]
    assert len(timers.table) == len(model)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer-1", 35782224),
        ("polygenelubricants", -(2**31)),
        ("grüße", 98768023),
        ("日本語", 25921943),
        ("😀", 1772899),
    ],
)
def test_java_hash(text, value):
    assert java_hash(text) == value


def test_placement():
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("console-consumer-1", 50) == 24


def test_the_order_of_a_hash_map():
    # As a Java HashMap lists them.
    names = ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert java_hash_order(names) == ["sticky", "range", "roundrobin", "cooperative-sticky"]
    numbers = [
        int(each.removeprefix("protocol-"))
        for each in java_hash_order(f"protocol-{n}" for n in range(30))
    ]
    assert numbers[:15] == [25, 26, 27, 28, 29, 0, 20, 2, 21, 1, 22, 4, 23, 3, 24]
    assert numbers[15:] == [6, 5, 8, 7, 9, 14, 15, 16, 17, 18, 19, 10, 11, 12, 13]


@given(st.text(), st.text(), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.text())
def test_records_survive_their_bytes(group, topic, partition, offset, text):
    value = OffsetCommitValue(offset=offset, metadata=text, commit_timestamp=5)
    for record in (
        offset_commit(group, topic, partition, value),
        offset_tombstone(group, topic, partition),
    ):
        key, value_bytes = encode(record)
        again = decode(key, value_bytes, MESSAGES)
        assert again.key == record.key
        assert again.value == record.value


def test_a_retention_of_its_own_takes_the_version_that_has_one():
    record = offset_commit("g", "t", 0, OffsetCommitValue(expire_timestamp=7))
    assert record.version == 1
    assert encode(record)[1][:2] == b"\x00\x01"
    assert decode(*encode(record), MESSAGES).value.expire_timestamp == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"\x00", None), (b"\x00\x01", None), (b"\x00\x01\x00\x00\x00\x00", b"")],
)
def test_malformed_records(key, value):
    with pytest.raises(MalformedRecord):
        decode(key, value, MESSAGES)


def test_an_unknown_type_is_not_for_us():
    assert decode(b"\x7f\xff", b"", MESSAGES) is None
