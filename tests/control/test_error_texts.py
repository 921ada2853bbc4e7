"""The texts of errors that administrators see are those of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from tests.authorizer.matrix.request import message
from tests.bad_input.target import create_topic

from odradek.model.config_resource import Operation, ResourceType
from odradek.wire.api import BY_NAME

pytestmark = [pytest.mark.java, pytest.mark.cluster]

PRESENT, ABSENT = "present", "absent"
PLENTY = 9
"""More than there are brokers and partitions."""
WAIT = {"timeout_ms": 9000}


class Case(NamedTuple):
    """A request that fails."""

    name: str
    api: str
    version: int
    fields: Mapping[str, Any]


def _topic(
    topic: str = ABSENT, count: int = 1, factor: int = 1, *assigned: tuple[int, list[int]]
) -> dict[str, Any]:
    assignments = [{"partition_index": index, "broker_ids": ids} for index, ids in assigned]
    return {
        "name": topic, "num_partitions": count, "replication_factor": factor,
        "assignments": assignments,
    }  # fmt: skip


def _with(name: str, value: str | None) -> dict[str, Any]:
    return {**_topic(), "configs": [{"name": name, "value": value}]}


def _topics(name: str, *topics: dict[str, Any]) -> Case:
    return Case(name, "CreateTopics", 7, {"topics": list(topics), **WAIT})


def _partitions(name: str, topic: str, count: int, *assigned: list[int]) -> Case:
    assignments = [{"broker_ids": each} for each in assigned] or None
    grown = {"name": topic, "count": count, "assignments": assignments}
    return Case(name, "CreatePartitions", 3, {"topics": [grown], **WAIT})


def _delete(name: str, topic: str | None, topic_id: bytes = bytes(16)) -> Case:
    return Case(
        name, "DeleteTopics", 6, {"topics": [{"name": topic, "topic_id": topic_id}], **WAIT}
    )


def _elect(name: str, topic: str, partition: int, kind: int = 0) -> Case:
    partitions = [{"topic": topic, "partitions": [partition]}]
    fields = {"election_type": kind, "topic_partitions": partitions, **WAIT}
    return Case(name, "ElectLeaders", 2, fields)


def _reassign(name: str, topic: str, partition: int, replicas: list[int] | None) -> Case:
    moved = {"partition_index": partition, "replicas": replicas}
    fields = {"topics": [{"name": topic, "partitions": [moved]}], **WAIT}
    return Case(name, "AlterPartitionReassignments", 0, fields)


def _resources(
    name: str, api: str, version: int, kind: int, resource: str, **fields: object
) -> Case:
    named = {"resource_type": kind, "resource_name": resource, **fields}
    return Case(name, api, version, {"resources": [named]})


def _describe(name: str, kind: int, resource: str) -> Case:
    return _resources(name, "DescribeConfigs", 4, kind, resource, configuration_keys=None)


def _alter(name: str, kind: int, resource: str) -> Case:
    return _resources(name, "AlterConfigs", 2, kind, resource)


def _change(
    name: str, kind: int, resource: str, operation: int, key: str, value: str | None
) -> Case:
    change = {"name": key, "config_operation": operation, "value": value}
    return _resources(name, "IncrementalAlterConfigs", 1, kind, resource, configs=[change])


def _acl(name: str, principal: str, resource: str = "t") -> Case:
    creation = {
        "resource_type": 2, "resource_name": resource, "resource_pattern_type": 3, "host": "*",
        "principal": principal, "operation": 3, "permission_type": 3,
    }  # fmt: skip
    return Case(name, "CreateAcls", 3, {"creations": [creation]})


def _coordinator(name: str, kind: int, key: str) -> Case:
    return Case(name, "FindCoordinator", 6, {"key_type": kind, "coordinator_keys": [key]})


def _producers(name: str, topic: str, partition: int) -> Case:
    topics = [{"name": topic, "partition_indexes": [partition]}]
    return Case(name, "DescribeProducers", 0, {"topics": topics})


TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
CASES = [
    _topics("an empty name", _topic("")),
    _topics("a dot as the name", _topic(".")),
    _topics("two dots as the name", _topic("..")),
    _topics("a long name", _topic("x" * 250)),
    _topics("a name with a slash", _topic("bad/name")),
    _topics("a topic that exists", _topic(PRESENT)),
    _topics("a name that collides", _topic("a_b.c")),
    _topics("a topic twice", _topic(), _topic()),
    _topics("the metadata topic", _topic("__cluster_metadata")),
    _topics("too many replicas", _topic(factor=PLENTY)),
    _topics("no replicas", _topic(factor=0)),
    _topics("negative replicas", _topic(factor=-2)),
    _topics("no partitions", _topic(count=0)),
    _topics("negative partitions", _topic(count=-2)),
    _topics("an assignment and a factor", _topic(ABSENT, -1, 1, (0, [1]))),
    _topics("an assignment and a count", _topic(ABSENT, 1, -1, (0, [1]))),
    _topics("a partition assigned twice", _topic(ABSENT, -1, -1, (0, [1]), (0, [1]))),
    _topics("an assignment with a gap", _topic(ABSENT, -1, -1, (0, [1]), (2, [1]))),
    _topics("an assignment to nobody", _topic(ABSENT, -1, -1, (0, []))),
    _topics("an assignment to an unknown broker", _topic(ABSENT, -1, -1, (0, [PLENTY]))),
    _topics("an assignment to a broker twice", _topic(ABSENT, -1, -1, (0, [1, 1]))),
    _topics("different factors", _topic(ABSENT, -1, -1, (0, [1]), (1, [1, 2]))),
    _topics("an unknown setting", _with("nonsense", "1")),
    _topics("a setting without a value", _with("retention.ms", None)),
    _topics("a setting with a wrong value", _with("retention.ms", "long")),
    _partitions("partitions of an absent topic", ABSENT, 2),
    _partitions("the same number of partitions", PRESENT, 1),
    _partitions("fewer partitions", PRESENT, 0),
    _partitions("too few assignments", PRESENT, 4, [1]),
    _partitions("too many assignments", PRESENT, 2, [1], [1]),
    _partitions("partitions on an unknown broker", PRESENT, 3, [PLENTY]),
    _partitions("partitions on no broker", PRESENT, 3, []),
    _delete("an absent topic", ABSENT),
    _delete("an unknown id", None, bytes(15) + b"\7"),
    _delete("a name and an id", PRESENT, bytes(15) + b"\7"),
    _delete("neither a name nor an id", None),
    _elect("an election that is not needed", PRESENT, 0),
    _elect("an unclean election that is not needed", PRESENT, 0, 1),
    _elect("an election in an absent topic", ABSENT, 0),
    _elect("an election of an absent partition", PRESENT, PLENTY),
    _reassign("a reassignment of an absent topic", ABSENT, 0, [1]),
    _reassign("a reassignment of an absent partition", PRESENT, PLENTY, [1]),
    _reassign("the end of no reassignment", PRESENT, 0, None),
    _reassign("a reassignment to an unknown broker", PRESENT, 0, [PLENTY]),
    _reassign("a reassignment to nobody", PRESENT, 0, []),
    _reassign("a reassignment to a broker twice", PRESENT, 0, [1, 1]),
    _describe("settings of an absent topic", TOPIC, ABSENT),
    _describe("settings of a bad topic", TOPIC, "bad/name"),
    _describe("settings of an unknown broker", BROKER, "77"),
    _describe("settings of a broker without a number", BROKER, "x"),
    _describe("levels of loggers of an unknown broker", LOGGER, "77"),
    _alter("replaced levels of loggers", LOGGER, "1"),
    _alter("replaced settings of an absent topic", TOPIC, ABSENT),
    _alter("replaced settings of an unknown kind", 7, "x"),
    _change("an item added to a number", BROKER, "1", Operation.APPEND, "log.retention.ms", "1"),
    _change("an item added to an unknown setting", BROKER, "1", Operation.APPEND, "nonsense", "1"),
    _change("a level with an item more", LOGGER, "1", Operation.APPEND, "root", "INFO"),
    _change("an unknown level", LOGGER, "1", Operation.SET, "root", "LOUD"),
    _change("an unknown logger", LOGGER, "1", Operation.SET, "nonsense", "INFO"),
    _change("a setting of an absent topic", TOPIC, ABSENT, Operation.SET, "retention.ms", "1"),
    _change("an unknown setting of a topic", TOPIC, PRESENT, Operation.SET, "nonsense", "1"),
    _change(
        "an item added to a topic's number", TOPIC, PRESENT, Operation.APPEND, "retention.ms", "1"
    ),
    _change(
        "a topic's setting without a value", TOPIC, PRESENT, Operation.SET, "retention.ms", None
    ),
    _acl("a principal without a type", "alice"),
    _acl("an empty principal", ""),
    _acl("an empty resource", "User:alice", resource=""),
    _coordinator("a coordinator of an unknown kind", 3, "a"),
    _coordinator("a coordinator of a bad share partition", 2, "a"),
    _producers("producers of an absent topic", ABSENT, 0),
    _producers("producers of an absent partition", PRESENT, PLENTY),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """A node of Apache Kafka and one of Odradek."""
    settings = {
        "node.id": "1",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    try:
        theirs = NextApacheKafka(directory=tmp_path_factory.mktemp("theirs"), settings=settings)
    except Missing as reason:
        pytest.skip(str(reason))
    ours = OdradekNode(directory=tmp_path_factory.mktemp("ours"), settings=settings)
    with theirs, ours:
        for node in (theirs, ours):
            create_topic(node.port, PRESENT, {})
            create_topic(node.port, "a.b_c", {})
        yield theirs, ours


def _errors(value: Any) -> list[tuple[object, object]]:
    """Return the codes and texts of a response, from the outside to the inside."""
    if isinstance(value, list):
        return [error for each in value for error in _errors(each)]
    names: tuple[str, ...] = getattr(type(value), "__slots__", ())
    found: list[tuple[object, object]] = []
    if "error_code" in names:
        found.append((value.error_code, getattr(value, "error_message", None)))
    return found + [error for name in names for error in _errors(getattr(value, name))]


def _answer(node: Broker, case: Case) -> list[tuple[object, object]]:
    request = message(case.api, case.fields)
    with WireClient(node.port) as wire:
        answer = wire.call(case.api, case.version, request, BY_NAME[case.api].response_class())
    return _errors(answer)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_texts_are_those_of_apache_kafka(both: tuple[Broker, Broker], case: Case) -> None:
    theirs, ours = (_answer(node, case) for node in both)
    assert any(code for code, _ in theirs)
    assert ours == theirs
