"""Requests of clients that exceed a limit, over sockets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from compat.lab.wire_client import WireClient

from odradek.client.admin.quotas import alter_quotas, describe_quotas
from odradek.client.cluster import Cluster
from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.handlers import k32_describe_configs
from odradek.handlers import produce as handler
from odradek.log import RecordsRefused
from odradek.log.validation import validate
from odradek.model import api_keys
from odradek.model.acl import (
    ANYONE,
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    AclResourceType,
)
from odradek.model.errors import ErrorCode
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.testing import Broker
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.generated.create_acls_request import AclCreation, CreateAclsRequest
from odradek.wire.generated.create_acls_response import CreateAclsResponse
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import CreatePartitionsResponse
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.generated.delete_topics_response import DeleteTopicsResponse
from odradek.wire.generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.wire.generated.describe_configs_response import DescribeConfigsResponse
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import FetchResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

CLIENT = (("client-id", "compat"),)
"""The client id of `WireClient`. The commands of the test itself have another one."""
SLOW = 0.001
"""A limit that one request exceeds for a long time."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # Records of 1970 would be removed 30 s after the start.
    settings = {"log.retention.ms": "-1"}
    with (
        Broker(topics={"t": 1, "u": 1}, settings=settings) as broker,
        pytest.MonkeyPatch.context() as patch,
    ):
        # With the injection of faults there are no fast paths.
        patch.setattr(broker.node.dispatcher, "inject", None)
        yield broker


@contextmanager
def limited(broker: Broker, **limits: float) -> Iterator[None]:
    with Cluster(broker.bootstrap_servers) as cluster:
        alter_quotas(cluster, CLIENT, limits)
        try:
            yield
        finally:
            alter_quotas(cluster, CLIENT, dict.fromkeys(limits))
            assert not describe_quotas(cluster)


def produce(
    size: int = 10, topic: str = "t", acks: int = 1, codec: Codec = Codec.NONE
) -> ProduceRequest:
    builder = RecordBatchBuilder(codec=codec)
    builder.append(1, None, bytes(size))
    data = PartitionProduceData(index=0, records=builder.build())
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


@pytest.mark.parametrize("version", [9, 8])  # the fast path, and the other one
def test_a_producer_is_throttled_with_all_connections_of_its_client_id(broker, version):
    with limited(broker, producer_byte_rate=1000), WireClient(broker.port) as wire:
        answer = wire.call("Produce", version, produce(), ProduceResponse)
        assert answer.throttle_time_ms == 0
        answer = wire.call("Produce", version, produce(50_000), ProduceResponse)
        assert 35_000 < answer.throttle_time_ms <= 50_200
        assert answer.responses[0].partition_responses[0].error_code == 0
        with WireClient(broker.port) as other:
            answer = other.call("Produce", version, produce(), ProduceResponse)
            assert answer.throttle_time_ms > 1000
        found = {each[:2]: each.value for each in broker.node.metrics.values()}
        client = "kafka.server:type=Produce,user=,client-id=compat"
        assert found[client, "byte-rate"] > 1000
        assert found[client, "throttle-time"] > 1000
        requests = "kafka.network:type=RequestMetrics,name=ThrottleTimeMs,request=Produce"
        assert found[requests, "Max"] > 1000
        assert found[requests, "Count"] == found[requests.replace("Throttle", "Total"), "Count"]
        assert found["kafka.server:type=Produce", "queue-size"] >= 2
    with WireClient(broker.port) as wire:
        assert wire.call("Produce", version, produce(), ProduceResponse).throttle_time_ms == 0


def test_a_refused_batch_is_throttled_too(broker):
    request = produce(50_000)
    data = request.topic_data[0].partition_data[0]
    damaged = bytearray(data.records)
    damaged[-1] ^= 1
    data.records = bytes(damaged)
    with limited(broker, producer_byte_rate=1000), WireClient(broker.port) as wire:
        answer = wire.call("Produce", 9, request, ProduceResponse)
    assert answer.throttle_time_ms > 1000
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.CORRUPT_MESSAGE


