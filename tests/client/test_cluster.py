"""Which broker gets a request, and retries."""

from __future__ import annotations

import itertools

import pytest
from compat.lab.toolchain import free_port
from tests.client.fake_broker import NODE_ID, Disconnect

from odradek.client import cluster as cluster_module
from odradek.client import fan_out
from odradek.client.address import Address
from odradek.client.admin.admin import make_cluster
from odradek.client.cluster import GROUP, TRANSACTION, Cluster
from odradek.client.errors import (
    BrokerError,
    ClientError,
    DisconnectedError,
    MisroutedError,
    NoSuchTopicError,
    UnreachableError,
    broker_error,
    check,
)
from odradek.client.metadata import Node
from odradek.client.offsets import LATEST, list_offsets
from odradek.client.shell.settings import connection_of
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import Coordinator, FindCoordinatorResponse
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.list_offsets_request import ListOffsetsRequest
from odradek.wire.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse

METADATA = MetadataRequest.API_KEY
API_VERSIONS = ApiVersionsRequest.API_KEY
COORDINATOR = FindCoordinatorRequest.API_KEY
LIST_OFFSETS = ListOffsetsRequest.API_KEY


@pytest.fixture
def cluster(fake):
    with Cluster(fake.address, timeout_ms=3000) as cluster:
        yield cluster


def test_the_first_address_that_answers_is_taken(fake):
    with Cluster(f"127.0.0.1:{free_port()},{fake.address}") as cluster:
        assert cluster.refresh([]).nodes[NODE_ID].address.port == fake.port


def test_no_address_answers():
    cluster = Cluster(f"127.0.0.1:{free_port()}")
    with pytest.raises(UnreachableError, match="connection refused") as caught:
        cluster.refresh()
    assert caught.value.advice.endswith("odradek")


def test_an_address_that_the_broker_wrongly_advertises(fake, cluster):
    fake.topics["t"] = 1
    fake.advertised = "127.0.0.1", free_port()
    with pytest.raises(UnreachableError, match=r"broker 7 advertises 127\.0\.0\.1") as caught:
        cluster.node(NODE_ID)
    assert "advertised.listeners" in caught.value.advice


def test_a_node_that_each_answer_has_at_another_address(fake, cluster):
    """As with listeners that contradict each other."""
    addresses = itertools.cycle([("127.0.0.1", free_port()), ("127.0.0.1", free_port())])

    def metadata(_request):
        fake.advertised = next(addresses)
        return fake.metadata()

    fake.answers[METADATA] = metadata
    with pytest.raises(UnreachableError, match=r"broker 7 advertises 127\.0\.0\.1"):
        cluster.node(NODE_ID)


def test_consumers_and_producers_begin_again_only_if_their_cluster_may(fake):
    with make_cluster(
        {"bootstrap.servers": fake.address, "metadata.recovery.strategy": "none"}, {}
    ) as made:
        assert not connection_of(made).recovery.rebootstraps
    with Cluster(fake.address) as made:
        assert connection_of(made).recovery.rebootstraps


def test_an_address_that_leads_to_another_node(fake, cluster):
    """A broker of Apache Kafka 4.4 says so, and the client begins again (KIP-1242)."""
    own = fake.api_versions()
    other = ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    fake.cluster_id = "cluster"
    cluster.refresh([])
    cluster.any().close()
    fake.answers[API_VERSIONS] = lambda asked: own if asked.cluster_id is None else other
    with pytest.raises(MisroutedError, match="is not node 7 of cluster cluster") as caught:
        cluster.node(NODE_ID)
    assert caught.value.retriable
    assert cluster.metadata.nodes == {}
    asked = fake.requests[API_VERSIONS][-1]
    assert (asked.cluster_id, asked.node_id) == ("cluster", NODE_ID)
    fake.answers[API_VERSIONS] = lambda _: own
    assert not cluster.node(NODE_ID).closed


def test_addresses_are_not_checked_without_the_setting(fake):
    fake.cluster_id = "cluster"
    settings = {"bootstrap.servers": str(fake.address), "metadata.cluster.check.enable": "false"}
    with make_cluster(settings, {}) as cluster:
        cluster.refresh([])
        cluster.any().close()
        assert not cluster.copy().checks_nodes
        cluster.node(NODE_ID)
    assert {each.cluster_id for each in fake.requests[API_VERSIONS]} == {None}


def test_a_connection_that_breaks_is_made_again(fake, cluster):
    cluster.refresh([])
    fake.drop_connections()
    assert cluster.refresh([]).controller_id == NODE_ID


