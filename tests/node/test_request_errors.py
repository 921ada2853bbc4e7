"""Errors in responses are counted by API and error, as in Apache Kafka."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.producer import Producer
from odradek.handlers.response_errors import _plan, error_codes
from odradek.testing import Broker
from odradek.wire import generated
from odradek.wire.generated.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from odradek.wire.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

from .exported import by_labels

ERRORS = "kafka_network_requestmetrics_errors_total"


def test_errors_of_requests() -> None:
    with Broker() as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            create_topics(cluster, [NewTopic("small", 1, 1, configs={"max.message.bytes": "100"})])
            create_topics(cluster, [NewTopic("small", 1, 1), NewTopic("..", 1, 1)])
            with pytest.raises(ClientError), Producer(cluster) as producer:
                producer.send("small", b"x" * 1000, partition=0)
        found = by_labels(broker.node)
    assert found[ERRORS, ("Produce", "MESSAGE_TOO_LARGE")] == 1
    assert found[ERRORS, ("CreateTopics", "TOPIC_ALREADY_EXISTS")] == 1
    assert found[ERRORS, ("CreateTopics", "INVALID_TOPIC_EXCEPTION")] == 1
    assert found[ERRORS, ("CreateTopics", "NONE")] == 1


def test_codes_of_nested_elements() -> None:
    topics = [CreatableTopicResult(error_code=code) for code in (0, 36, 17)]
    assert error_codes(CreateTopicsResponse(topics=topics)) == [36, 17]
    inner = OffsetFetchResponsePartitions(error_code=3)
    group = OffsetFetchResponseGroup(
        error_code=16, topics=[OffsetFetchResponseTopics(partitions=[inner])]
    )
    assert error_codes(OffsetFetchResponse(error_code=1, groups=[group])) == [1, 16, 3]


def test_each_response_is_understood() -> None:
    """Nearly all responses have error codes; a renamed field would be noticed here."""
    without = []
    for module in pkgutil.iter_modules(generated.__path__):
        if module.name.endswith("_response"):
            name = "".join(each.capitalize() for each in module.name.split("_"))
            found = getattr(importlib.import_module(f"{generated.__name__}.{module.name}"), name)
            if _plan(found).is_empty:
                without.append(name)
    assert without == []
