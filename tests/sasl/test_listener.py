"""Requests over a socket to a listener with SASL, in right and wrong order."""

import errno
import logging
import os
import struct
import time

import pytest
from compat.lab.wire_client import WireClient

from odradek.client.admin.quotas import alter_quotas
from odradek.client.cluster import Cluster
from odradek.handlers.first_use import DecodersAtFirstUse
from odradek.model import api_keys
from odradek.model.errors import ErrorCode
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.list_groups_response import ListGroupsResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.generated.sasl_handshake_response import SaslHandshakeResponse

from .client import ScramClient, plain

RIGHT = plain("alice", "alice-secret")
METADATA = MetadataRequest(topics=[])
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


class Client(WireClient):
    def versions(self, version=4, request=VERSIONS):
        return self.call("ApiVersions", version, request, ApiVersionsResponse)

    def handshake(self, mechanism="PLAIN", version=1):
        request = SaslHandshakeRequest(mechanism=mechanism)
        return self.call("SaslHandshake", version, request, SaslHandshakeResponse)

    def authenticate(self, token=RIGHT, version=2):
        request = SaslAuthenticateRequest(auth_bytes=token)
        return self.call("SaslAuthenticate", version, request, SaslAuthenticateResponse)

    def describe(self):
        return self.call("Metadata", 9, METADATA, MetadataResponse)

    def is_closed(self):
        """Whether the broker has closed the connection and sent nothing more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


@pytest.fixture
def client(ports):
    with Client(ports["CLIENT"]) as connected:
        yield connected


def principals(broker):
    return {each.peer.port: each.peer.principal for each in list(broker.node.server.connections)}


def principal(broker, client):
    return principals(broker)[client.socket.getsockname()[1]]


def test_requests_before_the_login_count_in_no_quota(client, broker, ports):
    """Everybody could send them with any client id, and each client id would take memory."""
    named = (("client-id", "compat"),)
    with Cluster(broker.bootstrap_servers) as cluster, Client(ports["CLIENT"]) as other:
        alter_quotas(cluster, named, {"request_percentage": 0.001})
        try:
            other.handshake()
            other.authenticate()
            while not other.describe().throttle_time_ms:  # until the broker knows the quota
                time.sleep(0.01)
            assert client.versions().throttle_time_ms == 0
            (peer,) = (
                each.peer
                for each in list(broker.node.server.connections)
                if each.peer.port == client.socket.getsockname()[1]
            )
            assert peer.meters is None
            client.handshake()
            client.authenticate()
            assert client.describe().throttle_time_ms > 0
            assert peer.meters is not None
        finally:
            alter_quotas(cluster, named, {"request_percentage": None})


def test_versions_handshake_token_and_requests(client, broker, ports):
    versions = client.versions()
    assert {17, 36, 50, 51} <= {each.api_key for each in versions.api_keys}
    shaken = client.handshake()
    assert shaken.error_code == 0
    assert shaken.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert principal(broker, client) == "User:ANONYMOUS"
    answer = client.authenticate()
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert principal(broker, client) == "User:alice"
    (address,) = client.describe().brokers
    assert address.port == ports["CLIENT"]
    assert client.versions().error_code == 0


def test_requests_that_follow_in_the_same_packet_are_processed_as_authenticated(client):
    long = ApiVersionsRequest(client_software_name="x" * 5000, client_software_version="1")
    client.send(
        client.frame("SaslHandshake", 1, SaslHandshakeRequest(mechanism="PLAIN"))
        + client.frame("SaslAuthenticate", 2, SaslAuthenticateRequest(auth_bytes=RIGHT))
        + client.frame("ApiVersions", 4, long)  # longer than requests before authentication may be
        + client.frame("Metadata", 9, METADATA)
    )
    assert [struct.unpack_from(">i", client.receive()) for _ in range(4)] == [
        (1,),
        (2,),
        (3,),
        (4,),
    ]


@pytest.mark.parametrize("first", ["versions", "token", "nothing"])
@pytest.mark.parametrize("name", ["Metadata", "Produce", "OffsetCommit"])
def test_other_requests_before_authentication_close_the_connection(client, broker, name, first):
    if first == "versions":
        client.versions()
    if first == "token":
        client.handshake()
        wrong = client.authenticate(plain("alice", "x"))
        assert wrong.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    count = broker.requests(name)
    key = {"Metadata": 3, "Produce": 0, "OffsetCommit": 8}[name]
    try:
        client.send(struct.pack(">ihhih", 30, key, 8, 1, -1) + bytes(20))
    except ConnectionError:
        assert first == "token"
    assert client.is_closed()
    assert broker.requests(name) == count


@pytest.mark.parametrize(
    ("name", "version", "request_class", "response_class"),
    [
        ("Metadata", 9, MetadataRequest, MetadataResponse),
        ("ApiVersions", 2, ApiVersionsRequest, ApiVersionsResponse),
        ("SaslHandshake", 1, SaslHandshakeRequest, SaslHandshakeResponse),
        ("ListGroups", 4, ListGroupsRequest, ListGroupsResponse),
    ],
)
def test_a_request_instead_of_a_token_gets_an_error(
    client, broker, name, version, request_class, response_class
):
    client.handshake()
    count = broker.requests(name)
    request = request_class()
    if name == "Metadata":
        request.topics.append(MetadataRequestTopic(name="t"))
    answer = client.call(name, version, request, response_class)
    (code,) = {each.error_code for each in getattr(answer, "topics", None) or [answer]}
    assert code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed()
    assert broker.requests(name) == count


def test_a_login_that_fails_for_another_reason_ends_the_connection(client, broker, monkeypatch):
    """For example, no open file is left to import a handler."""

    def no_file_is_left():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    entry = broker.node.dispatcher.entries[api_keys.DESCRIBE_CLUSTER]
    monkeypatch.setattr(entry, "_load", no_file_is_left)
    monkeypatch.setattr(entry, "decoders", DecodersAtFirstUse(entry.load))
    client.handshake()
    client.send(client.frame("DescribeCluster", 0, DescribeClusterRequest()))
    assert client.is_closed()


def test_an_unserved_request_instead_of_a_token_has_no_response(client):
    client.handshake()
    client.send(struct.pack(">ihhih", 10, 3, 99, 1, -1))
    assert client.is_closed()


def test_versions_again_if_the_version_is_not_served(client):
    assert client.versions(version=3, request=ApiVersionsRequest()).error_code == (
        ErrorCode.INVALID_REQUEST
    )
    client.send(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    (correlation_id, error) = struct.unpack_from(">ih", client.receive())
    assert (correlation_id, error) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert client.versions().error_code == 0
    client.send(client.frame("ApiVersions", 4, VERSIONS))
    assert client.is_closed()


def test_a_mechanism_that_is_not_enabled(client):
    refused = client.handshake("GSSAPI")
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert refused.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert client.is_closed()


def test_the_mechanisms_are_those_of_the_listener(ports):
    with Client(ports["SHORT"]) as client:
        assert client.handshake("SCRAM-SHA-256").mechanisms == ["PLAIN"]


def test_a_wrong_password_is_answered_after_the_delay(client, broker, caplog):
    client.handshake()
    began = time.monotonic()
    with caplog.at_level(logging.INFO, "odradek.request"):
        refused = client.authenticate(plain("alice", "swordfish"))
        assert time.monotonic() - began >= 0.05
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert refused.error_message == "Authentication failed: Invalid username or password"
        assert client.is_closed()
    assert "failed authentication of 127.0.0.1" in caplog.text
    assert "swordfish" not in caplog.text


def test_a_wrong_scram_message(client):
    client.handshake("SCRAM-SHA-256")
    refused = client.authenticate(ScramClient("sha256", "nobody", "x").first())
    assert refused.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )
    assert client.is_closed()


def test_tokens_without_requests(client, broker):
    client.handshake(version=0)
    client.send(struct.pack(">i", len(RIGHT)) + RIGHT)
    assert client.receive() == b""
    assert principal(broker, client) == "User:alice"
    assert client.describe().brokers


def test_a_wrong_token_without_a_request_has_no_response(client):
    client.handshake(version=0)
    wrong = plain("alice", "swordfish")
    client.send(struct.pack(">i", len(wrong)) + wrong)
    assert client.is_closed()


@pytest.mark.parametrize("size", [1001, 2**31 - 1, -1, 3])
def test_a_long_request_before_authentication_is_not_read(client, broker, size):
    refused = broker.node.server.frames_refused
    client.send(struct.pack(">i", size))
    assert client.is_closed()
    assert broker.node.server.frames_refused == refused + 1


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">hhih", 17, 9, 1, -1),
        struct.pack(">hhih", 36, 9, 1, -1),
        struct.pack(">hhih", 17, 1, 1, -1) + b"\x7f\xff",
        struct.pack(">hhih", 17, 1, 1, 30_000),
        struct.pack(">hhih", 999, 0, 1, -1),
        bytes(range(200, 220)),
    ],
)
def test_malformed_requests_close_the_connection(client, body):
    client.send(struct.pack(">i", len(body)) + body)
    assert client.is_closed()


def test_sasl_requests_at_the_wrong_time(client, ports):
    client.handshake()
    client.authenticate()
    with Client(ports["PLAINTEXT"]) as plaintext:
        for connected in (client, plaintext):
            assert connected.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
            answer = connected.authenticate()
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert answer.error_message == (
                "SaslAuthenticate request received after successful authentication"
            )
            assert connected.describe().brokers


def test_a_client_may_authenticate_again(ports, broker):
    with Client(ports["LONG"]) as client:
        client.handshake()
        assert client.authenticate().session_lifetime_ms == 600_000
        assert client.describe().brokers
        assert client.handshake().error_code == 0
        assert client.authenticate().session_lifetime_ms == 600_000
        assert client.describe().brokers
        assert principal(broker, client) == "User:alice"


def test_after_a_session_only_authentication_is_possible(ports):
    with Client(ports["SHORT"]) as renewed, Client(ports["SHORT"]) as left:
        for each in (renewed, left):
            each.handshake()
            assert each.authenticate().session_lifetime_ms == 1
        time.sleep(0.05)
        left.send(left.frame("Metadata", 9, METADATA))
        assert left.is_closed()
        assert renewed.handshake().error_code == 0
        assert renewed.authenticate().error_code == 0


def test_another_user_may_not_take_over(ports):
    with Client(ports["LONG"]) as client:
        client.handshake()
        client.authenticate()
        client.handshake()
        refused = client.authenticate(plain("bob", "bob-secret"))
        assert refused.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert client.is_closed()


def test_a_client_that_leaves_before_the_response(ports, broker):
    with Client(ports["CLIENT"]) as client:
        client.handshake()
        request = SaslAuthenticateRequest(auth_bytes=plain("alice", "x"))
        client.send(client.frame("SaslAuthenticate", 2, request))
    deadline = time.monotonic() + 20
    while any(each.peer.listener == "CLIENT" for each in list(broker.node.server.connections)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
