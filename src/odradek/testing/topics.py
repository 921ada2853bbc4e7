"""The request that creates the topics of a test."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.testing.node_control import BrokerError
from odradek.wire.generated.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.generated.create_topics_response import CreateTopicsResponse


def create_request(
    topics: Mapping[str, int], settings: Mapping[str, object] | None, replicas: int
) -> CreateTopicsRequest:
    """Return the request for topics with these numbers of partitions, and the same settings."""
    configs = [CreatableTopicConfig(name=n, value=str(v)) for n, v in (settings or {}).items()]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name, num_partitions=count, replication_factor=replicas, configs=configs
            )
            for name, count in topics.items()
        ],
        timeout_ms=30_000,
    )


def check_created(response: CreateTopicsResponse) -> None:
    """Raise BrokerError if a topic was not created."""
    for topic in response.topics:
        if topic.error_code:
            raise BrokerError(f"topic {topic.name}: {topic.error_message}")
