"""The group APIs in each of their versions."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from tests.coordinator.support import LED, topic_id
from tests.group.support import (
    Coordinator,
    Generation,
    commit_request,
    leave_request,
)

from odradek.broker.coordinator.producer_ids import ProducerIds
from odradek.core.metadata.image import BrokerRegistration, ClusterImage, Endpoint
from odradek.handlers import (
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k22_init_producer_id,
    k42_delete_groups,
    k47_offset_delete,
)
from odradek.handlers.error_answers import error_answer
from odradek.model.acl import OPERATIONS, AclResourceType, operation_bits
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.generated.delete_groups_request import DeleteGroupsRequest
from odradek.wire.generated.describe_groups_request import DescribeGroupsRequest
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.sync_group_request import SyncGroupRequest

UNKNOWN_ID = b"an unknown topic"
T0, T9, NONE = ("topic", 0), ("topic", 9), ("none", 0)


class Api:
    """Handlers before a coordinator; topic `topic` has three partitions."""

    def __init__(self):
        self.coordinator = Coordinator()
        self.coordinator.set_topics(topic=3)
        self.created = []
        self.broker = SimpleNamespace(
            coordinators=SimpleNamespace(groups=self.coordinator.groups),
            metadata=SimpleNamespace(image=self.coordinator.image),
            config=SimpleNamespace(node_id=1, advertised_listeners=()),
            topic_creation=SimpleNamespace(create=self.create),
            authorizer=None,
        )

    async def create(self, topic, wait_ms):
        self.created.append(topic)

    def call(self, module, version, request):
        """The answer, as the dispatcher would give it."""
        context = self.coordinator.context(version)
        handler = module.HANDLER
        try:
            answer = handler.handle(self.broker, context, request)
            if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future):
                answer = self.coordinator.loop.run_until_complete(answer)
        except ApiError as error:
            if handler.error_response is None:
                answer = error_answer(request, version, error.code, error.message)
            else:
                answer = handler.error_response(request, error)
        answer.encode(version)  # whatever the version lacks must be left out
        return answer


@pytest.fixture
def api():
    api = Api()
    yield api
    api.coordinator.close()


# -- offsets ----------------------------------------------------------------------------------


def errors(response):
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_commits_by_name(api, version):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = commit_request("g", {NONE: 1, T0: 2, T9: 3})
    response = api.call(k08_offset_commit, version, request)
    assert errors(response) == {NONE: unknown, T0: 0, T9: unknown}
    assert [topic.name for topic in response.topics] == ["none", "topic"]
    assert api.coordinator.committed("g") == {T0: 2}
    assert errors(api.call(k08_offset_commit, version, commit_request("g", {T0: 5}))) == {T0: 0}
    assert errors(api.call(k08_offset_commit, version, commit_request("g", {T9: 5}))) == {
        T9: unknown
    }


def test_commits_by_id(api):
    request = commit_request("g", {})
    request.topics = [
        OffsetCommitRequestTopic(
            topic_id=each,
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
        )
        for each in (UNKNOWN_ID, topic_id("topic"))
    ]
    response = api.call(k08_offset_commit, 10, request)
    by_id = {each.topic_id: each.partitions[0].error_code for each in response.topics}
    assert by_id == {UNKNOWN_ID: ErrorCode.UNKNOWN_TOPIC_ID, topic_id("topic"): 0}
    assert api.coordinator.committed("g") == {T0: 7}


def test_a_refused_commit_has_the_error_for_each_partition(api):
    request = commit_request("g", {NONE: 1, T0: 2}, generation=5)
    response = api.call(k08_offset_commit, 9, request)
    assert errors(response) == {
        NONE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        T0: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    request = commit_request("g", {T0: 2}, generation=5)
    response = api.call(k08_offset_commit, 8, request)
    assert errors(response) == {T0: ErrorCode.ILLEGAL_GENERATION}


@pytest.mark.parametrize("version", range(1, 8))
def test_fetches_of_one_group(api, version):
    api.coordinator.commit("g", {T0: 2})
    topics = [OffsetFetchRequestTopic(name="topic", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(group_id="g", topics=topics)
    (topic,) = api.call(k09_offset_fetch, version, request).topics
    assert [each.committed_offset for each in topic.partitions] == [2, -1]
    if version >= 2:
        everything = api.call(
            k09_offset_fetch, version, OffsetFetchRequest(group_id="g", topics=None)
        )
        assert [each.committed_offset for each in everything.topics[0].partitions] == [2]
    api.coordinator.groups.shutdown()
    response = api.call(k09_offset_fetch, version, request)
    refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version >= 2:
        assert (response.error_code, response.topics) == (refused, [])
    else:
        assert {each.error_code for each in response.topics[0].partitions} == {refused}


@pytest.mark.parametrize("version", [8, 9])
def test_fetches_of_many_groups(api, version):
    api.coordinator.commit("g", {T0: 2})
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=None),
        OffsetFetchRequestGroup(
            group_id="h",
            topics=[OffsetFetchRequestTopics(name="topic", partition_indexes=[0])],
        ),
    ]
    first, second = api.call(k09_offset_fetch, version, OffsetFetchRequest(groups=groups)).groups
    assert first.topics[0].partitions[0].committed_offset == 2
    assert second.topics[0].partitions[0].committed_offset == -1


def test_fetches_by_id(api):
    api.coordinator.commit("g", {T0: 2, NONE: 3})
    asked = OffsetFetchRequestGroup(
        group_id="g",
        topics=[
            OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0])
            for each in (UNKNOWN_ID, topic_id("topic"))
        ],
    )
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    request = OffsetFetchRequest(groups=[asked, everything], require_stable=True)
    first, second = api.call(k09_offset_fetch, 10, request).groups
    found = {each.topic_id: each.partitions[0] for each in first.topics}
    assert found[topic_id("topic")].committed_offset == 2
    assert found[UNKNOWN_ID].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert found[UNKNOWN_ID].committed_offset == -1
    assert [each.topic_id for each in second.topics] == [topic_id("topic")]


def test_deleting_offsets(api):
    api.coordinator.commit("g", {T0: 2})
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes]
        )
        for name, indexes in (("topic", (0, 9)), ("none", (0,)))
    ]
    request = OffsetDeleteRequest(group_id="g", topics=topics)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = api.call(k47_offset_delete, 0, request)
    assert errors(response) == {T0: 0, T9: unknown, NONE: unknown}
    request = OffsetDeleteRequest(group_id="none", topics=topics)
    response = api.call(k47_offset_delete, 0, request)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


# -- members ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_joining(api, version):
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=-1 if version == 0 else 20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = api.call(k11_join_group, version, request)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert answer.protocol_name == (None if version >= 7 else "")
        request.member_id = answer.member_id
        answer = api.call(k11_join_group, version, request)
    assert (answer.error_code, answer.protocol_name) == (0, "range")
    request.session_timeout_ms = 1
    refused = api.call(k11_join_group, version, request)
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused.member_id == request.member_id


@pytest.mark.parametrize("version", range(6))
def test_syncing(api, version):
    generation = Generation(api.coordinator, "g", 1)
    known = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    request = SyncGroupRequest(group_id="g", member_id=generation.leader, generation_id=1, **known)
    answer = api.call(k14_sync_group, version, request)
    assert answer.assignment == generation.leader.encode()
    if version >= 5:
        request.protocol_name = None
        answer = api.call(k14_sync_group, version, request)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_heartbeats(api, version):
    generation = Generation(api.coordinator, "g", 1)
    request = HeartbeatRequest(group_id="g", member_id=generation.leader, generation_id=1)
    assert api.call(k12_heartbeat, version, request).error_code == 0
    request.generation_id = 2
    assert api.call(k12_heartbeat, version, request).error_code == ErrorCode.ILLEGAL_GENERATION


def test_heartbeats_while_the_group_is_loaded(api):
    generation = Generation(api.coordinator, "g", 1)
    request = HeartbeatRequest(group_id="g", member_id=generation.leader, generation_id=1)
    partition = api.coordinator.groups.partition_for("g")
    api.coordinator.groups.on_resignation(partition)
    assert api.call(k12_heartbeat, 4, request).error_code == ErrorCode.NOT_COORDINATOR
    api.coordinator.groups.on_election(partition, 5)
    assert api.call(k12_heartbeat, 4, request).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(6))
def test_leaving(api, version):
    generation = Generation(api.coordinator, "g", 1)
    for group_id, member_id, error in (
        ("g", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ("none", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", generation.leader, ErrorCode.NONE),
    ):
        request = leave_request(group_id, member_id)
        request.member_id = member_id
        if version < 3:
            request.members = []
        answer = api.call(k13_leave_group, version, request)
        if version < 3:
            assert answer.error_code == error
        else:
            assert answer.error_code == 0
            assert [each.error_code for each in answer.members] == [error]


# -- administration ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_describing(api, version):
    Generation(api.coordinator, "g", 1)
    for wants in (False, True) if version >= 3 else (False,):
        request = DescribeGroupsRequest(groups=["g", "none"], include_authorized_operations=wants)
        known, missing = api.call(k15_describe_groups, version, request).groups
        assert known.group_state == "Stable"
        expected = operation_bits(OPERATIONS[AclResourceType.GROUP]) if wants else -(2**31)
        assert known.authorized_operations == expected
        assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", range(6))
def test_listing(api, version):
    Generation(api.coordinator, "g", 1)
    (group,) = api.call(k16_list_groups, version, ListGroupsRequest()).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")


@pytest.mark.parametrize("version", range(4))
def test_deleting(api, version):
    api.coordinator.commit("g", {T0: 1})
    request = DeleteGroupsRequest(groups_names=["g", "none", "g"])
    results = api.call(k42_delete_groups, version, request).results
    assert sorted((each.group_id, each.error_code) for each in results) == [
        ("g", 0),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


# -- coordinators -----------------------------------------------------------------------------


def with_coordinator(api):
    """`__consumer_offsets` exists, and broker 1, which leads it, is alive."""
    api.coordinator.set_topics(topic=3, __consumer_offsets=4)
    listeners = {"PLAINTEXT": Endpoint("PLAINTEXT", "here", 9092, 0)}
    broker = BrokerRegistration(1, 0, bytes(16), listeners, {}, None, False, False, False, (), None)
    image = api.coordinator.image
    api.broker.metadata.image = SimpleNamespace(
        topics=image.topics, cluster=ClusterImage({1: broker})
    )
    return api


def find(api, version, *keys, key_type=0):
    request = FindCoordinatorRequest(
        key=keys[0], key_type=key_type, coordinator_keys=list(keys) if version >= 4 else []
    )
    context = api.coordinator.context(version)
    context.peer.listener = "PLAINTEXT"
    handle = k10_find_coordinator.HANDLER.handle
    answer = api.coordinator.loop.run_until_complete(handle(api.broker, context, request))
    answer.encode(version)
    return answer


@pytest.mark.parametrize("version", range(4))
def test_finding_one_coordinator(api, version):
    missing = find(api, version, "g")
    assert missing.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (missing.node_id, missing.host, missing.port) == (-1, "", -1)
    assert api.created == ["__consumer_offsets"]
    found = find(with_coordinator(api), version, "g")
    assert (found.error_code, found.error_message) == (0, "NONE")
    assert (found.node_id, found.host, found.port) == (1, "here", 9092)
    share = find(api, version, "g", key_type=2)
    assert share.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(4, 7))
def test_finding_many_coordinators(api, version):
    found = find(with_coordinator(api), version, "g", "h").coordinators
    assert [(each.key, each.node_id, each.error_code) for each in found] == [
        ("g", 1, 0),
        ("h", 1, 0),
    ]
    (transactional,) = find(api, version, "t", key_type=1).coordinators
    assert transactional.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert api.created == ["__transaction_state"]


def test_a_partition_without_a_leader_has_no_coordinator(api):
    with_coordinator(api)
    topics = api.broker.metadata.image.topics
    for index in range(4):
        topics.by_name["__consumer_offsets"].partitions[index] = LED._replace(leader=-1)
    (found,) = find(api, 6, "g").coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", range(6))
def test_producer_ids(api, version):
    async def submit(context, request):
        return AllocateProducerIdsResponse(producer_id_start=500, producer_id_len=1000)

    loop, clock = api.coordinator.loop, api.coordinator.clock
    controller = SimpleNamespace(submit=submit)
    api.broker.coordinators.producer_ids = ProducerIds(1, lambda: 0, controller, clock, loop)
    request = InitProducerIdRequest(transactional_id=None)
    for expected in (500, 501):
        answer = api.call(k22_init_producer_id, version, request)
        assert (answer.producer_id, answer.producer_epoch, answer.error_code) == (expected, 0, 0)
    for options, error in (
        ({"transactional_id": None, "producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": None, "producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ):
        if version >= 3 or ("producer_id" not in options and "producer_epoch" not in options):
            request = InitProducerIdRequest(**options)
            answer = api.call(k22_init_producer_id, version, request)
            assert answer.error_code == error
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
