"""Loading a configuration from a file and overrides, and the error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.config.checks import ConfigurationError
from odradek.config.listeners import Listener
from odradek.config.load import FRIENDLY_DEFAULTS, default_data_directory, load, read_file, shown
from odradek.config.registry import broker_settings

CONTROLLER = {
    "listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


def test_without_a_file() -> None:
    config, warnings = load(None, {}, data_directory="/var/odradek")
    assert warnings == ()
    assert config.log_dirs == ("/var/odradek",)
    assert config.metadata_log_dir == "/var/odradek"
    assert config.listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert config.is_broker
    assert config.is_controller
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.offsets_topic_replication_factor == 1


def test_with_an_empty_file_kafkas_defaults_hold() -> None:
    config, warnings = load({}, {})
    assert warnings == ()
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.log_dirs == ("/tmp/kafka-logs",)


def test_friendly_defaults_are_settings_and_differ_from_kafkas() -> None:
    for each in FRIENDLY_DEFAULTS:
        assert broker_settings()[each.name].default_text != each.value


def test_a_file_in_the_form_that_apache_kafka_ships(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        "num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\n"
        f"log.dirs={tmp_path}/logs\nnum.partitions=1\n"
        "offsets.topic.replication.factor=1\n"
        "share.coordinator.state.topic.replication.factor=1\n"
        "share.coordinator.state.topic.min.isr=1\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        "log.retention.hours=168\nlog.segment.bytes=1073741824\n"
    )
    config, warnings = load(read_file(path), {"log.retention.hours": "1"})
    assert warnings == ()
    assert config.topic_defaults.retention_ms == 3_600_000
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert [each.port for each in config.controller_listeners] == [9093]
    assert config.quorum_bootstrap_servers == ("localhost:9093",)


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("log.retention.hour", "1", "did you mean log.retention.hours"),
        ("completely.unknown", "1", "has no such setting"),
        ("zookeeper.connect", "localhost:2181", "there is no ZooKeeper"),
        ("ssl.provider", "x", "JKS files, and OpenSSL"),
        ("ssl.enabled.protocols", "TLSv1.3,TLSv1.1", "TLSv1.1 is insecure, and is not offered"),
        ("listener.name.x.ssl.provider", "x", "JKS files, and OpenSSL"),
        ("listener.name.x.connections.max.idle.ms", "5", "not supported for single listeners"),
        ("metric.reporters", "", "Java reporters are not loaded"),
        ("broker.rack", "${env:RACK}", "config.providers does not name its provider"),
    ],
)
def test_warnings_name_the_setting_and_the_consequence(name: str, value: str, warning: str) -> None:
    _, warnings = load({}, {name: value})
    assert len(warnings) == 1
    assert warnings[0].startswith(name)
    assert warning in warnings[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.type", "JKS"),
        ("num.io.threads", "64"),
        ("remote.log.storage.system.enable", "false"),
        ("authorizer.class.name", ""),
    ],
)
def test_no_warning_for_defaults_and_for_what_is_harmless(name: str, value: str) -> None:
    assert load({}, {name: value}).warnings == ()


def test_a_warning_for_a_listener_whose_name_promises_too_much() -> None:
    settings = {
        "listeners": "SASL_SSL://:1,CONTROLLER://:2",
        "listener.security.protocol.map": "SASL_SSL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
    }
    (warning,) = load(settings, {}).warnings
    assert warning.startswith("the listener SASL_SSL uses the protocol PLAINTEXT")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"num.partitions": "none"}, "Invalid value none for configuration num.partitions"),
        ({"authorizer.class.name": "A"}, "authorizer.class.name is not supported"),
        ({"remote.log.storage.system.enable": "true"}, "set it to false"),
        ({"create.topic.policy.class.name": "A"}, "the rules of the class"),
        ({"node.id": "1", "broker.id": "2"}, "node.id and broker.id differ"),
        ({"listeners": "nonsense"}, "expected NAME://host:port"),
        ({"listeners": "A://:1"}, "add A:PROTOCOL to listener.security.protocol.map (one of PLAIN"),
        (
            {"listeners": "SSL://:1", "listener.security.protocol.map": "CONTROLLER:PLAINTEXT"},
            "add SSL:SSL to listener.security.protocol.map",
        ),
        ({"principal.builder.class": "A"}, "ACLs would apply to other names"),
        ({"ssl.engine.factory.class": "A"}, "the checks of the class would not be made"),
        ({"listeners": "PLAINTEXT://:99999"}, "the port must be"),
        ({"listeners": "SSL://:1", "security.inter.broker.protocol": "SSL"}, "needs a key: set"),
        ({"listeners": "SSL://:1", "inter.broker.listener.name": "SSL"}, "needs a key: set"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "needs its own name"),
        ({"listener.security.protocol.map": "A:B"}, "the protocol must be one of"),
        ({"listener.security.protocol.map": "A"}, "must have the form NAME:PROTOCOL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "no address to connect to"),
        ({"inter.broker.listener.name": "X"}, "it must be one of PLAINTEXT"),
        ({"process.roles": "broker"}, "a broker needs controller.quorum.bootstrap.servers"),
        ({"process.roles": "broker"}, "a broker needs controller.listener.names"),
        ({"process.roles": "boss"}, "must be one of broker, controller"),
        ({**CONTROLLER, "node.id": "2"}, "a controller must be one of the voters"),
        ({**CONTROLLER, "listeners": "PLAINTEXT://:1"}, "add CONTROLLER://host:port to listeners"),
        ({**CONTROLLER, "listeners": "CONTROLLER://:1"}, "no listener is left for clients"),
        ({"controller.quorum.voters": "1@a:1,2@b:1"}, "needs controller.listener.names"),
        ({"process.roles": "controller"}, "needs controller.listener.names"),
        ({"replica.selector.class": "org.example.Nearest"}, "org.example.Nearest is a Java class"),
        ({"log.cleaner.dedupe.buffer.size": "1000"}, "above 1 MiB"),
        ({"log.retention.ms": "0"}, "log.retention.ms is 0, but it must be"),
        ({"log.roll.ms": "0"}, "log.roll.ms is 0, but it must be"),
        (
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            "at most log.cleaner.max.compaction.lag.ms",
        ),
        ({"group.consumer.session.timeout.ms": "90000"}, "but must be from"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "must hold classic"),
        ({"group.consumer.assignors": "uniform,com.example.Own"}, "only uniform and range"),
        ({"max.connections.per.ip": "0"}, "who may connect"),
        ({"max.connections.per.ip.overrides": "host"}, "address:count"),
        ({"broker.heartbeat.interval.ms": "8000"}, "at most half of"),
        ({"queued.max.request.bytes": "10"}, "socket.request.max.bytes"),
    ],
)
def test_error_messages_have_advice(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(settings, {})
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {
                "listeners": "A://:1,B://:2",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
            },
            "no listener is named PLAINTEXT for the connections between brokers "
            "(security.inter.broker.protocol is PLAINTEXT by default): set "
            "inter.broker.listener.name to one of A, B",
        ),
        (
            {
                "listeners": "A://:1",
                "listener.security.protocol.map": "A:PLAINTEXT",
                "security.inter.broker.protocol": "SSL",
            },
            "no listener is named SSL for the connections between brokers "
            "(security.inter.broker.protocol is SSL): set inter.broker.listener.name to one of A",
        ),
        ({"log.roll.hours": "0"}, None),
        ({"log.retention.minutes": "0"}, "log.retention.minutes is 0, but it must be at least 1"),
        (
            {"broker.session.timeout.ms": "3000"},
            "broker.heartbeat.interval.ms is 2000 by default, but it must be at most half of "
            "broker.session.timeout.ms, and broker.session.timeout.ms is 3000",
        ),
        (
            {"group.share.min.session.timeout.ms": "50000"},
            "group.share.session.timeout.ms is 45000 by default, but must be from "
            "group.share.min.session.timeout.ms to group.share.max.session.timeout.ms: "
            "group.share.min.session.timeout.ms is 50000, "
            "group.share.max.session.timeout.ms is 60000 by default",
        ),
        (
            {"log.cleaner.threads": "128"},
            "log.cleaner.dedupe.buffer.size is 134217728 by default, but it must be above 1 MiB "
            "for each of log.cleaner.threads, and log.cleaner.threads is 128",
        ),
        (
            {key: value for key, value in CONTROLLER.items() if key != "node.id"}
            | {"broker.id": "7"},
            "broker.id is 7, but controller.quorum.voters has only 1",
        ),
        (
            {key: value for key, value in CONTROLLER.items() if key != "node.id"}
            | {"controller.quorum.voters": "2@localhost:9093"},
            "node.id is 1 by default, but controller.quorum.voters has only 2",
        ),
        (
            {
                "ssl.truststore.certificates": "PEM",
                "listeners": "SSL://:1",
                "ssl.keystore.location": "k",
                "inter.broker.listener.name": "SSL",
            },
            "but ssl.truststore.type is JKS (the default)",
        ),
        (
            {
                **CONTROLLER,
                "listeners": "SASL_PLAINTEXT://:1,CONTROLLER://:2",
                "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "inter.broker.listener.name": "SASL_PLAINTEXT",
            },
            "(sasl.mechanism.inter.broker.protocol is GSSAPI by default)",
        ),
    ],
)
def test_messages_name_what_a_person_has_set(settings: dict[str, str], problem: str | None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(settings, {})
    if problem is not None:
        assert problem in str(caught.value)
    for name in settings:
        assert name not in DERIVED or name in str(caught.value)


DERIVED = frozenset(("log.roll.hours", "broker.id"))
"""Settings from which others are derived, so that a message may only name these."""


HOSTS = {
    "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}


@pytest.mark.parametrize("advertised", [None, "PLAINTEXT://localhost:9092", "PLAINTEXT://:9099"])
def test_only_advertised_hosts_that_are_set_must_be_addresses_to_connect_to(
    advertised: str | None,
) -> None:
    given = {} if advertised is None else {"advertised.listeners": advertised}
    assert load({**HOSTS, **given}, {}).config.advertised_controller_listeners[0].port == 9093


def test_an_advertised_address_of_a_controller_must_be_one_to_connect_to() -> None:
    told = "PLAINTEXT://localhost:9092,CONTROLLER://0.0.0.0:9093"
    with pytest.raises(
        ConfigurationError, match=r"holds CONTROLLER://0\.0\.0\.0:9093: 0\.0\.0\.0 is no"
    ):
        load({**HOSTS, "advertised.listeners": told}, {})


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load({"num.partitions": "x", "node.id": "y"}, {})
    assert len(str(caught.value).splitlines()) == 2


def test_two_listeners_may_share_a_port_on_the_two_protocols_of_ip() -> None:
    both = {
        "listeners": "A://127.0.0.1:1,B://[::1]:1",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
    }
    assert [each.host for each in load(both, {}).config.listeners] == ["127.0.0.1", "::1"]
    with pytest.raises(ConfigurationError, match="own port"):
        load({**both, "listeners": "A://127.0.0.1:1,B://127.0.0.2:1"}, {})


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_file(tmp_path / "none")


def test_the_default_data_directory() -> None:
    assert default_data_directory({"HOME": "/h"}) == "/h/.local/share/odradek"
    assert default_data_directory({"HOME": "/h", "XDG_DATA_HOME": "/x"}) == "/x/odradek"


def test_what_is_shown_hides_secrets_and_strangers() -> None:
    config, _ = load({}, {"ssl.key.password": "swordfish", "my.secret": "swordfish"})
    assert "swordfish" not in str(shown(config))
    assert shown(config)["node.id"] == "1"
