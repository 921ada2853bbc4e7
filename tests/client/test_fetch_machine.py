"""The consumer's machine without a network: positions, sessions, errors, and late answers."""

from __future__ import annotations

import pytest
from tests.client.fetch_lab import (
    TIME_OF_DAY,
    Lab,
    T,
    U,
    batch,
    marker,
    partition,
    transactional,
)

from odradek.client.core.consumer import ConsumerMachine
from odradek.client.core.consumer_settings import ConsumerSettings
from odradek.client.core.fetch_settings import FetchSettings, ResetPolicy
from odradek.client.core.member_settings import MemberSettings
from odradek.client.core.offset_lookups import EARLIEST, LATEST
from odradek.client.errors import (
    BrokerError,
    CorruptRecordsError,
    DisconnectedError,
    MalformedResponseError,
    NoOffsetError,
    NoSuchTopicError,
)
from odradek.client.group_metadata import CommittedOffset
from odradek.model.errors import ErrorCode as E
from odradek.wire.generated.list_offsets_request import ListOffsetsRequest


def offsets(request):
    return {p.partition: p.fetch_offset for t in request.topics for p in t.partitions}


# -- reading on ----------------------------------------------------------------------------


def test_the_next_fetch_is_sent_when_the_last_chunk_is_begun():
    lab = Lab()
    lab.assign(T, U, at=0)
    lab.answer(data=[partition(batch(0, 2) + batch(2)), partition(batch(0), index=1)])
    assert not lab.pending(), "it would forget the partitions in the session"
    assert lab.machine.take().offsets() == [0, 1]
    lab.poll()
    assert not lab.pending(), "another chunk waits"
    assert lab.machine.take().offsets() == [2]
    assert lab.machine.take().topic_partition == U
    lab.poll()
    assert offsets(lab.pending()[0].request) == {0: 3, 1: 1}


def test_the_position_is_that_of_what_was_taken():
    lab = Lab()
    lab.assign(T, at=0)
    lab.answer(batch(0, 2), batch(2, 2))
    assert lab.position() == 0
    lab.machine.take()
    assert lab.position() == 2
    lab.machine.take()
    assert lab.position() == 4
    assert lab.machine.consumed()[T].leader_epoch == 0


def test_the_epoch_of_a_position_is_that_of_the_batch_before_it_also_of_a_marker():
    # With the epoch of the records, the next member of the group would find that this epoch ends before
    # the position, and read what follows a second time.
    lab = Lab()
    lab.assign(T, at=0)
    lab.answer(transactional(0, 7), marker(1, 7, committed=True, epoch=1))
    assert lab.read() == [0]
    assert lab.machine.position(T) == CommittedOffset(2, 1)


def test_a_part_of_a_batch_counts_as_read():
    lab = Lab()
    lab.assign(T, at=0)
    lab.answer(batch(0, 5))
    some = lab.machine.take()
    lab.machine.read_part(some, 2)
    assert lab.position() == 2
    lab.machine.take()
    assert lab.position() == 5, "the rest counts as read when the next batch is asked for"


def test_records_before_the_position_are_left_out():
    lab = Lab()
    lab.assign(T, at=3)
    lab.answer(batch(0, 5), batch(5, 2))
    some = lab.machine.take()
    assert (some.offsets(), some.keys(), len(some)) == ([3, 4], [b"k3", b"k4"], 2)
    assert [each.offset for each in some] == [3, 4]
    assert some.timestamps() == [1_003, 1_004]
    assert some.to_arrow().column("offset").to_pylist() == [3, 4]


def test_batches_can_be_limited():
    lab = Lab(records_max=2)
    lab.assign(T, at=1)
    lab.answer(batch(0, 5), batch(5, 1))
    taken = []
    while (some := lab.machine.take()) is not None:
        taken.append(some.offsets())
    assert taken == [[1, 2], [3, 4], [5]]


def test_sessions_name_only_what_has_changed():
    lab = Lab()
    lab.assign(T, U, at=0)
    assert offsets(lab.answer(batch(0), session_id=9)) == {0: 0, 1: 0}
    lab.read()
    assert offsets(lab.answer(session_id=9)) == {0: 1}
    lab.fetcher.pause(U, is_paused=True)
    lab.answer(session_id=9)
    request = lab.take().request
    assert (request.session_id, request.session_epoch) == (9, 3)
    assert [each.partitions for each in request.forgotten_topics_data] == [[1]]