def test_what_does_not_pass_is_not_tried_again(fake, cluster):
    def attempt(_):
        attempts.append(1)
        check(ErrorCode.TOPIC_ALREADY_EXISTS)

    attempts = []
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        cluster.retrying(attempt)
    assert attempts == [1]


def test_what_may_pass_is_tried_until_the_time_is_up(cluster):
    def attempt(_):
        attempts.append(1)
        raise DisconnectedError("gone")

    attempts = []
    with pytest.raises(DisconnectedError):
        cluster.retrying(attempt, 300)
    assert len(attempts) > 1


def test_an_unknown_topic(fake, cluster):
    fake.topics["t"] = 1
    fake.answers[METADATA] = lambda _: fake.metadata(error_code=3)
    with pytest.raises(NoSuchTopicError, match="topic t: There is no such topic"):
        cluster.topic("t")


def test_a_new_topic_may_take_a_moment(fake, cluster):
    fake.topics["t"] = 2
    fake.answers[METADATA] = [lambda _: fake.metadata(error_code=3), lambda _: fake.metadata()]
    assert len(cluster.topic("t").partitions) == 2
    assert not fake.requests[METADATA][0].allow_auto_topic_creation


def test_a_topic_may_be_created_by_asking(fake, cluster):
    fake.topics["t"] = 1
    fake.answers[METADATA] = [lambda _: fake.metadata(error_code=5), lambda _: fake.metadata()]
    cluster.topic("t", create=True)
    assert fake.requests[METADATA][0].allow_auto_topic_creation


def test_a_topic_that_is_not_created_by_asking(fake, cluster, monkeypatch):
    monkeypatch.setattr(cluster_module, "CREATION_WAIT_MS", 100)
    fake.topics["t"] = 1
    fake.answers[METADATA] = lambda _: fake.metadata(error_code=3)
    cluster.timeout_ms = 10**9
    with pytest.raises(NoSuchTopicError):
        cluster.topic("t", create=True)


def test_what_is_known_of_a_topic_has_to_do_while_no_broker_answers(fake, cluster):
    fake.topics["t"] = 1
    known = cluster.topic("t")
    cluster.forget_topic("t")
    fake.stop()
    assert cluster.topic("t") == known


def test_partitions_without_a_leader_or_that_do_not_exist(fake, cluster):
    fake.topics["t"] = 1
    fake.answers[METADATA] = lambda _: fake.metadata(leader=-1)
    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE"):
        cluster.leader(TopicPartition("t", 0))
    with pytest.raises(NoSuchTopicError, match="no partition 1"):
        cluster.leader(TopicPartition("t", 1))


def test_a_coordinator_is_looked_up_anew_when_it_has_moved(fake, cluster):
    fake.answers[HeartbeatRequest.API_KEY] = [
        lambda _: HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR),
        lambda _: HeartbeatResponse(),
    ]
    cluster.ask_coordinator(
        "g", HeartbeatRequest(group_id="g"), HeartbeatResponse, lambda r: check(r.error_code)
    )
    assert len(fake.requests[COORDINATOR]) == 2


def test_a_coordinator_that_is_not_there_yet(fake, cluster):
    def not_yet(request):
        error = Coordinator(key="g", node_id=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(coordinators=[error])

    fake.answers[COORDINATOR] = [not_yet, fake.coordinators]
    assert cluster.coordinator_ids(["g"]) == {"g": NODE_ID}


@pytest.mark.parametrize(
    ("kind", "code", "subject", "resource"),
    [
        (GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "group my jobs", "group:'my jobs'"),
        (
            TRANSACTION,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactional id my jobs",
            "transactional-id:'my jobs'",
        ),
    ],
)
def test_a_coordinator_that_the_user_may_not_know(fake, cluster, kind, code, subject, resource):
    error = Coordinator(key="my jobs", node_id=-1, error_code=code)
    fake.answers[COORDINATOR] = [lambda _: FindCoordinatorResponse(coordinators=[error])]
    with pytest.raises(BrokerError, match=f"^{subject}: .* authorization failed") as caught:
        cluster.coordinator("my jobs", kind)
    assert caught.value.advice.endswith(f": odradek acl list --applying-to {resource}")


# -- many things at once -------------------------------------------------------------------


def offsets_answer(*rows):
    partitions = [
        ListOffsetsPartitionResponse(partition_index=index, error_code=code, offset=offset)
        for index, code, offset in rows
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])