def test_without_responses_a_producer_is_only_muted(broker):
    with limited(broker, producer_byte_rate=1000), WireClient(broker.port) as wire:
        wire.send(wire.frame("Produce", 9, produce(50_000, acks=0)))
        wire.send(wire.frame("ApiVersions", 0, ApiVersionsRequest()))
        with WireClient(broker.port) as other:
            while other.call("Produce", 9, produce(), ProduceResponse).throttle_time_ms == 0:
                pass  # the request without a response may not have arrived
        wire.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            wire.socket.recv(1)


def fetch(offset: int, session: int = 0, epoch: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=500)
    return FetchRequest(
        max_wait_ms=0,
        max_bytes=500,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(topic="u", partitions=[wanted])],
    )


def test_a_consumer_gets_no_records_while_it_is_throttled(broker):
    with WireClient(broker.port) as wire:
        for _ in range(50):
            wire.call("Produce", 9, produce(600, "u"), ProduceResponse)
    with limited(broker, consumer_byte_rate=100):
        with WireClient(broker.port) as wire:
            opened = wire.call("Fetch", 12, fetch(0), FetchResponse)
            assert opened.throttle_time_ms == 0
            assert opened.responses[0].partitions[0].records
            offset, throttled = 0, opened
            while not throttled.throttle_time_ms:
                offset += 1
                throttled = wire.call(
                    "Fetch", 12, fetch(offset, opened.session_id, offset), FetchResponse
                )
        assert throttled.session_id == opened.session_id
        assert throttled.responses == []
        with WireClient(broker.port) as wire:  # a full fetch opens no session then
            answer = wire.call("Fetch", 12, fetch(0), FetchResponse)
        assert (answer.session_id, answer.responses) == (0, [])
        assert answer.throttle_time_ms > 0
    with WireClient(broker.port) as wire:
        request = fetch(offset, opened.session_id, offset + 1)
        answer = wire.call("Fetch", 12, request, FetchResponse)
        assert answer.throttle_time_ms == 0
        assert answer.responses[0].partitions[0].records


def test_the_time_of_requests_is_limited(broker):
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
        ],
    )
    find = FindCoordinatorRequest(coordinator_keys=["g"])
    with WireClient(broker.port) as wire:
        while (
            wire.call("FindCoordinator", 4, find, FindCoordinatorResponse)
            .coordinators[0]
            .error_code
        ):
            pass  # the topic is being created
        while (
            wire.call("OffsetCommit", 9, commit, OffsetCommitResponse)
            .topics[0]
            .partitions[0]
            .error_code
        ):
            pass  # the coordinator is loading
    with limited(broker, request_percentage=0.000_001):
        for name, version, request, response in (
            ("ApiVersions", 2, ApiVersionsRequest(), ApiVersionsResponse),
            ("OffsetCommit", 9, commit, OffsetCommitResponse),
            ("OffsetCommit", 7, commit, OffsetCommitResponse),
            ("Produce", 9, produce(), ProduceResponse),
            ("Fetch", 12, fetch(0), FetchResponse),
        ):
            with WireClient(broker.port) as wire:
                answer = wire.call(name, version, request, response)
            assert 0 < answer.throttle_time_ms <= 1000, name


@pytest.mark.parametrize("is_valid", [True, False])
def test_the_time_of_other_threads_is_counted(broker, monkeypatch, is_valid):
    costs = []

    def charge(key, peer, request_bytes, cost_ns, told_ms, *, silent):
        costs.append(cost_ns)
        return 0

    def slowly(*arguments):
        time.sleep(0.3)
        if not is_valid:
            raise RecordsRefused(ErrorCode.INVALID_RECORD, "test")
        return validate(*arguments)

    monkeypatch.setattr(handler, "validate", slowly)
    entry = broker.node.dispatcher.entries[ProduceRequest.API_KEY]
    entry.use_charge(charge)
    try:
        with WireClient(broker.port) as wire:
            request = produce(3 << 20, codec=Codec.ZSTD)
            answer = wire.call("Produce", 9, request, ProduceResponse)
    finally:
        entry.use_charge(None)
    code = answer.responses[0].partition_responses[0].error_code
    assert code == (ErrorCode.NONE if is_valid else ErrorCode.INVALID_RECORD)
    assert sum(costs) >= 300_000_000


