"""When the leader moves the high watermark, and which changes of the ISR it requests."""

from __future__ import annotations

import pytest
from tests.replica.controller import broker_registration, partition_registration

from odradek.core.replica.effects import HighWatermark, IsrChange
from odradek.core.replica.leader import PartitionLeader
from odradek.model.errors import ApiError, ErrorCode

LAG_MS = 100


class Fixture:
    """Broker 1 leads; its log ends at 10 and its high watermark is 4."""

    def __init__(self, isr=(1, 2, 3), replicas=(1, 2, 3), min_insync_replicas=2) -> None:
        self.brokers = {each: broker_registration(each, 10 * each, False) for each in replicas}
        self.registration = partition_registration(replicas)._replace(isr=isr, partition_epoch=5)
        self.leader = PartitionLeader(
            1000,
            1,
            self.registration,
            self.brokers.get,
            end_offset=10,
            high_watermark=4,
            lag_time_max_ms=LAG_MS,
            min_insync_replicas=min_insync_replicas,
        )
        self.first = list(self.leader.advance(1000, 10, 10))

    def fetch(self, broker_id: int, offset: int, now_ms: int = 1000, start: int = 0) -> list:
        epoch = self.brokers[broker_id].epoch
        self.leader.check_follower(broker_id, epoch)
        return list(self.leader.fetched(now_ms, broker_id, epoch, offset, start))

    def answer(self, change: IsrChange, now_ms: int = 1000) -> list:
        """Report that the controller has made a change."""
        epoch = change.partition_epoch + 1
        isr = change.broker_ids
        return list(self.leader.altered(now_ms, change, change.leader_epoch, epoch, isr))


def test_the_high_watermark_is_the_lowest_end_of_the_isr() -> None:
    one = Fixture()
    assert one.first == []
    assert one.fetch(2, 9) == []
    assert one.fetch(3, 7) == [HighWatermark(7)]
    assert one.fetch(3, 12 - 2) == [HighWatermark(9)]
    assert one.fetch(3, 8) == []  # it does not go down
    assert one.leader.high_watermark == 9


@pytest.mark.parametrize(
    ("rack", "offset", "chosen"),
    [
        ("b", 5, 3),  # both have it; broker 3 has more
        ("b", 8, 3),  # only broker 3 has it
        ("b", 9, -1),  # the followers' logs end before it
        ("b", 0, 2),  # broker 3 has deleted it
        ("a", 5, -1),  # the leader's own rack
        ("c", 5, -1),  # broker 4 is not in sync
        ("d", 5, -1),  # broker 5 is fenced
        ("e", 5, -1),  # broker 6 lacks the listener
        ("f", 5, -1),  # nobody is there
    ],
)
def test_a_consumer_reads_from_the_follower_in_its_rack(rack, offset, chosen) -> None:
    one = Fixture(isr=(1, 2, 3, 5, 6), replicas=(1, 2, 3, 4, 5, 6))
    for broker, place in zip(one.brokers.values(), "abbcde", strict=True):
        listeners = {} if place == "e" else {"CLIENTS": None}
        one.brokers[broker.id] = broker._replace(
            rack=place, listeners=listeners, fenced=place == "d"
        )
    assert one.leader.nearest_follower("b", "CLIENTS", 0) == -1  # no follower has fetched yet
    one.fetch(2, 7)
    one.fetch(3, 8, start=1)
    for each in (4, 5, 6):
        one.fetch(each, 8)
    assert one.leader.nearest_follower(rack, "CLIENTS", offset) == chosen


def test_a_leader_without_followers_in_the_isr_commits_alone_if_that_is_enough() -> None:
    assert Fixture(isr=(1,), min_insync_replicas=1).first == [HighWatermark(10)]
    assert Fixture(isr=(1,)).first == []
    assert Fixture(isr=(1,), replicas=(1,)).first == [HighWatermark(10)]


def test_min_insync_replicas_can_change() -> None:
    one = Fixture(isr=(1,))
    assert one.leader.set_min_insync_replicas(1000, 1) == (HighWatermark(10),)


