"""Clients that authenticate, over sockets: the ACLs of their principals decide."""

from __future__ import annotations

from typing import Any

from compat.lab.wire_client import WireClient
from tests.authorizer.table import TOPIC, WRITE, build
from tests.log.support import batch

from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.api import BY_KEY

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_alice="a" user_bob="b";'
    ),
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:bob",
}
ACL = {
    "resource_type": int(TOPIC),
    "resource_name": "ord",
    "resource_pattern_type": 4,
    "principal": "User:alice",
    "host": "127.0.0.1",
    "operation": int(WRITE),
    "permission_type": 3,
}


class Client(WireClient):
    def ask(self, key: int, version: int, **fields: Any) -> Any:
        api = BY_KEY[key]
        request = build(api.request_class(), fields)
        return self.call(api.name, version, request, api.response_class())

    def log_in(self, user: str, password: str) -> None:
        self.ask(17, 1, mechanism="PLAIN")
        answer = self.ask(36, 2, auth_bytes=f"\0{user}\0{password}".encode())
        assert answer.error_code == 0

    def produce(self) -> int:
        data = [{"index": 0, "records": bytes(batch())}]
        topics = [{"name": "orders", "partition_data": data}]
        answer = self.ask(0, 9, acks=1, timeout_ms=1000, topic_data=topics)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code


def test_an_acl_lets_a_user_write_until_it_is_deleted() -> None:
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with Broker(settings=SETTINGS) as broker:
        ports = {each.name: each.port for each in broker.node.server.endpoints}
        alice, bob = Client(ports["CLIENT"]), Client(ports["CLIENT"])
        anonymous = Client(ports["PLAINTEXT"])
        with alice, bob, anonymous:
            alice.log_in("alice", "a")
            bob.log_in("bob", "b")
            topics = [{"name": "orders", "num_partitions": 1, "replication_factor": 1}]
            assert alice.ask(19, 7, topics=topics, timeout_ms=5000).topics[0].error_code == refused
            assert bob.ask(19, 7, topics=topics, timeout_ms=5000).topics[0].error_code == 0
            assert (alice.produce(), bob.produce(), anonymous.produce()) == (refused, 0, refused)
            assert alice.ask(30, 3, creations=[ACL]).results[0].error_code == (
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            )
            assert bob.ask(30, 3, creations=[ACL]).results[0].error_code == 0
            assert [alice.produce() for _ in range(3)] == [0, 0, 0]
            assert anonymous.produce() == refused
            chosen = {
                "resource_type_filter": 1,
                "resource_name_filter": None,
                "pattern_type_filter": 1,
                "principal_filter": "User:alice",
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            }
            (deleted,) = bob.ask(31, 3, filters=[chosen]).filter_results
            assert len(deleted.matching_acls) == 1
            assert alice.produce() == refused
