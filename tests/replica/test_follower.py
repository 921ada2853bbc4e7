"""The requests of a fetcher, and its effects for responses."""

from __future__ import annotations

import pytest
from tests.replica.model_log import ModelLog

from odradek.core.replica.divergence import diverging_epoch, truncation_offset
from odradek.core.replica.effects import Append, ReplicaKey, RestartAt, Truncate
from odradek.core.replica.fetch_states import Status
from odradek.core.replica.follower import FetcherSettings, ReplicaFetcher
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from odradek.wire.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TOPIC_ID = b"0123456789abcdef"
KEYS = [ReplicaKey(TOPIC_ID, index) for index in range(3)]
SETTINGS = FetcherSettings(backoff_ms=100)


def log(*records: int) -> ModelLog:
    """A log with one record of each of these epochs."""
    made = ModelLog()
    made.append([(epoch, number) for number, epoch in enumerate(records)])
    return made


class Fixture:
    def __init__(self, count: int = 1, *records: int) -> None:
        self.fetcher = ReplicaFetcher(7, SETTINGS)
        self.logs = {key: log(*(records or (0, 0, 1))) for key in KEYS[:count]}
        for key, each in self.logs.items():
            assert self.fetcher.add(key, "topic", 3, each) == []

    def request(self, now_ms: int = 0) -> list[tuple[int, int]] | None:
        """The partitions of the next request with their offsets."""
        request = self.fetcher.request(now_ms, 70)
        if request is None:
            return None
        self.last = request
        return [(p.partition, p.fetch_offset) for t in request.topics for p in t.partitions]

    def respond(self, *parts: PartitionData, session_id=5, error=0, now_ms=0) -> list:
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(parts))]
        response = FetchResponse(session_id=session_id, error_code=error, responses=topics)
        return self.fetcher.responded(now_ms, response)

    def status(self, index: int = 0) -> Status:
        return self.fetcher.states[KEYS[index]].status

    def store(self, effects) -> None:
        """Append one record for each effect."""
        for effect in effects:
            assert isinstance(effect, Append)
            self.logs[effect.key].append([(3, 99)])
            self.fetcher.appended(effect.key, effect.leader_epoch)


def data(index: int = 0, error: int = 0, **fields) -> PartitionData:
    return PartitionData(partition_index=index, error_code=error, **fields)


def diverging(epoch: int, end_offset: int, index: int = 0) -> PartitionData:
    return data(index, diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset))


def test_a_request_says_who_fetches_and_from_where() -> None:
    one = Fixture()
    assert one.request() == [(0, 3)]
    request = one.last
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (7, 70)
    assert (request.session_id, request.session_epoch) == (0, 0)
    (partition,) = request.topics[0].partitions
    assert partition.current_leader_epoch == 3
    assert partition.last_fetched_epoch == 1
    assert one.request() is None  # one request at a time


def test_later_requests_have_only_what_has_changed() -> None:
    one = Fixture(3)
    assert one.request() == [(0, 3), (1, 3), (2, 3)]
    one.store(one.respond(data(1, records=b"r"), data(0), data(2)))
    assert one.request() == [(1, 4), (0, 4), (2, 4)]
    assert (one.last.session_id, one.last.session_epoch) == (5, 1)
    one.store(one.respond(data(1, records=b"r")))
    assert one.request() == [(1, 5)]
    assert one.last.session_epoch == 2
    one.respond()
    assert one.request() == []
    assert one.last.session_epoch == 3
    one.fetcher.remove(KEYS[2])
    one.respond()
    assert one.request() == []
    assert [each.partitions for each in one.last.forgotten_topics_data] == [[2]]


def test_an_append_has_what_the_response_says() -> None:
    one = Fixture()
    one.request()
    (effect,) = one.respond(data(records=b"r", high_watermark=9, log_start_offset=2))
    assert effect == Append(KEYS[0], 3, b"r", 9, 2)
    assert one.status() is Status.BUSY
    assert one.request() is None  # until the records are appended
    one.fetcher.appended(KEYS[0], 2)
    assert one.status() is Status.BUSY  # that was another epoch
    one.fetcher.appended(KEYS[0], 3)
    assert one.status() is Status.READY