def test_records_count_when_they_are_stored() -> None:
    one = Fixture(isr=(1, 2))
    one.fetch(2, 10)
    assert one.leader.high_watermark == 10
    assert list(one.leader.advance(1000, 20, 10)) == []
    assert one.fetch(2, 20) == []
    assert list(one.leader.advance(1000, 20, 15)) == [HighWatermark(15)]


def test_a_follower_joins_with_all_records_of_the_earlier_epochs() -> None:
    one = Fixture(isr=(1, 2))
    one.fetch(2, 10)
    one.leader.advance(1000, 12, 12)
    assert one.fetch(3, 9) == []
    (change,) = one.fetch(3, 10)
    assert change.isr == ((1, 10), (2, 20), (3, 30))
    assert (change.leader_epoch, change.partition_epoch) == (0, 5)
    assert one.leader.isr == {1, 2}
    assert one.fetch(2, 12) == []  # the new member counts already
    assert one.fetch(3, 12) == [HighWatermark(12)]
    assert one.answer(change) == []
    assert one.leader.isr == {1, 2, 3}
    assert one.leader.pending is None


def test_a_new_leader_admits_nobody_below_the_start_of_its_epoch() -> None:
    one = Fixture(isr=(1, 2))
    assert one.leader.high_watermark == 4
    assert one.fetch(3, 9) == []


@pytest.mark.parametrize(
    ("fields", "joins"),
    [
        ({}, True),
        ({"fenced": True}, False),
        ({"in_controlled_shutdown": True}, False),
        ({"epoch": 29}, False),
    ],
    ids=str,
)
def test_who_may_join(fields, joins) -> None:
    one = Fixture(isr=(1, 2))
    one.brokers[3] = one.brokers[3]._replace(**fields)
    one.leader.check_follower(3, 30)
    assert bool(one.leader.fetched(1000, 3, 30, 10, 0)) is joins


def test_a_broker_that_is_not_registered_may_not_join() -> None:
    one = Fixture(isr=(1, 2))
    del one.brokers[3]
    assert not one.leader.fetched(1000, 3, 30, 10, 0)


def test_requests_without_a_broker_epoch_are_not_checked() -> None:
    one = Fixture(isr=(1, 2))
    one.leader.check_follower(3, -1)
    (change,) = one.leader.fetched(1000, 3, -1, 10, 0)
    # Broker 2 has not fetched yet.
    assert change.isr == ((1, 10), (2, -1), (3, -1))


def test_whose_requests_are_refused() -> None:
    one = Fixture()
    with pytest.raises(ApiError) as refused:
        one.leader.check_follower(4, 40)
    assert refused.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH
    with pytest.raises(ApiError) as refused:
        one.leader.check_follower(3, 29)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.leader.check_follower(3, 31)  # this broker's metadata are late


def test_a_follower_that_does_not_fetch_leaves() -> None:
    one = Fixture()
    one.fetch(2, 10, 1000)
    assert list(one.leader.tick(1100)) == []
    one.fetch(2, 10, 1090)
    (change,) = one.leader.tick(1101)
    assert change.broker_ids == {1, 2}
    assert list(one.leader.tick(1102)) == []  # one change at a time
    assert one.leader.high_watermark == 4  # the controller may not have made it
    assert one.answer(change, 1103) == [HighWatermark(10)]


def test_a_follower_with_all_records_need_not_fetch_to_stay() -> None:
    one = Fixture()
    one.fetch(2, 10)
    one.fetch(3, 10)
    assert list(one.leader.tick(10_000)) == []


def test_a_follower_that_is_always_a_little_behind_stays() -> None:
    one = Fixture(isr=(1, 2))
    now_ms, end = 1000, 10
    for _ in range(10):
        one.fetch(2, end - 1 if end > 10 else end, now_ms)
        end += 1
        one.leader.advance(now_ms, end, end)
        now_ms += LAG_MS // 2
        assert list(one.leader.tick(now_ms)) == []
    # From now on each fetch reaches only the leader's end of two requests ago.
    one.fetch(2, end - 2, now_ms)
    assert len(one.leader.tick(now_ms + LAG_MS)) == 1


