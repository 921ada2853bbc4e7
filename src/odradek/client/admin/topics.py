"""Creates and deletes topics, adds partitions, and deletes the oldest records of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError, NoSuchTopicError, broker_error
from odradek.client.fan_out import fan_out, to_leaders
from odradek.client.metadata import Topic
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import CreatePartitionsResponse
from odradek.wire.generated.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.generated.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from odradek.wire.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.generated.delete_records_response import DeleteRecordsResponse
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.generated.delete_topics_response import DeleteTopicsResponse


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 means the cluster's default.

    With `assignments` (the broker ids for each partition) `partitions` and `replication_factor`
    must be -1.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was created; `configs` holds all its settings, including defaults.

    For a user who may not DESCRIBE_CONFIGS, both numbers are -1, and `configs` is empty.
    """

    name: str
    id: bytes
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]

    @property
    def is_described(self) -> bool:
        """Whether the numbers and the settings are known."""
        return self.partitions >= 0


def exists_already(error: Exception) -> bool:
    """Return whether a topic was not created because it exists."""
    return isinstance(error, BrokerError) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS


def create_topics(
    cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | ClientError]:
    """Create topics, or only validate the request.

    Raises:
        ClientError: the cluster did not respond.
    """
    request = CreateTopicsRequest(
        topics=[_creatable(t) for t in topics],
        timeout_ms=cluster.timeout_ms,
        validate_only=validate_only,
    )
    response = cluster.ask_controller(request, CreateTopicsResponse)
    return {t.name: _created(t) for t in response.topics}


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(topic.assignments)
        ],
        configs=[CreatableTopicConfig(name=n, value=v) for n, v in topic.configs.items()],
    )


def _created(result: CreatableTopicResult) -> CreatedTopic | ClientError:
    error = broker_error(result.error_code, result.error_message, f"topic {result.name}")
    return error or CreatedTopic(
        result.name,
        result.topic_id,
        result.num_partitions,
        result.replication_factor,
        {c.name: c.value for c in result.configs or ()},
    )


def delete_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, ClientError | None]:
    """Delete topics with all their records.

    Raises:
        ClientError: the cluster did not respond.
    """
    wanted = list(names)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=n) for n in wanted],
        topic_names=wanted,
        timeout_ms=cluster.timeout_ms,
    )
    response = cluster.ask_controller(request, DeleteTopicsResponse)
    for name in wanted:
        cluster.forget_topic(name)
    return {
        r.name or "": _error(r.name or "", r.error_code, r.error_message)
        for r in response.responses
    }


def delete_topics_by_id(cluster: Cluster, ids: Iterable[bytes]) -> dict[bytes, ClientError | None]:
    """Delete topics by their ids (16 bytes) with all their records.

    Raises:
        ClientError: the cluster did not respond.
    """
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=each) for each in ids],
        timeout_ms=cluster.timeout_ms,
    )
    response = cluster.ask_controller(request, DeleteTopicsResponse)
    for each in response.responses:
        if each.name is not None:
            cluster.forget_topic(each.name)
    return {
        each.topic_id: broker_error(
            each.error_code, each.error_message, f"topic with the id {UUID(bytes=each.topic_id)}"
        )
        for each in response.responses
    }


def list_topics(cluster: Cluster, *, internal: bool = False) -> list[Topic]:
    """Return all topics that this client may describe, sorted by name.

    Raises:
        ClientError: the cluster did not respond.
    """
    found = cluster.refresh().topics.values()
    return sorted((each for each in found if internal or not each.is_internal), key=_name)


def _name(topic: Topic) -> str:
    return topic.name


def describe_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, Topic | ClientError]:
    """Return the partitions of topics.

    Raises:
        ClientError: the cluster did not respond.
    """
    wanted = list(names)
    metadata = cluster.refresh(wanted)
    missing = ClientError("the broker's response does not include it")
    found: dict[str, Topic | ClientError] = {}
    for name in wanted:
        error = metadata.errors.get(name)
        if error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            found[name] = NoSuchTopicError(name)
        else:
            found[name] = error if error is not None else metadata.topics.get(name, missing)
    return found


def _error(topic: str, code: int, message: str | None) -> ClientError | None:
    """Return the error of a response about a topic: `NoSuchTopicError` if the topic is missing."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return NoSuchTopicError(topic)
    return broker_error(code, message, f"topic {topic}")


def create_partitions(
    cluster: Cluster,
    topic: str,
    count: int,
    *,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> None:
    """Increase a topic's number of partitions to `count`.

    Raises:
        ClientError: an error response, or the cluster did not respond.
    """
    placed = None
    if assignments is not None:
        placed = [CreatePartitionsAssignment(broker_ids=list(b)) for b in assignments]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=count, assignments=placed)],
        timeout_ms=cluster.timeout_ms,
        validate_only=validate_only,
    )
    response = cluster.ask_controller(request, CreatePartitionsResponse)
    cluster.forget_topic(topic)
    for result in response.results:
        error = _error(result.name, result.error_code, result.error_message)
        if error is not None:
            raise error


def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | ClientError]:
    """Delete the records before an offset of each partition; return the new log start offsets.

    Offset -1 means the high watermark.

    Raises:
        ClientError: a broker does not respond, or does not support the request.
    """

    def build(partitions: list[TopicPartition]) -> DeleteRecordsRequest:
        topics: dict[str, list[DeleteRecordsPartition]] = {}
        for each in partitions:
            wanted = DeleteRecordsPartition(partition_index=each.partition, offset=before[each])
            topics.setdefault(each.topic, []).append(wanted)
        return DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=t, partitions=p) for t, p in topics.items()],
            timeout_ms=cluster.timeout_ms,
        )

    def read(response: DeleteRecordsResponse) -> dict[TopicPartition, int | ClientError]:
        done: dict[TopicPartition, int | ClientError] = {}
        for topic in response.topics:
            for p in topic.partitions:
                key = TopicPartition(topic.name, p.partition_index)
                error = broker_error(p.error_code, subject=f"partition {key}")
                done[key] = error or p.low_watermark
        return done

    return fan_out(
        before, to_leaders(cluster), build, DeleteRecordsResponse, read, cluster.timeout_ms
    )