def test_without_a_session_each_request_has_all_partitions() -> None:
    one = Fixture(2)
    for _ in range(2):
        assert one.request() == [(0, 3), (1, 3)]
        assert one.last.session_epoch == 0
        one.respond(session_id=0)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 5)],
)
def test_a_lost_session_is_opened_again_at_once(error, session_id) -> None:
    one = Fixture(2)
    one.request()
    one.respond()
    one.request()
    assert one.respond(error=error) == []
    assert one.request() == [(0, 3), (1, 3)]
    assert (one.last.session_id, one.last.session_epoch) == (session_id, 0)
    assert one.respond(error=error) == []
    assert one.request(99) is None  # the error of a full request causes a backoff
    assert one.request(100) == [(0, 3), (1, 3)]


def test_after_a_lost_connection_the_session_is_replaced_after_the_backoff() -> None:
    one = Fixture()
    one.request()
    one.respond()
    one.request()
    one.fetcher.disconnected(50)
    assert one.fetcher.deadline_ms() == 150
    assert one.request(149) is None
    assert one.request(150) == [(0, 3)]
    assert (one.last.session_id, one.last.session_epoch) == (5, 0)


def test_a_partition_with_an_error_waits_and_leaves_the_session() -> None:
    one = Fixture(2)
    one.request()
    one.respond(data(0, ErrorCode.UNKNOWN_LEADER_EPOCH), data(1))
    one.fetcher.appended(KEYS[1], 3)
    assert one.status() is Status.DELAYED
    assert one.fetcher.deadline_ms() == 0  # the other one
    assert one.request(10) == []
    assert [each.partitions for each in one.last.forgotten_topics_data] == [[0]]
    one.respond()
    assert one.request(99) == []
    assert one.fetcher.deadline_ms() == 100
    one.respond()
    assert one.request(100) == [(0, 3)]


def test_a_fenced_partition_waits_for_a_newer_epoch() -> None:
    one = Fixture()
    one.request()
    one.respond(data(0, ErrorCode.FENCED_LEADER_EPOCH))
    assert one.status() is Status.FAILED
    assert one.request(10_000) is None
    one.fetcher.add(KEYS[0], "topic", 4, one.logs[KEYS[0]])
    assert one.request() == [(0, 3)]
    assert one.last.topics[0].partitions[0].current_leader_epoch == 4


def test_a_response_for_an_earlier_position_is_ignored() -> None:
    one = Fixture()
    one.request()
    one.fetcher.add(KEYS[0], "topic", 4, one.logs[KEYS[0]])
    assert one.respond(data(records=b"r", high_watermark=3)) == []
    assert one.request() == [(0, 3)]
    # The leader would not send the high watermark again in the same session.
    assert (one.last.session_id, one.last.session_epoch) == (5, 0)
    one.fetcher.remove(KEYS[0])
    assert one.respond(data(records=b"r")) == []


def test_a_partition_that_is_added_again_goes_on() -> None:
    one = Fixture()
    one.request()
    assert one.fetcher.add(KEYS[0], "topic", 3, one.logs[KEYS[0]]) == []
    assert len(one.respond(data(records=b"r"))) == 1


def test_damaged_records_are_fetched_again_and_a_failed_disk_ends_it() -> None:
    one = Fixture(2)
    one.request()
    one.respond(data(0), data(1))
    one.fetcher.failed(0, KEYS[0], 3, is_final=False)
    one.fetcher.failed(0, KEYS[1], 3, is_final=True)
    assert (one.status(0), one.status(1)) == (Status.DELAYED, Status.FAILED)


def test_a_log_without_epochs_begins_at_its_high_watermark() -> None:
    made = ModelLog()
    made.records = [(0, 0), (0, 1)]
    made.high_watermark = 1
    fetcher = ReplicaFetcher(7, SETTINGS)
    assert fetcher.add(KEYS[0], "topic", 3, made) == [Truncate(KEYS[0], 3, 1)]


