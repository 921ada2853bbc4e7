"""Validation of AlterConfigs."""

from __future__ import annotations

import pytest

from odradek.config.alter import (
    apply_operation,
    check_broker,
    check_client_metrics,
    check_group,
    check_topic,
    is_sensitive,
)
from odradek.config.broker_config import BrokerConfig
from odradek.config.layers import BrokerLayers
from odradek.config.load import load
from odradek.model.config_resource import Operation, ResourceType
from odradek.model.errors import ApiError, ErrorCode

CONFIG = load({}, {}).config


@pytest.mark.parametrize(
    ("operation", "current", "operand", "expected"),
    [
        (Operation.SET, None, "compact", "compact"),
        (Operation.DELETE, "compact", None, None),
        (Operation.APPEND, None, "compact", "delete,compact"),
        (Operation.APPEND, "compact", "compact,delete", "compact,delete"),
        (Operation.APPEND, "", "compact", "compact"),
        (Operation.SUBTRACT, None, "delete", ""),
        (Operation.SUBTRACT, "compact,delete", "compact", "delete"),
        (Operation.SUBTRACT, "compact", "delete", "compact"),
    ],
)
def test_operations(
    operation: Operation, current: str | None, operand: str | None, expected: str | None
) -> None:
    name = "cleanup.policy"
    assert apply_operation(ResourceType.TOPIC, name, operation, current, operand) == expected


@pytest.mark.parametrize(
    ("name", "operation", "operand", "code"),
    [
        ("retention.ms", Operation.APPEND, "1", ErrorCode.INVALID_CONFIG),
        ("unknown", Operation.SUBTRACT, "1", ErrorCode.INVALID_CONFIG),
        ("retention.ms", Operation.SET, None, ErrorCode.INVALID_REQUEST),
        ("cleanup.policy", Operation.SET, "x" * 40_000, ErrorCode.INVALID_CONFIG),
    ],
)
def test_operations_that_are_refused(
    name: str, operation: Operation, operand: str | None, code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as caught:
        apply_operation(ResourceType.TOPIC, name, operation, None, operand)
    assert caught.value.code is code


def test_a_topics_settings() -> None:
    check_topic({"retention.ms": "5", "cleanup.policy": ""}, CONFIG)
    for wrong, message in (
        ({"nonsense": "1"}, "Unknown topic config name: nonsense"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: "),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "is above"),
        ({"remote.storage.enable": "true"}, "tiered"),
    ):
        with pytest.raises(ApiError) as caught:
            check_topic(wrong, CONFIG)
        assert caught.value.code is ErrorCode.INVALID_CONFIG
        assert message in caught.value.message


def test_a_groups_settings() -> None:
    check_group({"consumer.session.timeout.ms": "50000"}, CONFIG)
    check_group({"share.isolation.level": "read_committed"}, CONFIG)
    check_group({"streams.num.standby.replicas": "2"}, CONFIG)
    for wrong, message in (
        ({"nonsense": "1"}, "Unknown group config name: nonsense"),
        ({"consumer.session.timeout.ms": "1"}, "greater than or equal to"),
        ({"consumer.heartbeat.interval.ms": "99999"}, "less than or equal to"),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
        ({"share.isolation.level": "none"}, "must be one of"),
    ):
        with pytest.raises(ApiError) as caught:
            check_group(wrong, CONFIG)
        assert caught.value.code is ErrorCode.INVALID_CONFIG
        assert message in caught.value.message


def test_a_brokers_settings() -> None:
    check_broker({"log.retention.ms": "5", "custom.thing": "x"}, CONFIG, per_broker=False)
    check_broker({"ssl.keystore.location": None}, CONFIG, per_broker=True)
    for wrong, per_broker, message in (
        ({"node.id": "5"}, True, "read-only"),
        ({"cordoned.log.dirs": "/a"}, False, "only for one broker"),
        ({"listeners": "PLAINTEXT://:5"}, True, "cannot be changed while the node runs"),
        ({"config.providers": "vault"}, False, "config.providers cannot be changed while"),
        ({"ssl.keystore.location": "/x"}, True, "only for one listener"),
        ({"log.retention.ms": "x"}, True, "Invalid value x"),
        ({"max.connections.per.ip.overrides": "a"}, False, "address:count"),
        # As at the start of a node, settings must fit together.
        (
            {"max.connections.per.ip": "0"},
            False,
            "may be 0 only when max.connections.per.ip.overrides",
        ),
        (
            {"max.connections.per.ip": "0"},
            True,
            "may be 0 only when max.connections.per.ip.overrides",
        ),
        (
            {"log.retention.ms": "0"},
            True,
            "log.retention.ms is 0, but it must be at least 1, or -1",
        ),
        ({"log.roll.ms": "0"}, False, "log.roll.ms is 0, but it must be at least 1"),
        ({"log.cleaner.dedupe.buffer.size": "1"}, False, "must be above 1 MiB for each of"),
    ):
        with pytest.raises(ApiError) as caught:
            check_broker(wrong, CONFIG, per_broker)
        assert caught.value.code is ErrorCode.INVALID_REQUEST
        assert message in caught.value.message


def test_a_problem_that_exists_already_is_no_reason_to_refuse() -> None:
    stored = BrokerLayers(CONFIG.layers.static, {"log.roll.ms": "0"}, {})
    check_broker({"log.retention.ms": "5"}, BrokerConfig(stored), per_broker=True)
    with pytest.raises(ApiError):
        check_broker({"log.retention.ms": "0"}, BrokerConfig(stored), per_broker=True)


def test_a_metrics_subscription() -> None:
    check_client_metrics({"interval.ms": "1000", "match": "client_id=app-.*", "metrics": "*"})
    for wrong in (
        {"interval.ms": "10"},
        {"nonsense": "1"},
        {"match": "client_id"},
        {"match": "colour=red"},
        {"match": "client_id=("},
    ):
        with pytest.raises(ApiError):
            check_client_metrics(wrong)


def test_sensitive() -> None:
    assert is_sensitive(ResourceType.BROKER, "ssl.key.password")
    assert is_sensitive(ResourceType.BROKER, "listener.name.x.ssl.key.password")
    assert is_sensitive(ResourceType.BROKER, "unknown.to.us")
    assert not is_sensitive(ResourceType.TOPIC, "retention.ms")