def test_the_time_of_a_handler_in_pieces_is_counted(broker, monkeypatch):
    """DescribeConfigs of many topics is a coroutine that lets others work."""
    costs = []
    describe = k32_describe_configs._describe

    def charge(key, peer, request_bytes, cost_ns, told_ms, *, silent):
        costs.append(cost_ns)
        return 0

    def slowly(*arguments):
        time.sleep(0.003)
        return describe(*arguments)

    monkeypatch.setattr(k32_describe_configs, "_describe", slowly)
    resources = [DescribeConfigsResource(resource_type=2, resource_name="t") for _ in range(100)]
    entry = broker.node.dispatcher.entries[api_keys.DESCRIBE_CONFIGS]
    entry.use_charge(charge)
    try:
        with WireClient(broker.port) as wire:
            request = DescribeConfigsRequest(resources=resources)
            wire.call("DescribeConfigs", 4, request, DescribeConfigsResponse)
    finally:
        entry.use_charge(None)
    assert sum(costs) >= 300_000_000


def test_brokers_that_fetch_are_not_limited(broker):
    with limited(broker, request_percentage=0.000_001, consumer_byte_rate=1):
        with WireClient(broker.port) as wire:
            request = fetch(0)
            request.replica_id = 7
            for _ in range(3):
                answer = wire.call("Fetch", 12, request, FetchResponse)
                assert answer.throttle_time_ms == 0
                request = fetch(0)
                request.replica_id = 7
            answer = wire.call("ApiVersions", 2, ApiVersionsRequest(), ApiVersionsResponse)
            assert answer.throttle_time_ms > 0, "only its fetches are exempt"
        with WireClient(broker.port) as wire:
            answer = wire.call("Fetch", 12, fetch(0), FetchResponse)
            assert answer.throttle_time_ms > 0


def create(name: str, count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=count, replication_factor=1)],
        timeout_ms=10_000,
    )


