"""Metadata (3), versions 0-13: brokers, topics, and the leaders of partitions.

- In version 0 an empty list requests all topics. From version 1 on null requests all topics, and an
  empty list requests none.
- A topic that does not exist gets the error UNKNOWN_TOPIC_OR_PARTITION. If it may be created
  automatically, its creation begins, and the client retries. An invalid name gets the error
  INVALID_TOPIC_EXCEPTION.
- From version 12 on topics may be named by id. If one topic has an id, topics without an id are
  ignored. The result of an unknown id has the error UNKNOWN_TOPIC_ID and no name.
- A partition without a leader, or whose leader is fenced, gets the error LEADER_NOT_AVAILABLE. If
  the leader lacks the client's listener, the error is LISTENER_NOT_FOUND (before version 6:
  LEADER_NOT_AVAILABLE).
- In version 0 replicas whose broker lacks the listener are omitted, and their partitions get the
  error REPLICA_NOT_AVAILABLE.
- The controller id is the id of an active broker, because every broker forwards requests to the
  controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.metadata.listener_view import ListenerView
from odradek.core.metadata.image import PartitionRegistration, TopicImage
from odradek.handlers.authorization import (
    TOPIC,
    AclOperation,
    authorized_operations,
    cluster_operations,
    denied,
    permits,
    permits_cluster,
)
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import is_internal, name_problem
from odradek.model.uuids import ZERO
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_ID_VERSION = 12
LISTENER_NOT_FOUND_VERSION = 6
NO_LEADER = -1
_Wanted = tuple[TopicImage, ErrorCode]
_UNSEEN = frozenset((ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID))
"""Topics with these errors have no authorized operations."""
PIECE = 500
"""Number of topics and partitions that are described without a pause, in one to two milliseconds."""


def handle(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    """Return the requested topics, as clients of this listener see them."""
    view = ListenerView(broker.metadata.image, broker.config, context.peer)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=each.id, host=address.host, port=address.port, rack=each.rack
            )
            for each, address in view.brokers()
        ],
        cluster_id=broker.cluster_id,
        controller_id=view.controller_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker, context)
    is_all = request.topics is None or (context.api_version == 0 and not request.topics)
    wanted = _all(broker) if is_all else _wanted(broker, context, request)
    hides = is_all and broker.authorizer is not None
    pieces = _fill(broker, context, view, request, response, wanted, hides)
    for _ in pieces:
        context.mark_large()
        return _in_pieces(response, pieces)
    return response


async def _in_pieces(response: MetadataResponse, pieces: Iterator[None]) -> MetadataResponse:
    """Build the rest of a large response in pieces. Other requests are processed between them."""
    await asyncio.sleep(0)
    for _ in pieces:
        await asyncio.sleep(0)
    return response


def _fill(
    broker: Broker,
    context: RequestContext,
    view: ListenerView,
    request: MetadataRequest,
    response: MetadataResponse,
    wanted: Iterable[_Wanted],
    hides: bool,
) -> Iterator[None]:
    """Add the topics and their partitions to the response; yield after each piece.

    With `hides`, topics that the client may not see are omitted.
    """
    version, describe = context.api_version, AclOperation.DESCRIBE
    has_operations = request.include_topic_authorized_operations
    count = 0
    for topic, error in wanted:
        if hides and not permits(broker, context, describe, TOPIC, topic.name, log_denied=False):
            count += 1
            if count % PIECE == 0:
                yield
            continue
        answer = _topic(topic, error)
        if has_operations and error not in _UNSEEN:
            answer.topic_authorized_operations = authorized_operations(
                broker, context, TOPIC, topic.name
            )
        response.topics.append(answer)
        count += 1
        if count % PIECE == 0:
            yield
        for index, partition in topic.partitions.items():
            answer.partitions.append(_partition(view, index, partition, version))
            count += 1
            if count % PIECE == 0:
                yield


def _all(broker: Broker) -> Iterable[_Wanted]:
    topics = list(broker.metadata.image.topics.by_name.values())
    return ((topic, ErrorCode.NONE) for topic in topics)


def _wanted(broker: Broker, context: RequestContext, request: MetadataRequest) -> Iterator[_Wanted]:
    """Look up the requested topics, `PIECE` at a time. A topic with an error has no partitions.

    Raises:
        ApiError: topics are named in a way that the version does not have.
    """
    asked, version = request.topics or [], context.api_version
    if version < TOPIC_ID_VERSION:
        for each in asked:
            if each.name is None or each.topic_id != ZERO:
                problem = f"version {version} names topics by name only"
                raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    topics = broker.metadata.image.topics
    ids = [each.topic_id for each in asked if each.topic_id != ZERO]
    if ids:
        return _by_id(broker, context, topics.by_id, list(dict.fromkeys(ids)))
    names = list(dict.fromkeys(each.name for each in asked if each.name is not None))
    creates = request.allow_auto_topic_creation and broker.config.auto_create_topics_enable
    return _by_name(broker, context, topics.by_name, names, creates)


def _by_id(
    broker: Broker,
    context: RequestContext,
    topics: Mapping[bytes, TopicImage],
    ids: Sequence[bytes],
) -> Iterator[_Wanted]:
    """Yield the topics. A topic that the client may not see has no name."""
    for begin in range(0, len(ids), PIECE):
        found = [(topic_id, topics.get(topic_id)) for topic_id in ids[begin : begin + PIECE]]
        names = [topic.name for _, topic in found if topic is not None]
        hidden = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
        for topic_id, topic in found:
            if topic is None:
                yield TopicImage("", topic_id, {}), ErrorCode.UNKNOWN_TOPIC_ID
            elif topic.name in hidden:
                yield TopicImage("", topic_id, {}), ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else:
                yield topic, ErrorCode.NONE


def _by_name(
    broker: Broker,
    context: RequestContext,
    topics: Mapping[str, TopicImage],
    names: Sequence[str],
    creates: bool,
) -> Iterator[_Wanted]:
    """Yield the topics. With `creates`, begin to create those that do not exist."""
    for begin in range(0, len(names), PIECE):
        piece = names[begin : begin + PIECE]
        refused = denied(broker, context, AclOperation.DESCRIBE, TOPIC, piece)
        if creates:
            refused = refused | _not_creatable(broker, context, topics, piece, refused)
        missing: list[str] = []
        for name in piece:
            topic = topics.get(name)
            error = ErrorCode.NONE
            if name in refused:
                topic = TopicImage(name, ZERO, {})
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic is None:
                topic = TopicImage(name, ZERO, {})
                error = ErrorCode.INVALID_TOPIC_EXCEPTION
                if name_problem(name) is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    missing.append(name)
            yield topic, error
        if missing and creates:
            broker.topic_creation.begin(missing, context)


def _not_creatable(
    broker: Broker,
    context: RequestContext,
    topics: Mapping[str, TopicImage],
    names: Iterable[str],
    hidden: Collection[str],
) -> set[str] | frozenset[str]:
    """Return the topics that do not exist and that the client may not create."""
    missing = [name for name in names if name not in topics and name not in hidden]
    create = AclOperation.CREATE
    if not missing or permits_cluster(broker, context, create, log_denied=False):
        return frozenset()
    return denied(broker, context, create, TOPIC, missing)


def _topic(topic: TopicImage, error: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=None if not topic.name and topic.id != ZERO else topic.name,
        topic_id=topic.id,
        is_internal=error is not ErrorCode.TOPIC_AUTHORIZATION_FAILED and is_internal(topic.name),
    )


def _partition(
    view: ListenerView, index: int, partition: PartitionRegistration, version: int
) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    leader = partition.leader
    error = ErrorCode.NONE
    if version == 0:
        replicas, isr = view.reachable(replicas), view.reachable(isr)
        if len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    if not view.serves(leader):
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if view.is_alive(leader) and version >= LISTENER_NOT_FOUND_VERSION:
            error = ErrorCode.LISTENER_NOT_FOUND
        leader = NO_LEADER
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline(partition),
    )


def _error_response(request: MetadataRequest, error: ApiError) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=error.code, name=each.name or "", topic_id=each.topic_id)
        for each in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=error.code)


HANDLER = Handler(request=MetadataRequest, handle=handle, error_response=_error_response)
