"""Loading encoded commits has the same result as decoding and replaying them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.broker_config import BrokerConfig
from odradek.config.layers import BrokerLayers
from odradek.core.coordinator.record import CoordinatorRecord, decode, encode
from odradek.core.group.coordinator.machine import GroupMachine
from odradek.core.group.records import group_metadata_tombstone, offset_commit, offset_tombstone
from odradek.core.group.state import GroupState
from odradek.model.uuids import ZERO
from odradek.wire.generated.legacy_offset_commit_key import LegacyOffsetCommitKey
from odradek.wire.generated.legacy_offset_commit_value import LegacyOffsetCommitValue
from odradek.wire.generated.offset_commit_value import OffsetCommitValue

places = st.tuples(
    st.sampled_from(["g", "gg", "группа"]), st.sampled_from(["t", "topic"]), st.integers(0, 3)
)
values = st.builds(
    OffsetCommitValue,
    offset=st.integers(0, 2**62),
    leader_epoch=st.integers(-1, 5),
    metadata=st.sampled_from(["", "", "", "m", "n" * 200]),
    commit_timestamp=st.integers(0, 2**45),
    expire_timestamp=st.sampled_from([-1, -1, -1, 7]),
    topic_id=st.sampled_from([ZERO, b"a" * 16, b"b" * 16]),
)
records = st.one_of(
    st.builds(lambda place, value: offset_commit(*place, value), places, values),
    st.builds(lambda place: offset_tombstone(*place), places),
    st.builds(lambda place: group_metadata_tombstone(place[0]), places),
    st.builds(
        lambda place, offset: CoordinatorRecord(
            LegacyOffsetCommitKey(group=place[0], topic=place[1], partition=place[2]),
            LegacyOffsetCommitValue(offset=offset),
        ),
        places,
        st.integers(0, 9),
    ),
)


class StoppedClock:
    def now_ms(self):
        return 0

    def monotonic_ms(self):
        return 0


def machine():
    config = BrokerConfig(BrokerLayers({"node.id": "1", "process.roles": "broker"}))
    state = GroupState(config, StoppedClock(), random.Random(1).randbytes, lambda *_: None)
    made = GroupMachine(state)
    made.journal.recording = False
    return made


def contents(loaded):
    return loaded.offsets.committed, {
        group_id: type(group) for group_id, group in loaded.state.groups.items()
    }


@given(st.lists(records, max_size=40))
def test_the_fast_path_has_the_same_result(history):
    quick, long = machine(), machine()
    for offset, record in enumerate(history):
        key, value = encode(record)
        if not quick.quick_replay(offset, -1, key, value):
            quick.replay(offset, -1, -1, decode(key, value, quick.messages))
        long.replay(offset, -1, -1, decode(key, value, long.messages))
    assert contents(quick) == contents(long)


def test_common_commits_use_the_fast_path():
    loaded = machine()
    key, value = encode(offset_commit("g", "t", 5, OffsetCommitValue(offset=9, topic_id=b"x" * 16)))
    assert loaded.quick_replay(3, -1, key, value)
    assert loaded.offsets.of_group("g")["t"][5].offset == 9


USUAL_KEY, USUAL_VALUE = encode(
    offset_commit("g", "t", 5, OffsetCommitValue(offset=9, topic_id=b"x" * 16))
)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, USUAL_VALUE),
        (b"", USUAL_VALUE),
        (USUAL_KEY[:-1], USUAL_VALUE),
        (USUAL_KEY + b"\x00", USUAL_VALUE),
        (USUAL_KEY[:3], USUAL_VALUE),
        (b"\x00\x02" + USUAL_KEY[2:], USUAL_VALUE),
        (USUAL_KEY, None),
        (USUAL_KEY, USUAL_VALUE[:-1]),
        (USUAL_KEY, b"\x00\x03" + USUAL_VALUE[2:]),
    ],
)
def test_other_commits_do_not_use_the_fast_path(key, value):
    loaded = machine()
    assert not loaded.quick_replay(0, -1, key, value)
    assert not loaded.quick_replay(0, -1, key, value), "also when it comes again"


def test_transactional_commits_do_not_use_the_fast_path():
    assert not machine().quick_replay(0, 7, USUAL_KEY, USUAL_VALUE)
