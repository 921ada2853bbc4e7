"""ShareFetch and ShareAcknowledge of a running broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from compat.lab.wire_client import WireClient
from tests.node.test_metrics import scrape
from tests.share.member import Member, configure, errors, offsets, results

from odradek.client.admin.quotas import alter_quotas
from odradek.client.cluster import Cluster
from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.generated.delete_records_response import DeleteRecordsResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.share_fetch_request import ShareFetchRequest

SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {**SETTINGS, "odradek.metrics.port": "0"}
    with Broker(topics={"jobs": 2}, settings=settings) as started:
        yield started


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(int(broker.bootstrap_servers.rpartition(":")[2])) as connected:
        yield connected


def topic_id(client: WireClient, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    found = client.call("Metadata", 12, request, MetadataResponse)
    return found.topics[0].topic_id


def test_records_are_acquired_acknowledged_and_delivered_again(client: WireClient) -> None:
    group = "all-kinds"
    configure(client, group, share_auto_offset_reset="earliest")
    first = client.end_offsets("jobs", 1)[0]
    for value in (b"one", b"two", b"three", b"four"):
        assert client.produce_one("jobs", value) == 0
    last = first + 3
    member = Member(client, group, "member-1", topic_id(client, "jobs"))
    member.join("jobs")
    response = member.fetch(0, max_wait_ms=30_000)
    assert response.error_code == 0, response
    (result,) = results(response)
    assert response.acquisition_lock_timeout_ms == 30_000
    assert offsets(result) == list(range(first, last + 1)), result
    assert [(each.first_offset, each.last_offset) for each in result.acquired_records] == [
        (first, last)
    ]
    # accept, release, reject, and nothing for the last one
    assert errors(member.acknowledge((first, first + 2, [1, 2, 3]))) == [0]
    assert member.acquired() == [(first + 1, first + 1, 2)]
    assert errors(member.acknowledge((first + 1, first + 1, [1]))) == [0]
    # a closed session releases the rest
    response = member.fetch(epoch=-1)
    assert response.error_code == 0
    other = Member(client, group, "member-2", member.topic_id)
    assert other.acquired(0, max_wait_ms=30_000) == [(last, last, 2)]
    assert errors(other.acknowledge((last, last, [1]), epoch=-1)) == [0]
    assert member.fetch(epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_metrics_of_a_share_partition(broker: Broker, client: WireClient) -> None:
    member = joined(client, "measured")
    first = produced(client, 3)
    while member.acquired(max_wait_ms=30_000)[-1][1] < first + 2:
        pass
    before = scrape(broker)
    assert errors(member.acknowledge((first, first + 1, [1]))) == [0]
    after = scrape(broker)
    accepted = (
        "kafka_server_sharegroupmetrics_recordacknowledgements_total",
        frozenset({("ackType", "Accept")}),
    )
    assert after[accepted] - before[accepted] == 2
    of = {"group": "measured", "topic": "jobs", "partition": "0"}.items()
    in_flight = ("kafka_server_sharepartitionmetrics_inflightmessagecount", frozenset(of))
    start = ("odradek_share_partition_start_offset", frozenset(of))
    assert (before[in_flight], after[in_flight], after[start]) == (3, 1, first + 2)
    sessions = ("kafka_server_sharesessioncache_sharesessionscount", frozenset[tuple[str, str]]())
    assert after[sessions] >= 1


def produced(client: WireClient, count: int) -> int:
    """Write records, one in each batch; return the offset of the first one."""
    first = client.end_offsets("jobs", 1)[0]
    for number in range(count):
        assert client.produce_one("jobs", b"job %d" % number) == 0
    return first


def joined(client: WireClient, group: str, **settings: str) -> Member:
    """Return a member of a new group that begins at the end of the log, after its first fetch."""
    if settings:
        configure(client, group, **settings)
    member = Member(client, group, "first", topic_id(client, "jobs"))
    member.join("jobs")
    begun(member)
    return member


def begun(member: Member) -> None:
    """Open the session, and wait until the share partition is loaded."""
    end = member.client.end_offsets("jobs", 1)[0]
    response = member.fetch(0, max_wait_ms=30_000, min_bytes=0)
    assert response.error_code == 0, response
    assert all(not each.error_code for each in results(response)), response
    assert end == member.client.end_offsets("jobs", 1)[0]


def test_a_lock_expires_after_its_duration_and_is_renewed(client: WireClient) -> None:
    member = joined(client, "locks", share_record_lock_duration_ms="1000")
    first = produced(client, 2)
    assert member.acquired(max_wait_ms=30_000, min_bytes=1)[0][0] == first
    # the records are delivered again without an acknowledgement, and the old lock has ended
    found: list[tuple[int, int, int]] = []
    while sum(last - begin + 1 for begin, last, _ in found) < 2:
        found += [each for each in member.acquired(max_wait_ms=30_000) if each[2] == 2]
    response = member.fetch(
        0,
        acknowledge=[(first, first, [4])],
        is_renew_ack=True,
        max_records=0,
        min_bytes=0,
        max_bytes=0,
    )
    assert [each.acknowledge_error_code for each in results(response)] == [0]
    assert response.acquisition_lock_timeout_ms == 1000
    assert errors(member.acknowledge((first, first + 1, [4]), is_renew_ack=True)) == [0]
    assert errors(member.acknowledge((first, first + 1, [1]))) == [0]


def test_a_record_is_delivered_at_most_as_often_as_allowed(client: WireClient) -> None:
    member = joined(client, "deliveries", share_delivery_count_limit="2")
    first = produced(client, 1)
    assert member.acquired(max_wait_ms=30_000) == [(first, first, 1)]
    assert errors(member.acknowledge((first, first, [2]))) == [0]
    assert member.acquired(max_wait_ms=30_000) == [(first, first, 2)]
    assert errors(member.acknowledge((first, first, [2]))) == [0]
    second = produced(client, 1)
    assert member.acquired(max_wait_ms=30_000) == [(second, second, 1)]


def test_errors_of_sessions(client: WireClient) -> None:
    member = joined(client, "sessions")
    invalid, missing = (
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
    )
    assert member.fetch(epoch=7).error_code == invalid
    assert member.acknowledge((0, 0, [1]), epoch=7).error_code == invalid
    assert member.acknowledge((0, 0, [1]), epoch=0).error_code == invalid
    stranger = Member(client, "sessions", "stranger", member.topic_id)
    assert stranger.fetch(epoch=1).error_code == missing
    assert stranger.fetch(epoch=-1).error_code == missing
    assert stranger.acknowledge((0, 0, [1]), epoch=1).error_code == missing
    with_acknowledgement = stranger.fetch(0, acknowledge=[(0, 0, [1])])
    assert with_acknowledgement.error_code == ErrorCode.INVALID_REQUEST
    for wrong in ("", "x" * 37):
        nobody = Member(client, "sessions", wrong, member.topic_id)
        assert nobody.fetch(0).error_code == ErrorCode.INVALID_REQUEST
    assert member.fetch(is_renew_ack=True).error_code == ErrorCode.INVALID_REQUEST


BAD = (
    ((1, 0, [1]), ErrorCode.INVALID_REQUEST),
    ((0, 0, []), ErrorCode.INVALID_REQUEST),
    ((0, 3, [1, 1]), ErrorCode.INVALID_REQUEST),
    ((0, 0, [5]), ErrorCode.INVALID_REQUEST),
    ((0, 0, [-1]), ErrorCode.INVALID_REQUEST),
    ((0, 0, [4]), ErrorCode.INVALID_REQUEST),
    ((0, 1000, [1]), ErrorCode.INVALID_REQUEST),
    ((1000, 1000, [1]), ErrorCode.INVALID_REQUEST),
)
"""Acknowledgements relative to the first record in flight, and their errors."""


def test_wrong_acknowledgements_change_nothing(client: WireClient) -> None:
    member = joined(client, "wrong")
    first = produced(client, 2)
    while member.acquired(max_wait_ms=30_000)[-1][1] < first + 1:
        pass
    for (begin, last, kinds), error in BAD:
        assert errors(member.acknowledge((first + begin, first + last, kinds))) == [error]
    other = Member(client, "wrong", "other", member.topic_id)
    begun_other = other.fetch(0)
    assert begun_other.error_code == 0
    foreign = other.acknowledge((first, first, [1]))
    assert errors(foreign) == [ErrorCode.INVALID_RECORD_STATE]
    unknown = Member(client, "wrong", "unknown", b"\1" * 16)
    response = unknown.fetch(0)
    assert [each.error_code for each in results(response)] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert errors(unknown.acknowledge((0, 0, [1]))) == [ErrorCode.UNKNOWN_TOPIC_ID]
    response = member.fetch(7)
    assert [each.error_code for each in results(response)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert errors(member.acknowledge((first, first + 1, [1]))) == [0]
    again = member.acknowledge((first, first, [1]))
    assert errors(again) == [0]  # before the start offset


def test_exactly_as_many_records_as_requested(client: WireClient) -> None:
    member = joined(client, "limit")
    first = produced(client, 5)
    found = member.acquired(max_wait_ms=30_000, share_acquire_mode=1, max_records=2)
    assert found == [(first, first + 1, 1)] or found == [(first, first, 1)]
    assert member.fetch(share_acquire_mode=9).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_lost_connection_releases_the_records(broker: Broker, client: WireClient) -> None:
    member = joined(client, "lost")
    with WireClient(int(broker.bootstrap_servers.rpartition(":")[2])) as short:
        lost = Member(short, "lost", "lost", member.topic_id)
        assert lost.fetch(0).error_code == 0
        first = produced(client, 1)
        assert lost.acquired(max_wait_ms=30_000) == [(first, first, 1)]
    assert member.acquired(max_wait_ms=30_000) == [(first, first, 2)]


def test_a_group_whose_last_member_is_lost_while_it_waits_needs_no_memory(
    broker: Broker, client: WireClient
) -> None:
    partitions = broker.node.broker.share_partitions
    with WireClient(int(broker.bootstrap_servers.rpartition(":")[2])) as short:
        member = joined(short, "waiting")
        waiting = ShareFetchRequest(
            group_id="waiting",
            member_id="first",
            share_session_epoch=member.epoch,
            max_wait_ms=3_600_000,
            min_bytes=1,
            max_records=1,
            batch_size=1,
        )
        short.send(short.frame("ShareFetch", 2, waiting))
    while partitions.sessions.group_size("waiting"):
        time.sleep(0.005)
    for _ in range(5):  # the request that waited ends within two iterations of the event loop
        client.metadata()
    assert "waiting" not in partitions.settings._known


def test_records_that_are_deleted_are_skipped(client: WireClient) -> None:
    member = joined(client, "deleted")
    first = produced(client, 3)
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="jobs",
                partitions=[DeleteRecordsPartition(partition_index=0, offset=first + 2)],
            )
        ],
        timeout_ms=10_000,
    )
    assert client.call("DeleteRecords", 2, request, DeleteRecordsResponse)
    assert member.acquired(max_wait_ms=30_000) == [(first + 2, first + 2, 1)]


def test_acknowledgements_survive_a_restart() -> None:
    with Broker(topics={"jobs": 1}, settings=SETTINGS) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        with WireClient(port) as client:
            member = joined(client, "restart")
            first = produced(client, 3)
            while member.acquired(max_wait_ms=30_000)[-1][1] < first + 2:
                pass
            assert errors(member.acknowledge((first + 1, first + 1, [1]))) == [0]
            key = member.topic_id
        broker.restart()
        with WireClient(port) as client:
            member = Member(client, "restart", "second", key)
            found: list[tuple[int, int, int]] = []
            while len(found) < 2:
                response = member.fetch(0, max_wait_ms=1000, epoch=0)
                found += [
                    (each.first_offset, each.last_offset, each.delivery_count)
                    for result in results(response)
                    for each in result.acquired_records
                ]
            assert [(begin, last) for begin, last, _ in found] == [
                (first, first),
                (first + 2, first + 2),
            ]


def test_a_client_that_exceeds_its_quota_gets_its_records_and_rests(
    broker: Broker, client: WireClient
) -> None:
    member = joined(client, "limited")
    first = produced(client, 1)
    with Cluster(broker.bootstrap_servers) as cluster:
        limit = (("client-id", "compat"),)
        alter_quotas(cluster, limit, {"consumer_byte_rate": 1})
        try:
            response = member.fetch(0, max_wait_ms=30_000)
            (result,) = results(response)
            assert [each.first_offset for each in result.acquired_records] == [first]
            assert response.throttle_time_ms > 1_000
        finally:
            alter_quotas(cluster, limit, {"consumer_byte_rate": None})
    with WireClient(broker.port) as other:  # the throttled connection is muted
        assert other.call("Metadata", 12, MetadataRequest(topics=[]), MetadataResponse).brokers
