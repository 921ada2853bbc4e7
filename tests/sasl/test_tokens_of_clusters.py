"""Delegation tokens in a cluster of several nodes, and in data directories of Apache Kafka."""

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from tests.support.waiting import until

from compat import authenticated
from odradek.config.jaas import PLAIN_LOGIN_MODULE
from odradek.model.errors import ErrorCode
from odradek.testing import Cluster

from .client import plain
from .test_delegation_tokens import DAY_MS, TokenClient

pytestmark = pytest.mark.cluster

JAAS = (
    f'{PLAIN_LOGIN_MODULE} required username="node" password="node-secret" '
    'user_node="node-secret" user_alice="alice-secret";'
)
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "delegation.token.secret.key": "token-secret",
    "connection.failed.authentication.delay.ms": "1",
}


def error_of_login(port, token):
    """The error of a login with a token."""
    with TokenClient(port) as client:
        return client.log_in_with(token.token_id, token.hmac).error_code


def test_each_node_knows_the_tokens():
    with Cluster(settings=SETTINGS) as cluster:
        ports = [each.port for each in cluster.nodes.values()]
        tokens = []
        for port in ports:  # two of them forward the request
            with TokenClient(port) as client:
                tokens.append(client.log_in("alice").create())
            assert tokens[-1].error_code == 0
        for token in tokens:
            for port in ports:
                until(lambda port=port, token=token: error_of_login(port, token) == 0)
        for port in ports:
            with TokenClient(port) as client:
                client.log_in("alice")
                answers = [client.renew(each.hmac, period_ms=60_000) for each in tokens]
                assert [each.error_code for each in answers] == [0, 0, 0]
        with TokenClient(ports[0]) as client:
            client.log_in("alice")
            for each in tokens:
                assert client.expire(each.hmac).error_code == 0
            for each in tokens:
                assert client.renew(each.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        for port in ports:
            until(lambda port=port: error_of_login(port, tokens[0]) != 0)


class Moved:
    """A data directory, which nodes of both products use one after the other."""

    def __init__(self, directory):
        self.directory = directory

    def start(self, kind):
        settings = {**authenticated.SETTINGS, "connection.failed.authentication.delay.ms": "1"}
        listeners = [authenticated.listener()]
        return kind(settings=settings, directory=self.directory, listeners=listeners)


def log_in(node, user):
    client = TokenClient(int(node.listeners[0].rpartition(":")[2]))
    assert client.handshake().error_code == 0
    assert client.authenticate(plain(user, user)).error_code == 0
    return client


def see(node, *tokens):
    """Check that a node knows these tokens with the same HMACs, and that clients use them."""
    port = int(node.listeners[0].rpartition(":")[2])
    with log_in(node, "alice") as client:
        found = {each.token_id: each for each in client.tokens().tokens}
        for token in tokens:
            known = found[token.token_id]
            assert known.hmac == token.hmac
            assert known.max_timestamp == token.max_timestamp_ms
            assert [each.principal_name for each in known.renewers] == ["bob"]
            assert error_of_login(port, token) == 0
    with log_in(node, "bob") as client:
        for token in tokens:
            renewed = client.renew(token.hmac)
            assert renewed.error_code == 0
            assert renewed.expiry_timestamp_ms <= token.max_timestamp_ms


@pytest.mark.java
def test_the_tokens_of_a_data_directory_are_used_by_both(tmp_path):
    moved = Moved(tmp_path)
    try:
        with moved.start(OdradekNode) as ours, log_in(ours, "alice") as client:
            first = client.create("bob", lifetime_ms=3 * DAY_MS)
        with moved.start(NextApacheKafka) as theirs:
            see(theirs, first)
            with log_in(theirs, "alice") as client:
                second = client.create("bob", lifetime_ms=2 * DAY_MS)
        with moved.start(OdradekNode) as ours:
            see(ours, first, second)
    except Missing as reason:
        pytest.skip(str(reason))