def test_followers_that_caught_up_are_waited_for_although_they_are_not_in_the_isr() -> None:
    one = Fixture(isr=(1, 2))
    one.brokers[3] = one.brokers[3]._replace(fenced=True)
    one.fetch(2, 10)
    one.fetch(3, 10)
    one.leader.advance(1001, 12, 12)
    assert one.fetch(2, 12, 1002) == [HighWatermark(12)]  # a fenced broker cannot join
    one.brokers[3] = one.brokers[3]._replace(fenced=False)
    one.leader.advance(1003, 14, 14)
    one.leader.followers[3].fetched(1003, 30, 11, 0, 14)
    assert one.fetch(2, 14, 1004) == []
    assert one.fetch(2, 14, 1010 + LAG_MS) == []
    assert list(one.leader.advance(1010 + LAG_MS, 15, 14)) == [HighWatermark(14)]


# -- results of changes -----------------------------------------------------------------------


def expanding() -> tuple[Fixture, IsrChange]:
    one = Fixture(isr=(1, 2))
    (change,) = one.fetch(3, 10)
    return one, change


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_change_that_was_not_made_is_taken_back(error) -> None:
    one, change = expanding()
    assert list(one.leader.rejected(1000, change, error)) == []
    assert one.leader.pending is None
    assert one.leader.maximal_isr == {1, 2}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_a_change_that_may_have_been_made_counts_until_there_is_newer_metadata(error) -> None:
    one, change = expanding()
    assert list(one.leader.rejected(1000, change, error)) == []
    assert one.leader.maximal_isr == {1, 2, 3}
    one.leader.update(1000, one.registration._replace(partition_epoch=6))
    assert one.leader.pending is None
    assert one.leader.maximal_isr == {1, 2}


def test_after_other_errors_the_change_is_requested_again() -> None:
    one, change = expanding()
    assert list(one.leader.rejected(1000, change, ErrorCode.UNKNOWN_SERVER_ERROR)) == [change]


def test_results_of_other_changes_are_ignored() -> None:
    one, change = expanding()
    one.leader.update(1000, one.registration._replace(partition_epoch=7))
    assert one.answer(change) == []
    assert list(one.leader.rejected(1000, change, ErrorCode.INELIGIBLE_REPLICA)) == []
    (again,) = one.fetch(3, 10)
    assert one.answer(change) == []
    assert one.leader.pending is again


def test_metadata_that_the_response_has_announced_do_not_end_the_next_change() -> None:
    one = Fixture(isr=(1, 2, 3))
    one.fetch(2, 10)
    (shrink,) = one.leader.tick(1101)
    one.answer(shrink, 1102)
    (change,) = one.fetch(3, 10, 1103)
    late = one.registration._replace(isr=(1, 2), partition_epoch=6)
    assert list(one.leader.update(1104, late)) == []
    assert one.leader.pending is change
    assert list(one.leader.update(1104, one.registration)) == []  # older metadata
    assert one.leader.isr == {1, 2}


def test_a_change_with_a_replica_that_is_gone_ends() -> None:
    one, _ = expanding()
    one.leader.update(1000, one.registration._replace(replicas=(1, 2), directories=(b"", b"")))
    assert one.leader.pending is None
    assert list(one.leader.followers) == [2]


def test_the_same_leader_in_a_new_epoch() -> None:
    one = Fixture(isr=(1, 2, 3))
    one.fetch(2, 10)
    one.fetch(3, 10)
    one.leader.advance(1000, 20, 20)
    one.leader.update(1001, one.registration._replace(leader_epoch=1, partition_epoch=6, isr=(1,)))
    assert one.leader.epoch_start_offset == 20
    assert one.fetch(2, 19, 1002) == []
    (change,) = one.fetch(2, 20, 1003)
    assert (change.leader_epoch, change.partition_epoch) == (1, 6)


def test_the_low_watermark_is_that_of_the_live_replicas() -> None:
    one = Fixture()
    one.fetch(2, 10, start=3)
    one.fetch(3, 10, start=1)
    assert one.leader.low_watermark(5) == 1
    one.brokers[3] = one.brokers[3]._replace(fenced=True)
    assert one.leader.low_watermark(5) == 3
    assert one.leader.low_watermark(2) == 2
