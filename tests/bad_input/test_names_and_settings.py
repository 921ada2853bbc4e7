"""Invalid topic names, settings and sizes: refused with Apache Kafka's error and a message."""

from __future__ import annotations

import pytest
from compat.lab.wire_client import WireClient
from tests.bad_input.recorded import check, error_name
from tests.bad_input.target import TOPIC, Target

from odradek.wire.generated.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)

FILE = "test_names_and_settings"
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET = 0


def create(node: Target, topic: CreatableTopic) -> tuple[int, str | None]:
    """Send CreateTopics version 5. Return error code and message."""
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    with WireClient(node.node.port) as wire:
        (result,) = wire.call("CreateTopics", 5, request, CreateTopicsResponse).topics
    return result.error_code, result.error_message


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def refused(case: str, answer: tuple[int, str | None]) -> None:
    """Check that the error code is Apache Kafka's, and that there is a message."""
    code, message = answer
    check(FILE, case, error_name(code))
    assert code != 0
    assert message


NAMES = ["", ".", "..", "a/b", "../../etc/passwd", "a b", "ä", "a\nb", "a\0b", "x" * 250, "__a:b"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_bad_topic_name(target: Target, name: str) -> None:
    refused(f"topic name {name[:20]!a}", create(target, topic(name)))


def test_names_that_collide_and_names_that_exist(target: Target) -> None:
    assert create(target, topic("a.b"))[0] == 0
    refused("topic a_b beside a.b", create(target, topic("a_b")))
    refused("topic a.b again", create(target, topic("a.b")))
    assert create(target, topic("x" * 249))[0] == 0


@pytest.mark.parametrize(
    ("partitions", "replicas"),
    [(0, 1), (-2, 1), (1, 0), (1, 2), (1, -2), (1, 32_767), (0, 0), (100_000, 1), (2**31 - 1, 1)],
)
def test_invalid_sizes(target: Target, partitions: int, replicas: int) -> None:
    answer = create(target, topic("sized", partitions, replicas))
    refused(f"{partitions} partitions, {replicas} replicas", answer)


@pytest.mark.parametrize("brokers", [[], [999], [1, 1], [-1]], ids=str)
def test_invalid_assignments(target: Target, brokers: list[int]) -> None:
    assigned = CreatableTopic(
        name="assigned",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=brokers)],
    )
    refused(f"assigned to {brokers}", create(target, assigned))


BAD_SETTINGS = [
    ("retention.ms", "a while"),
    ("retention.ms", ""),
    ("retention.ms", "9" * 30),
    ("segment.bytes", "-5"),
    ("max.message.bytes", "-1"),
    ("cleanup.policy", "burn"),
    ("compression.type", "rar"),
    ("min.insync.replicas", "0"),
    ("message.timestamp.type", "Noon"),
    ("no.such.setting", "1"),
    ("", "1"),
]


@pytest.mark.parametrize(("name", "value"), BAD_SETTINGS)
def test_a_bad_setting_at_creation(target: Target, name: str, value: str) -> None:
    bad = topic("set")
    bad.configs = [CreatableTopicConfig(name=name, value=value)]
    refused(f"created with {name}={value}", create(target, bad))


@pytest.mark.parametrize(("name", "value"), BAD_SETTINGS)
def test_a_bad_setting_later(target: Target, name: str, value: str) -> None:
    answer = _alter(target, TOPIC_RESOURCE, TOPIC, name, value)
    refused(f"topic's {name} set to {value}", answer)


@pytest.mark.parametrize(
    ("name", "value"),
    [("log.dirs", "/elsewhere"), ("node.id", "7"), ("log.cleaner.threads", "many")],
)
def test_a_bad_setting_of_the_broker(target: Target, name: str, value: str) -> None:
    with WireClient(target.node.port) as wire:
        broker = str(wire.metadata().brokers[0].node_id)
    answer = _alter(target, BROKER_RESOURCE, broker, name, value)
    refused(f"broker's {name} set to {value}", answer)


def _alter(
    node: Target, resource: int, resource_name: str, name: str, value: str
) -> tuple[int, str | None]:
    change = AlterableConfig(name=name, config_operation=SET, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource, resource_name=resource_name, configs=[change]
            )
        ]
    )
    with WireClient(node.node.port) as wire:
        response = wire.call("IncrementalAlterConfigs", 0, request, IncrementalAlterConfigsResponse)
    (result,) = response.responses
    return result.error_code, result.error_message
