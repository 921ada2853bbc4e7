"""Creates and deletes topics (CreateTopics, DeleteTopics)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from odradek.config.alter import check_topic
from odradek.config.describe import describe_topic
from odradek.core.controller.placement import place
from odradek.core.controller.state import ControllerState, Decision, check_record_count
from odradek.core.metadata.image import PartitionRegistration, TopicImage
from odradek.core.metadata.registrations import RECOVERED
from odradek.core.metadata.snapshot import partition_record
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import METADATA_TOPIC, collision_key, name_problem
from odradek.model.uuids import ZERO, is_reserved, make, to_text
from odradek.wire.generated.config_record import ConfigRecord
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest
from odradek.wire.generated.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from odradek.wire.generated.remove_topic_record import RemoveTopicRecord
from odradek.wire.generated.topic_record import TopicRecord
from odradek.wire.primitives import Message

DEFAULT = -1
"""A request with this count uses the count of its replica assignment. If the request has no
assignment, it uses the configured default."""

_Described = dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]]
"""A cache: the settings in a request -> all settings of the topic in the response.

Topics of one request mostly have the same settings. Without the cache, a request for a thousand
topics takes a second longer, because each topic has thirty settings.
"""


def create_topics(
    state: ControllerState, request: CreateTopicsRequest, version: int
) -> Decision[CreateTopicsResponse]:
    """Create the topics. The response has a result or an error for each topic.

    Raises:
        ApiError: POLICY_VIOLATION: the request is too large.
    """
    check_record_count(sum(max(0, _partition_count(state, each)) for each in request.topics))
    duplicates = _duplicates([topic.name for topic in request.topics])
    collisions = _collisions(state, request.topics)
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    described: _Described | None = {} if version >= 5 else None
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        try:
            _check_name(state, topic.name, collisions)
            results.append(_create(state, topic, records, described))
        except ApiError as error:
            results.append(_failed(topic.name, error))
    results += [
        _failed(name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name in duplicates
    ]
    check_record_count(len(records))
    response = CreateTopicsResponse(topics=results)
    return Decision([] if request.validate_only else records, response)


def _partition_count(state: ControllerState, topic: CreatableTopic) -> int:
    """Return the requested number of partitions, which is not validated yet."""
    if topic.assignments:
        return len(topic.assignments)
    return state.config.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions


def _duplicates(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _collisions(state: ControllerState, topics: Sequence[CreatableTopic]) -> Mapping[str, str]:
    """Return the existing topics by collision key; empty if no new name could collide."""
    if not any("." in topic.name or "_" in topic.name for topic in topics):
        return {}
    names = state.image.topics.by_name
    return {collision_key(name): name for name in names if "." in name or "_" in name}


def _check_name(state: ControllerState, name: str, collisions: Mapping[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Creation of internal topic {METADATA_TOPIC} is prohibited.",
        )
    if name in state.image.topics.by_name:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    problem = name_problem(name)
    if problem is None and collision_key(name) in collisions:
        other = collisions[collision_key(name)]
        problem = f"Topic '{name}' collides with existing topic: {other}"
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _failed(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _create(
    state: ControllerState,
    topic: CreatableTopic,
    records: list[Message],
    described: _Described | None,
) -> CreatableTopicResult:
    """Append the records of a topic to `records`, and return its result.

    The result has the settings of the topic unless `described` is None.

    Raises:
        ApiError: the topic cannot be created.
    """
    settings = _settings(state, topic)
    partitions = _partitions(state, topic)
    state.count_partitions(len(partitions))
    topic_id = new_topic_id(state)
    records.append(TopicRecord(name=topic.name, topic_id=topic_id))
    records += [
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value
        )
        for name, value in settings.items()
    ]
    records += [
        partition_record(topic_id, index, partition, state.level)
        for index, partition in partitions.items()
    ]
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=[] if described is None else _describe(state, settings, described),
    )


def _describe(
    state: ControllerState, settings: Mapping[str, str], described: _Described
) -> list[CreatableTopicConfigs]:
    """Return all settings of a topic. `described` is the cache of the request."""
    key = frozenset(settings.items())
    if key not in described:
        described[key] = [
            CreatableTopicConfigs(
                name=each.name,
                value=each.value,
                read_only=each.read_only,
                config_source=each.source,
                is_sensitive=each.sensitive,
            )
            for each in describe_topic(settings, state.config)
        ]
    return described[key]


def _settings(state: ControllerState, topic: CreatableTopic) -> dict[str, str]:
    nulls = [each.name for each in topic.configs if each.value is None]
    if nulls:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    settings = {each.name: each.value for each in topic.configs if each.value is not None}
    if settings:
        check_topic(settings, state.config)
    return settings


def _partitions(state: ControllerState, topic: CreatableTopic) -> dict[int, PartitionRegistration]:
    if topic.assignments:
        return _assigned(state, topic)
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count, factor = topic.num_partitions, topic.replication_factor
    if count == DEFAULT:
        count = state.config.num_partitions
    if factor == DEFAULT:
        factor = state.config.default_replication_factor
    try:
        placements = place(state, count, factor)
    except ApiError as error:
        problem = f"Unable to replicate the partition {factor} time(s): {error.message}"
        raise ApiError(error.code, problem) from error
    return dict(enumerate(new_partitions(state, placements, ErrorCode.INVALID_REPLICATION_FACTOR)))


def _assigned(state: ControllerState, topic: CreatableTopic) -> dict[int, PartitionRegistration]:
    for name, value in (
        ("replication factor", topic.replication_factor),
        ("numPartitions", topic.num_partitions),
    ):
        if value != DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    replicas: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for each in topic.assignments:
        if each.partition_index in replicas:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {each.partition_index}",
            )
        check_assignment(state, each.broker_ids, factor)
        factor = len(each.broker_ids)
        replicas[each.partition_index] = tuple(each.broker_ids)
    if sorted(replicas) != list(range(len(replicas))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    made = new_partitions(state, list(replicas.values()), ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    return dict(zip(replicas, made, strict=True))


def check_assignment(state: ControllerState, brokers: Sequence[int], factor: int | None) -> None:
    """Check the replicas of a partition. If `factor` is not None, it is their required number.

    Raises:
        ApiError: INVALID_REPLICA_ASSIGNMENT.
    """
    includes = "The manual partition assignment includes"
    problem = ""
    if not brokers:
        problem = "The manual partition assignment includes an empty replica list."
    for broker in sorted(brokers):
        registration = state.image.cluster.brokers.get(broker)
        if registration is None:
            problem = problem or f"{includes} broker {broker}, but no such broker is registered."
        elif not registration.has_uncordoned_directory:
            problem = problem or (
                f"{includes} broker {broker}, but all its log directories are cordoned."
            )
        elif brokers.count(broker) > 1:
            problem = problem or f"{includes} the broker {broker} more than once."
    if not problem and factor is not None and len(brokers) != factor:
        problem = (
            f"{includes} a partition with {len(brokers)} replica(s), but this is not consistent "
            f"with previous partitions, which have {factor} replica(s)."
        )
    if problem:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def new_partitions(
    state: ControllerState, placements: Sequence[tuple[int, ...]], no_leader: ErrorCode
) -> list[PartitionRegistration]:
    """Return the registrations of new partitions with these replicas.

    Raises:
        ApiError: all brokers of a partition are fenced or shutting down. The code is `no_leader`.
    """
    made: dict[tuple[int, ...], PartitionRegistration] = {}
    for replicas in placements:
        if replicas not in made:
            isr = tuple(replica for replica in replicas if state.is_active(replica))
            if not isr:
                raise ApiError(
                    no_leader, f"all brokers in {list(replicas)} are fenced or shutting down"
                )
            directories = tuple(state.default_directory(replica) for replica in replicas)
            made[replicas] = PartitionRegistration(
                replicas, directories, isr, (), (), (), (), isr[0], RECOVERED, 0, 0
            )
    return [made[replicas] for replicas in placements]


def new_topic_id(state: ControllerState) -> bytes:
    """Return an unused topic id whose text does not begin with a dash."""
    while True:
        topic_id = make(state.random_bytes(16))
        taken = is_reserved(topic_id) or topic_id in state.image.topics.by_id
        if not taken and not to_text(topic_id).startswith("-"):
            return topic_id


def delete_topics(
    state: ControllerState, request: DeleteTopicsRequest, version: int
) -> Decision[DeleteTopicsResponse]:
    """Delete topics. The request has topic names, or from version 6 on also topic ids.

    Raises:
        ApiError: delete.topic.enable is false.
    """
    if not state.config.delete_topic_enable:
        if version < 3:
            raise ApiError(ErrorCode.INVALID_REQUEST, "delete.topic.enable is false")
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
    wanted = [(topic.name, topic.topic_id) for topic in request.topics]
    wanted += [(name, ZERO) for name in request.topic_names]
    results: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    found: dict[bytes, DeletableTopicResult] = {}
    for key, count in Counter(wanted).items():
        try:
            if count > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = _find(state, *key)
        except ApiError as error:
            results[key] = _deleted(*key, error)
            continue
        if topic.id in found:
            problem = "the request names the topic by its name and by its id"
            found[topic.id] = _deleted(
                topic.name, topic.id, ApiError(ErrorCode.INVALID_REQUEST, problem)
            )
        else:
            found[topic.id] = _deleted(topic.name, topic.id, None)
    records: list[Message] = []
    for topic_id, result in found.items():
        if result.error_code:
            continue
        try:
            state.count_partitions(len(state.image.topics.by_id[topic_id].partitions))
        except ApiError as error:
            found[topic_id] = _deleted(result.name, topic_id, error)
        else:
            records.append(RemoveTopicRecord(topic_id=topic_id))
    return Decision(records, DeleteTopicsResponse(responses=[*results.values(), *found.values()]))


def _find(state: ControllerState, name: str | None, topic_id: bytes) -> TopicImage:
    if name is not None and topic_id != ZERO:
        problem = "You may not specify both topic name and topic id."
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    if name is None and topic_id == ZERO:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None:
        topic = state.image.topics.by_name.get(name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        topic = state.image.topics.by_id.get(topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None:
        raise ApiError(unknown)
    return topic


def _deleted(name: str | None, topic_id: bytes, error: ApiError | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
