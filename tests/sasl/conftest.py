"""A broker with listeners with and without SASL."""

import pytest

from odradek.testing import Broker

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_alice="alice-secret" user_bob="bob-secret";'
)
NAMES = ("PLAINTEXT", "CLIENT", "SHORT", "LONG")
SETTINGS = {
    "listeners": ",".join(f"{name}://127.0.0.1:0" for name in NAMES),
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT,LONG:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.client.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.client.plain.sasl.jaas.config": JAAS,
    "listener.name.client.sasl.server.max.receive.size": "1000",
    "listener.name.short.plain.sasl.jaas.config": JAAS,
    "listener.name.short.plain.connections.max.reauth.ms": "1",
    "listener.name.long.plain.sasl.jaas.config": JAAS,
    "listener.name.long.connections.max.reauth.ms": "600000",
    "delegation.token.secret.key": "token-secret",
    "connection.failed.authentication.delay.ms": "50",
}


@pytest.fixture(scope="package")
def broker():
    with Broker(topics={"orders": 1}, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def ports(broker):
    """The port of each listener."""
    return {each.name: each.port for each in broker.node.server.endpoints}
