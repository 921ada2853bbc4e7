"""Topics with impossible names, settings and sizes: refused with Kafka's error and a reason."""

from __future__ import annotations

import pytest
from compat.lab.wire_client import WireClient
from tests.bad_input.victim import TOPIC, Victim

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

INVALID_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR = 17, 36, 37, 38
INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION = 39, 40, 42, 44
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET = 0


def create(node: Victim, topic: CreatableTopic) -> tuple[int, str | None]:
    """Error code and message of a CreateTopics of version 5."""
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


NAMES = ["", ".", "..", "a/b", "../../etc/passwd", "a b", "ä", "a\nb", "a\0b", "x" * 250, "__a:b"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_bad_topic_name(mistreated: Victim, name: str) -> None:
    code, message = create(mistreated, topic(name))
    assert code == INVALID_TOPIC
    assert message


def test_names_that_collide_and_names_that_exist(mistreated: Victim) -> None:
    assert create(mistreated, topic("a.b"))[0] == 0
    assert create(mistreated, topic("a_b"))[0] == INVALID_TOPIC
    assert create(mistreated, topic("a.b"))[0] == TOPIC_EXISTS
    assert create(mistreated, topic("x" * 249))[0] == 0


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (0, 1, INVALID_PARTITIONS),
        (-2, 1, INVALID_PARTITIONS),
        (1, 0, INVALID_REPLICATION_FACTOR),
        (1, 2, INVALID_REPLICATION_FACTOR),
        (1, -2, INVALID_REPLICATION_FACTOR),
        (1, 32_767, INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_sizes(mistreated: Victim, partitions: int, replicas: int, code: int) -> None:
    assert create(mistreated, topic("sized", partitions, replicas))[0] == code


def test_far_too_many_partitions(mistreated: Victim) -> None:
    for partitions in (100_000, 2**31 - 1):
        code, message = create(mistreated, topic("many", partitions))
        assert code in (INVALID_PARTITIONS, POLICY_VIOLATION)
        assert message


@pytest.mark.parametrize("brokers", [[], [999], [1, 1], [-1]], ids=str)
def test_impossible_assignments(mistreated: Victim, brokers: list[int]) -> None:
    assigned = CreatableTopic(
        name="assigned",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=brokers)],
    )
    assert create(mistreated, assigned)[0] == INVALID_REPLICA_ASSIGNMENT


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
def test_a_bad_setting_at_creation(mistreated: Victim, name: str, value: str) -> None:
    bad = topic("set")
    bad.configs = [CreatableTopicConfig(name=name, value=value)]
    code, message = create(mistreated, bad)
    assert code == INVALID_CONFIG
    assert message


@pytest.mark.parametrize(("name", "value"), BAD_SETTINGS)
def test_a_bad_setting_later(mistreated: Victim, name: str, value: str) -> None:
    code, message = _alter(mistreated, TOPIC_RESOURCE, TOPIC, name, value)
    assert code in (INVALID_CONFIG, INVALID_REQUEST)
    assert message


@pytest.mark.parametrize(
    ("name", "value"),
    [("log.dirs", "/elsewhere"), ("node.id", "7"), ("log.cleaner.threads", "many")],
)
def test_a_bad_setting_of_the_broker(mistreated: Victim, name: str, value: str) -> None:
    with WireClient(mistreated.node.port) as wire:
        broker = str(wire.metadata().brokers[0].node_id)
    code, message = _alter(mistreated, BROKER_RESOURCE, broker, name, value)
    assert code in (INVALID_CONFIG, INVALID_REQUEST)
    assert message


def _alter(
    node: Victim, resource: int, resource_name: str, name: str, value: str
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