def test_only_what_failed_is_asked_again(fake, cluster):
    fake.topics["t"] = 2
    fake.answers[LIST_OFFSETS] = [
        lambda _: offsets_answer((0, 0, 10), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)),
        lambda _: offsets_answer((1, 0, 20)),
    ]
    keys = [TopicPartition("t", 0), TopicPartition("t", 1)]
    found = list_offsets(cluster, dict.fromkeys(keys, LATEST))
    assert [found[key].offset for key in keys] == [10, 20]
    second = fake.requests[LIST_OFFSETS][1]
    assert [p.partition_index for t in second.topics for p in t.partitions] == [1]


def test_an_error_takes_the_place_of_a_value(fake, cluster):
    fake.topics["t"] = 1
    fake.answers[LIST_OFFSETS] = lambda _: offsets_answer(
        (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
    )
    there, nowhere = TopicPartition("t", 0), TopicPartition("t", 9)
    found = list_offsets(cluster, {there: LATEST, nowhere: LATEST})
    assert found[there].code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert isinstance(found[nowhere], NoSuchTopicError)


def test_what_an_answer_leaves_out_is_an_error(fake, cluster):
    fake.topics["t"] = 1
    fake.answers[LIST_OFFSETS] = lambda _: offsets_answer()
    found = list_offsets(cluster, {TopicPartition("t", 0): LATEST})
    assert "does not include it" in str(found[TopicPartition("t", 0)])


def test_a_broken_connection_is_asked_again(fake, cluster):
    def leave(_):
        raise Disconnect

    fake.topics["t"] = 1
    fake.answers[LIST_OFFSETS] = [leave, lambda _: offsets_answer((0, 0, 5))]
    found = list_offsets(cluster, {TopicPartition("t", 0): LATEST})
    assert found[TopicPartition("t", 0)].offset == 5


def test_an_unknown_thing_is_not_asked_for_ever(fake, cluster):
    def read(_):
        return {"x": broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}

    route = fan_out.Route(lambda _: cluster.any(), lambda _: None)
    found = fan_out.fan_out(
        ["x"], route, lambda _: MetadataRequest(), MetadataResponse, read, 60_000
    )
    assert isinstance(found["x"], ClientError)


def test_codes_that_this_client_does_not_know():
    error = broker_error(9999)
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "9999" in str(error)
    assert broker_error(0) is None


@pytest.mark.parametrize(
    ("code", "subject", "advice"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic a-1", "--applying-to topic:a-1"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "partition a-1-0", "--applying-to topic:a-1"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "group g, partition a-1-0", "-to topic:a-1"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "group g, partition a-1-0", "-to group:g"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "group $HOME", "-to group:'$HOME'"),
        (ErrorCode.OFFSET_OUT_OF_RANGE, "partition a-1-0", "odradek topic offsets a-1"),
        (ErrorCode.NON_EMPTY_GROUP, "group g", "odradek group describe g"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "", ""),
    ],
)
def test_the_advice_has_the_name_that_the_command_needs(code, subject, advice):
    found = BrokerError(code, subject=subject).advice
    assert found.endswith(advice)
    assert bool(found) == bool(advice)


def test_a_copy_has_its_own_connections(cluster):
    cluster.refresh([])
    first = cluster.node(NODE_ID)
    with cluster.copy() as copied:
        assert (copied.bootstrap, copied.timeout_ms) == (cluster.bootstrap, cluster.timeout_ms)
        assert copied.node(NODE_ID) is not first
    assert not first.closed
    assert cluster.node(NODE_ID) is first


def test_the_connections_of_a_purpose_are_closed(cluster):
    usual, other = cluster.node(NODE_ID), cluster.node(NODE_ID, "other")
    cluster.close_connections("other")
    assert (usual.closed, other.closed) == (False, True)
    again = cluster.node(NODE_ID, "other")
    assert again is not other
    assert not again.closed


def test_a_leader_that_a_response_names_is_used_if_it_is_newer(fake, cluster):
    fake.topics["t"] = 1
    key = TopicPartition("t", 0)
    assert cluster.leader(key) == NODE_ID
    node = Node(9, Address("nine", 92))
    assert not cluster.metadata.move_leader("t", 0, 9, 0, node), "this epoch is known"
    assert cluster.leader(key) == NODE_ID
    assert cluster.metadata.move_leader("t", 0, 9, 1, node)
    assert (cluster.leader(key), cluster.metadata.nodes[9]) == (9, node)
    assert not cluster.metadata.move_leader("t", 0, 10, 2, None), "its address is not known"
    assert not cluster.metadata.move_leader("other", 0, 9, 1, node)