# -- divergence -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leader", "follower", "cuts"),
    [
        ((0, 0, 1, 1), (0, 0, 1), []),
        ((0, 0, 1, 1), (0, 0, 0), [2]),
        ((0, 0, 2), (0, 0, 1, 1), [2]),
        ((0, 0, 3), (0, 0, 0, 1, 2), [2]),
        ((1, 1, 3), (0, 0, 2), [2, 0]),
        ((0, 2, 2, 2, 4), (0, 1, 1, 3), [3, 1]),
        ((0, 0, 0, 5), (0, 0, 1, 1, 4), [2]),
        ((2, 2), (0, 1, 1), [0]),
    ],
)
def test_truncation_ends_where_the_logs_are_equal(leader, follower, cuts) -> None:
    """Each pair is a record's epoch; records of the same epoch and offset are equal."""
    one, other = log(*leader), log(*follower)
    one.epochs.assign(9, one.log_end_offset)  # the leader's own epoch
    found = []
    while other.records:
        diverges = diverging_epoch(one, other.leader_epoch, other.log_end_offset)
        if diverges is None:
            break
        found.append(truncation_offset(other, *diverges))
        assert found[-1] < other.log_end_offset
        other.truncate_to(found[-1])
    assert other.records == one.records[: len(other.records)]
    assert found == cuts


def test_an_epoch_that_the_leader_does_not_know_is_out_of_range() -> None:
    with pytest.raises(ApiError) as refused:
        diverging_epoch(log(0, 1), 2, 2)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_diverging_response_truncates_before_anything_is_fetched() -> None:
    one = Fixture(1, 0, 0, 2, 2)
    one.request()
    (effect,) = one.respond(diverging(0, 3))
    assert effect == Truncate(KEYS[0], 3, 2)
    one.logs[KEYS[0]].truncate_to(2)
    one.fetcher.appended(KEYS[0], 3)
    assert one.request() == [(0, 2)]
    assert one.last.topics[0].partitions[0].last_fetched_epoch == 0


# -- offsets out of range ---------------------------------------------------------------------


def out_of_range() -> Fixture:
    one = Fixture()
    one.request()
    assert one.respond(data(0, ErrorCode.OFFSET_OUT_OF_RANGE)) == []
    return one


def look_up(one: Fixture, timestamp: int, offset: int, error: int = 0) -> list:
    request = one.fetcher.lookup(0)
    ((wanted,),) = [topic.partitions for topic in request.topics]
    assert (request.replica_id, wanted.timestamp, wanted.current_leader_epoch) == (7, timestamp, 3)
    assert one.fetcher.lookup(0) is None
    answer = ListOffsetsPartitionResponse(offset=offset, error_code=error)
    topic = ListOffsetsTopicResponse(name="topic", partitions=[answer])
    return one.fetcher.looked_up(0, ListOffsetsResponse(topics=[topic]))


def test_a_leader_that_ends_earlier_truncates_its_follower() -> None:
    one = out_of_range()
    assert look_up(one, -1, 2) == [Truncate(KEYS[0], 3, 2)]
    assert one.status() is Status.BUSY


def test_a_leader_that_starts_later_makes_its_follower_start_there() -> None:
    one = out_of_range()
    assert look_up(one, -1, 50) == []
    assert look_up(one, -2, 40) == [RestartAt(KEYS[0], 3, 40)]


def test_a_leader_that_has_the_offset_now_is_asked_again() -> None:
    one = out_of_range()
    assert look_up(one, -1, 50) == []
    assert look_up(one, -2, 3) == []
    assert one.status() is Status.DELAYED


def test_lookups_that_fail() -> None:
    one = out_of_range()
    assert look_up(one, -1, -1, ErrorCode.FENCED_LEADER_EPOCH) == []
    assert one.status() is Status.FAILED
    one = out_of_range()
    assert look_up(one, -1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER) == []
    assert one.status() is Status.DELAYED
    one = out_of_range()
    one.fetcher.lookup(0)
    one.fetcher.lookup_failed(0)
    assert one.status() is Status.DELAYED


def test_a_lookup_of_a_partition_that_was_added_again_is_ignored() -> None:
    one = out_of_range()
    one.fetcher.lookup(0)
    one.fetcher.add(KEYS[0], "topic", 4, one.logs[KEYS[0]])
    one.fetcher.lookup_failed(0)
    assert one.status() is Status.READY
