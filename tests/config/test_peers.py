"""How a node connects to other nodes."""

from __future__ import annotations

import pytest

from odradek.config.checks import ConfigurationError, Secret
from odradek.config.load import load
from odradek.config.tls import Store

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS = {
    "listeners": "OUT://:9092,IN://:9093,CONTROLLER://:9094",
    "listener.security.protocol.map": "OUT:PLAINTEXT,IN:SASL_SSL,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "IN",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@a:9094,2@b:9094",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/key.pem",
    "ssl.truststore.type": "PEM",
    "listener.name.in.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.in.ssl.truststore.location": "/trust.pem",
    "listener.name.in.ssl.endpoint.identification.algorithm": "",
    "listener.name.in.scram-sha-256.sasl.jaas.config": (
        f'{SCRAM} required username="node" password="in-secret";'
    ),
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN} required username="node" password="c-secret" user_node="c-secret";'
    ),
}


def test_the_settings_of_both_kinds_of_connections() -> None:
    config, warnings = load({}, SETTINGS)
    assert warnings == ()
    brokers, controllers = config.broker_peers, config.controller_peers
    assert brokers is not None
    assert brokers.tls is not None
    assert controllers is not None
    assert (brokers.mechanism, brokers.user, brokers.password.value) == (
        "SCRAM-SHA-256", "node", "in-secret",
    )  # fmt: skip
    assert brokers.tls.key == Store("/key.pem", "PEM", Secret(""))
    assert brokers.tls.trust == Store("/trust.pem", "PEM", Secret(""))
    assert not brokers.tls.verifies_host
    assert controllers.tls is None
    assert (controllers.mechanism, controllers.password.value) == ("PLAIN", "c-secret")
    assert "secret" not in repr(brokers) + repr(controllers)
    assert set(config.sasl_by_listener) == {"IN", "CONTROLLER"}


def test_a_broker_without_a_controller_listener() -> None:
    changes = {
        "process.roles": "broker",
        "node.id": "3",
        "listeners": "OUT://:9092,IN://:9093",
        "listener.security.protocol.map": "OUT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:SSL",
        "ssl.keystore.location": "",
    }
    config, _ = load({}, {**SETTINGS, **changes})
    assert config.broker_peers is None
    assert config.controller_peers is not None
    assert config.controller_peers.tls is not None
    assert config.controller_peers.tls.key is None
    assert config.controller_peers.tls.verifies_host


@pytest.mark.parametrize(
    "roles",
    [
        {"process.roles": "broker", "node.id": "3", "listeners": "IN://:9093"},
        {"controller.quorum.voters": "1@a:9094"},
    ],
)
def test_brokers_and_a_single_controller_may_use_scram(roles: dict[str, str]) -> None:
    changes = {
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "listener.name.controller.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM} required username="node" password="controller-secret";'
        ),
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    peers = load({}, {**SETTINGS, **changes, **roles}).config.controller_peers
    assert peers is not None
    assert (peers.mechanism, peers.user) == ("SCRAM-SHA-512", "node")


def test_a_node_without_others_needs_no_credential() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://:9092",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    assert load({}, settings).config.broker_peers is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "DIGEST-MD5"},
            "sasl.mechanism.inter.broker.protocol: it must be PLAIN or SCRAM",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            r"nodes connect to listener IN with GSSAPI \(.* is GSSAPI\): set listener.name.in.gssapi.sasl.jaas.conf",
        ),
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"},
            r"nodes connect to listener CONTROLLER with SASL \(.*\): set listener.name.controller.scram-sha",
        ),
        (
            {
                "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
                "listener.name.controller.scram-sha-256.sasl.jaas.config":
                    f'{SCRAM} required username="node" password="controller-secret";',
            },
            "several controllers cannot use SCRAM-SHA-256 among themselves",
        ),
        (
            {"listener.name.in.scram-sha-256.sasl.jaas.config": ""},
            r"nodes connect to listener IN with SASL \(.*\): set listener.name.in.scram-sha-256",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required user_a="b";'},
            "username and password is expected",
        ),
        (
            {"listener.name.in.scram-sha-256.sasl.jaas.config": f'{PLAIN} required username="a";'},
            "ScramLoginModule with the options",
        ),
        (
            {"listener.name.in.ssl.endpoint.identification.algorithm": "ldaps"},
            "must be https or empty",
        ),
        (
            {"listener.security.protocol.map": "OUT:PLAINTEXT,IN:PLAINTEXT", "process.roles": "broker",
             "listeners": "IN://:9092", "node.id": "3"},
            "no security protocol is defined for CONTROLLER",
        ),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as error:
        load({}, {**SETTINGS, **changes})
    assert "secret" not in str(error.value)