def test_changes_of_partitions_are_limited(broker):
    with limited(broker, controller_mutation_rate=SLOW):
        with WireClient(broker.port) as wire:
            answer = wire.call("CreateTopics", 7, create("v", 3), CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
        assert answer.throttle_time_ms == 0  # strict: all that was asked, or nothing
        with WireClient(broker.port) as wire:
            answer = wire.call("CreateTopics", 7, create("w", 1), CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert answer.throttle_time_ms > 1_000_000
        with WireClient(broker.port) as wire:
            wire.metadata("automatic")
        while broker.node.broker.topic_creation._in_flight:
            pass
        assert "automatic" not in broker.node.broker.metadata.image.topics.by_name
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="v", count=5, assignments=None)], timeout_ms=10_000
        )
        with WireClient(broker.port) as wire:
            grown = wire.call("CreatePartitions", 3, more, CreatePartitionsResponse)
        assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        removal = DeleteTopicsRequest(topics=[DeleteTopicState(name="v")], timeout_ms=10_000)
        with WireClient(broker.port) as wire:
            deleted = wire.call("DeleteTopics", 6, removal, DeleteTopicsResponse)
        assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        with WireClient(broker.port) as wire:  # older clients do not know this error
            answer = wire.call("CreateTopics", 5, create("w", 1), CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
        assert answer.throttle_time_ms > 1_000_000


def test_an_address_has_a_rate_of_connections():
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        alter_quotas(cluster, (("ip", "127.0.0.1"),), {"connection_creation_rate": 1.0})
        refused = 0
        while not refused:
            with WireClient(broker.port) as wire:
                try:
                    wire.call("ApiVersions", 0, ApiVersionsRequest(), ApiVersionsResponse)
                except ConnectionError:
                    refused += 1
        assert broker.node.server.connections_refused == 1


def test_a_node_has_a_rate_of_connections():
    # With one window the first connection of a millisecond already has a rate of 1000 per second.
    with Broker(settings={"max.connection.creation.rate": 5, "quota.window.num": 1}) as broker:
        with WireClient(broker.port) as wire:
            wire.call("ApiVersions", 0, ApiVersionsRequest(), ApiVersionsResponse)
        found = {each[:2]: each.value for each in broker.node.metrics.values()}
        name = "kafka.server:type=socket-server-metrics,listener=PLAINTEXT"
        assert found[name, "connection-accept-throttle-time"] > 0


def test_more_connections_than_the_limit_wait():
    with Broker(settings={"max.connections": 2}) as broker:
        first, second, third = (WireClient(broker.port) for _ in range(3))
        for wire in (first, second):
            wire.call("ApiVersions", 0, ApiVersionsRequest(), ApiVersionsResponse)
        third.send(third.frame("ApiVersions", 0, ApiVersionsRequest()))
        second.call("ApiVersions", 0, ApiVersionsRequest(), ApiVersionsResponse)
        third.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            third.socket.recv(1)
        first.close()
        third.socket.setblocking(True)
        assert third.receive()
        found = {each[:2]: each.value for each in broker.node.metrics.values()}
        sockets = "kafka.server:type=socket-server-metrics,listener=PLAINTEXT,networkProcessor=0"
        assert found[sockets, "connection-count"] == 2
        assert found[sockets, "connection-creation-total"] == 3
        assert found[sockets, "connection-close-total"] == 1
        assert found[sockets, "connection-creation-rate"] > found[sockets, "connection-close-rate"]
        acceptor = "kafka.network:type=Acceptor,name=AcceptorBlockedPercent,listener=PLAINTEXT"
        blocked_ns = found[acceptor, "Count"]
        assert blocked_ns > 0
        found = {each[:2]: each.value for each in broker.node.metrics.values()}
        assert found[acceptor, "Count"] == blocked_ns, "nobody waits"
        second.close()
        third.close()


TWO_LISTENERS = {
    "listeners": "BROKERS://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def versions(wire: WireClient) -> None:
    wire.call("ApiVersions", 0, ApiVersionsRequest(), ApiVersionsResponse)


def test_a_broker_connects_although_there_are_too_many_connections():
    with Broker(settings={**TWO_LISTENERS, "max.connections": 2}) as broker:
        ports = {each.name: each.port for each in broker.node.server.endpoints}
        of_clients = [WireClient(ports["CLIENTS"]) for _ in range(2)]
        for wire in of_clients:
            versions(wire)
        with WireClient(ports["BROKERS"]) as of_broker:
            versions(of_broker)
            ended = 0
            for wire in of_clients:
                try:
                    versions(wire)
                except ConnectionError:
                    ended += 1
                wire.close()
            assert ended == 1


def test_a_listener_has_limits_of_its_own():
    limits = {
        "listener.name.clients.max.connections": 1,
        "listener.name.clients.max.connection.creation.rate": 1000,
    }
    with Broker(settings={**TWO_LISTENERS, **limits}) as broker:
        ports = {each.name: each.port for each in broker.node.server.endpoints}
        config = broker.node.config
        assert config.max_connections_by_listener == {"BROKERS": 2**31 - 1, "CLIENTS": 1}
        assert config.max_connection_creation_rate_by_listener["CLIENTS"] == 1000
        assert broker.node.server.rates.listeners["CLIENTS"].limit == 1000
        with WireClient(ports["CLIENTS"]) as first, WireClient(ports["CLIENTS"]) as second:
            versions(first)
            second.send(second.frame("ApiVersions", 0, ApiVersionsRequest()))
            with WireClient(ports["BROKERS"]) as other:
                versions(other)
            second.socket.setblocking(False)
            with pytest.raises(BlockingIOError):
                second.socket.recv(1)
            first.close()
            second.socket.setblocking(True)
            assert second.receive()


def test_a_client_that_may_not_replicate_is_limited():
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
    }
    creations = [
        AclCreation(
            resource_type=AclResourceType.CLUSTER,
            resource_name=CLUSTER_NAME,
            principal=ANYONE,
            host="*",
            operation=operation,
            permission_type=permission,
        )
        for operation, permission in (
            (AclOperation.ALL, AclPermissionType.ALLOW),
            (AclOperation.CLUSTER_ACTION, AclPermissionType.DENY),
        )
    ]
    with Broker(settings=settings, topics={"t": 1}) as broker:
        with WireClient(broker.port) as wire:
            created = wire.call(
                "CreateAcls", 3, CreateAclsRequest(creations=creations), CreateAclsResponse
            )
        assert [each.error_code for each in created.results] == [0, 0]
        with limited(broker, request_percentage=0.000_001), WireClient(broker.port) as wire:
            request = fetch(0)
            request.replica_id = 7
            answer = wire.call("Fetch", 12, request, FetchResponse)
            code = answer.responses[0].partitions[0].error_code if answer.responses else 0
            assert code in (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            answer = wire.call("ApiVersions", 2, ApiVersionsRequest(), ApiVersionsResponse)
            assert answer.throttle_time_ms > 0