@pytest.mark.parametrize("code", [E.FETCH_SESSION_ID_NOT_FOUND, E.INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_the_broker_has_dropped(code):
    lab = Lab()
    lab.assign(T, at=0)
    lab.answer(batch(0), session_id=9)
    lab.read()
    ask = lab.take()
    ask.on_answer(type(ask.response_class())(error_code=code), lab.now)
    lab.poll()
    request = lab.take().request
    assert offsets(request) == {0: 1}
    assert request.session_epoch == 0


# -- where reading begins ------------------------------------------------------------------


@pytest.mark.parametrize(("reset", "time"), [("earliest", EARLIEST), ("latest", LATEST)])
def test_without_an_offset_the_policy_decides(reset, time):
    lab = Lab(reset=reset)
    lab.assign(T)
    assert lab.position() is None
    assert lab.answer_lookup(offset=7) == time
    assert offsets(lab.take().request) == {0: 7}


def test_a_duration_is_counted_back_from_now():
    lab = Lab(reset=ResetPolicy("by_duration", 60_000))
    lab.assign(T)
    assert lab.answer_lookup(offset=-1) == TIME_OF_DAY - 60_000
    assert lab.answer_lookup(offset=50) == LATEST, "no record is as new"
    assert lab.position() == 50


def test_no_policy_is_an_error_and_seek_ends_it():
    lab = Lab(reset="none")
    lab.assign(T)
    with pytest.raises(NoOffsetError, match="t-0"):
        lab.machine.take()
    lab.poll()
    with pytest.raises(NoOffsetError):
        lab.machine.take()
    lab.fetcher.seek(T, 4)
    lab.poll()
    assert offsets(lab.take().request) == {0: 4}
    assert lab.machine.take() is None


def test_a_look_up_goes_on_after_errors_that_pass():
    lab = Lab()
    lab.assign(T)
    lab.answer_lookup(code=E.NOT_LEADER_OR_FOLLOWER)
    assert not lab.pending(ListOffsetsRequest)
    lab.pass_time(2_000)
    lab.fail(DisconnectedError("gone"), ListOffsetsRequest)
    lab.pass_time(3_000)
    lab.answer_lookup(offset=3)
    assert lab.position() == 3


def test_a_look_up_that_is_refused():
    lab = Lab()
    lab.assign(T)
    lab.answer_lookup(code=E.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        lab.machine.take()


def test_committed_offsets_that_did_not_come_in_time_are_asked_for_again():
    lab = Lab()
    settings = ConsumerSettings(
        FetchSettings(), MemberSettings("g", None, ""), api_timeout_ms=1_000
    )
    machine = ConsumerMachine(settings, lab.routes, lab.routes.random, lambda: TIME_OF_DAY)
    machine.assign([T])
    machine.poll(0)
    assert machine.next_deadline_ms == 1_000
    machine.poll(1_000)
    assert machine.next_deadline_ms == 2_000


def test_a_late_look_up_does_not_move_a_sought_position():
    lab = Lab()
    lab.assign(T)
    lab.fetcher.seek(T, 9)
    lab.poll()
    lab.answer_lookup(offset=2)
    assert lab.position() == 9


# -- the user changes its mind -------------------------------------------------------------


def test_a_late_fetch_does_not_move_a_sought_position():
    lab = Lab()
    lab.assign(T, at=0)
    lab.fetcher.seek(T, 5)
    lab.answer(batch(0, 3))
    assert lab.read() == []
    assert offsets(lab.answer(batch(5))) == {0: 5}
    assert lab.read() == [5]


def test_seek_drops_what_was_fetched():
    lab = Lab()
    lab.assign(T, at=0)
    lab.answer(batch(0), batch(1))
    lab.machine.take()
    lab.fetcher.seek(T, 0)
    lab.poll()
    lab.answer(batch(0), batch(1))
    assert lab.read() == [0, 1]


def test_a_paused_partition_keeps_what_was_fetched():
    lab = Lab()
    lab.assign(T, U, at=0)
    lab.answer(data=[partition(batch(0)), partition(batch(0), index=1)])
    lab.fetcher.pause(T, is_paused=True)
    assert lab.machine.take().topic_partition == U
    assert lab.machine.take() is None
    lab.poll()
    assert offsets(lab.answer()) == {1: 1}
    lab.fetcher.pause(T, is_paused=False)
    assert lab.machine.take().topic_partition == T


def test_a_revoked_partition_hands_out_nothing():
    lab = Lab()
    lab.assign(T, U, at=0)
    lab.answer(data=[partition(batch(0)), partition(batch(0), index=1)])
    lab.fetcher.revoke([T])
    assert [each.topic_partition for each in iter(lab.machine.take, None)] == [U]
    lab.fetcher.remove([T])
    lab.fetcher.add([T])
    lab.fetcher.seek(T, 8)
    assert lab.read() == []
    assert lab.position() == 8


# -- errors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        E.NOT_LEADER_OR_FOLLOWER,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.KAFKA_STORAGE_ERROR,
        E.OFFSET_NOT_AVAILABLE,
        E.UNKNOWN_TOPIC_ID,
        E.UNKNOWN_SERVER_ERROR,
    ],
)
def test_errors_that_pass(code):
    lab = Lab()
    lab.assign(T, at=4)
    lab.refuse(code)
    assert not lab.pending(), "after a pause"
    lab.pass_time(1_500)
    assert offsets(lab.answer(batch(4))) == {0: 4}
    assert lab.read() == [4]


def test_pauses_grow():
    lab = Lab()
    lab.assign(T, at=4)
    pauses = []
    for _ in range(5):
        lab.refuse(E.UNKNOWN_SERVER_ERROR)
        began = lab.now
        while not lab.pending():
            lab.pass_time(10)
        pauses.append(lab.now - began)
    assert 80 <= pauses[0] <= 130
    assert 800 <= pauses[-1] <= 1_210


def test_an_error_that_stays_is_told_each_time():
    lab = Lab()
    lab.assign(T, at=4)
    for _ in range(2):
        lab.refuse(E.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            lab.machine.take()
        assert lab.position() == 4
        lab.poll()


def test_one_partition_in_trouble_does_not_lose_the_records_of_another():
    lab = Lab()
    lab.assign(T, U, at=0)
    lab.answer(
        data=[partition(error_code=E.TOPIC_AUTHORIZATION_FAILED), partition(batch(0), index=1)]
    )
    with pytest.raises(BrokerError, match="t-0"):
        lab.machine.take()
    assert lab.machine.take().topic_partition == U


def test_a_connection_that_breaks():
    lab = Lab()
    lab.assign(T, at=4)
    lab.answer(session_id=3)
    lab.fail(DisconnectedError("gone"))
    lab.pass_time(1_500)
    request = lab.take().request
    assert (offsets(request), request.session_id, request.session_epoch) == ({0: 4}, 0, 0)


def test_damaged_records_are_named_and_fetched_again():
    lab = Lab()
    lab.assign(T, at=0)
    damaged = bytearray(batch(1, 3))
    damaged[-1] ^= 1
    lab.answer(batch(0), damaged)
    assert lab.machine.take().offsets() == [0]
    with pytest.raises(CorruptRecordsError, match=r"t-0.*offset 1"):
        lab.machine.take()
    assert lab.position() == 1
    lab.poll()
    lab.answer()  # the fetch that was sent ahead is late
    assert offsets(lab.answer(batch(1, 3))) == {0: 1}
    assert lab.read() == [1, 2, 3]


def test_records_that_contradict_their_header():
    lab = Lab(checks_crcs=False)
    lab.assign(T, at=0)
    wrong = bytearray(batch(0, 2))
    wrong[60] = 3  # the number of records
    lab.answer(wrong)
    some = lab.machine.take()
    for read in (
        some.values, some.keys, some.records, some.offsets, some.timestamps, some.to_arrow
    ):  # fmt: skip
        with pytest.raises(CorruptRecordsError, match=r"t-0.*offset 0"):
            read()
    assert lab.position() == 0, "it does not move past them"


def test_iteration_decodes_a_batch_in_pieces():
    lab = Lab(checks_crcs=False)
    lab.assign(T, at=3)
    lab.answer(batch(0, 600))
    some = lab.machine.take()
    assert [each.offset for each in some] == [each.offset for each in some.records()]
    assert [each.offset for each in some] == list(range(3, 600))
    wrong = bytearray(batch(600, 600))
    wrong[-1] = 2  # the number of headers of the last record
    lab.read()
    lab.answer(wrong)
    some = lab.machine.take()
    seen = []
    with pytest.raises(CorruptRecordsError, match="offset 600"):
        seen.extend(each.offset for each in some)
    assert seen == list(range(600, 600 + len(seen)))
    assert len(seen) in (0, 512)
    assert lab.position() == 600


def test_records_that_are_not_whole():
    lab = Lab()
    lab.assign(T, at=0)
    lab.answer(batch(0)[:-1])
    with pytest.raises(MalformedResponseError, match="no whole batch at offset 0"):
        lab.machine.take()


def test_a_partition_that_was_added_after_the_metadata_is_read():
    """A group assigns such a partition. The user gets no error, and the client asks for the topic again."""
    lab = Lab(partitions=1)
    lab.assign(U, at=0)
    assert lab.machine.take() is None
    for _ in range(10):
        lab.pass_time(100)
    assert lab.machine.take() is None
    lab.leaders = {0: (1, 0), 1: (1, 0)}
    lab.refresh()
    assert offsets(lab.take().request) == {1: 0}


def test_a_partition_and_a_topic_that_do_not_exist():
    lab = Lab(partitions=1)
    lab.assign(U, at=0)
    assert lab.machine.take() is None
    for _ in range(60):
        lab.pass_time(100)
    with pytest.raises(NoSuchTopicError, match="no partition 1"):
        lab.machine.take()
    lab = Lab(partitions=0)
    lab.assign(T, at=0)
    assert lab.machine.take() is None
    for _ in range(60):
        lab.pass_time(100)
    with pytest.raises(NoSuchTopicError, match="no such topic"):
        lab.machine.take()
    lab.leaders = {0: (1, 0)}
    lab.refresh()
    assert offsets(lab.take().request) == {0: 0}
