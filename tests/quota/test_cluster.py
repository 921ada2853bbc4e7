"""A quota of partitions in a cluster: the controller counts, and the client's broker throttles."""

from __future__ import annotations

import pytest
from compat.lab.wire_client import WireClient

from odradek.client.admin.quotas import alter_quotas, describe_quotas
from odradek.client.cluster import Cluster as Client
from odradek.model.errors import ErrorCode
from odradek.testing import Cluster
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse

pytestmark = pytest.mark.cluster


def create(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=20_000)


def test_all_brokers_share_the_quota_of_the_controller() -> None:
    with Cluster(3) as cluster:
        servers = cluster.bootstrap_servers.split(",")
        entity = (("client-id", "compat"),)
        with Client(cluster.bootstrap_servers) as client:
            alter_quotas(client, entity, {"controller_mutation_rate": 0.001})
        for server in servers:
            with Client(server) as client:
                while entity not in describe_quotas(client):
                    pass  # the broker has not read the change
        codes = []
        for number, server in enumerate(servers):
            with WireClient(int(server.rpartition(":")[2])) as wire:
                request = create(f"t{number}")
                answer = wire.call("CreateTopics", 7, request, CreateTopicsResponse)
                codes.append(answer.topics[0].error_code)
                if codes[-1]:
                    assert answer.throttle_time_ms > 1_000_000
                    wire.send(wire.frame("ApiVersions", 0, ApiVersionsRequest()))
                    with WireClient(int(server.rpartition(":")[2])) as other:
                        other.metadata()
                    wire.socket.setblocking(False)
                    with pytest.raises(BlockingIOError):
                        wire.socket.recv(1)
        exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert codes == [0, exceeded, exceeded]
