"""What ShareFetch and ShareAcknowledge have in common: checks, acknowledgements, and leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.core.share.acknowledgement import AcknowledgementBatch
from odradek.core.share.session import PartitionKey, SessionKey
from odradek.core.share.states import GAP, REJECT, RENEW
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, require
from odradek.handlers.share_groups import check_enabled
from odradek.model.errors import ApiError, ErrorCode

RENEW_VERSION: Final = 2
"""The version of ShareFetch and ShareAcknowledge from which on locks can be renewed (KIP-1222)."""
MEMBER_ID_CHARACTERS_MAX: Final = 36
Acknowledgements = dict[PartitionKey, list[AcknowledgementBatch]]


class _Batch(Protocol):
    """An `AcknowledgementBatch` of either request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class Outcome(NamedTuple):
    """The result of acknowledgements in one partition."""

    code: int = ErrorCode.NONE
    message: str | None = None


class LeaderError(NamedTuple):
    """The current leader of a partition, with its endpoint if it is known."""

    leader_id: int
    leader_epoch: int
    host: str | None
    port: int
    rack: str | None


def check_request(
    broker: Broker, context: RequestContext, group_id: str | None, member_id: str | None
) -> SessionKey:
    """Check the group and the member of a request; return the key of the member's session.

    Raises:
        ApiError: UNSUPPORTED_VERSION without share groups, INVALID_REQUEST, or
            GROUP_AUTHORIZATION_FAILED.
    """
    check_enabled(broker)
    if group_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the request has no group id")
    require(broker, context, AclOperation.READ, GROUP, group_id)
    if not member_id or len(member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the member id is missing or too long")
    return SessionKey(group_id, member_id)


def read_batches(batches: Iterable[_Batch]) -> list[AcknowledgementBatch]:
    """Return the acknowledgements of one partition."""
    return [
        AcknowledgementBatch(each.first_offset, each.last_offset, each.acknowledge_types)
        for each in batches
    ]


class PartitionErrors:
    """Finds the errors of partitions that cannot be fetched or acknowledged."""

    def __init__(
        self, broker: Broker, context: RequestContext, keys: Collection[PartitionKey]
    ) -> None:
        self._topics = topics = broker.metadata.image.topics.by_id
        names = {topics[topic_id].name for topic_id, _ in keys if topic_id in topics}
        self._refused = denied(broker, context, AclOperation.READ, TOPIC, names)

    def of(self, key: PartitionKey) -> ErrorCode:
        """Return the error of a partition; NONE if there is none."""
        topic = self._topics.get(key[0])
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if topic.name in self._refused:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if key[1] not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE


def _is_valid(batches: Sequence[AcknowledgementBatch], type_max: int, may_renew: bool) -> bool:
    """Return whether batches are ordered and have valid types."""
    previous = -1
    for first, last, types in batches:
        if first > last or first < previous or not types:
            return False
        if len(types) > 1 and last - first != len(types) - 1:
            return False
        if any(not GAP <= kind <= type_max or (kind == RENEW and not may_renew) for kind in types):
            return False
        previous = last
    return True


class Acknowledging:
    """The acknowledgements of a request. They are applied when the object is created."""

    def __init__(
        self,
        broker: Broker,
        session: SessionKey,
        acknowledgements: Acknowledgements,
        errors: PartitionErrors,
        api_version: int,
        *,
        is_renew: bool,
    ) -> None:
        type_max = RENEW if api_version >= RENEW_VERSION else REJECT
        self._results: dict[PartitionKey, Outcome] = {}
        self._begun: dict[PartitionKey, asyncio.Future[ApiError | None] | ApiError | None] = {}
        self._empty = [key for key, batches in acknowledgements.items() if not batches]
        for key, batches in acknowledgements.items():
            error = errors.of(key)
            if error is not ErrorCode.UNKNOWN_TOPIC_ID and not _is_valid(
                batches, type_max, is_renew
            ):
                error = ErrorCode.INVALID_REQUEST
            if error:
                self._results[key] = Outcome(error)
            elif batches:
                self._begun[key] = broker.share_partitions.acknowledge(session, key, batches)
        if acknowledgements:
            counts = broker.share_partitions.topic_counts
            counts.on_acknowledge(acknowledgements, self._results)

    @property
    def is_stored(self) -> bool:
        """Whether the results are known."""
        return not any(
            isinstance(begun, asyncio.Future) and not begun.done() for begun in self._begun.values()
        )

    async def wait(self) -> None:
        """Wait until the results are known."""
        for begun in self._begun.values():
            if isinstance(begun, asyncio.Future) and not begun.done():
                await begun

    def results(self) -> dict[PartitionKey, Outcome]:
        """Return the result of each partition, when they are known.

        As in Kafka, a partition without batches has no result if no other partition has batches.
        """
        results = self._results
        for key, begun in self._begun.items():
            failure = begun.result() if isinstance(begun, asyncio.Future) else begun
            results[key] = Outcome() if failure is None else Outcome(failure.code, failure.message)
        if self._begun:
            for key in self._empty:
                results.setdefault(key, Outcome())
        return results


def current_leader(
    broker: Broker, context: RequestContext, key: PartitionKey, error: int
) -> LeaderError | None:
    """Return the leader of a partition if the error says that the client asks the wrong broker."""
    if error not in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}:
        return None
    image = broker.metadata.image
    topic = image.topics.by_id.get(key[0])
    registration = None if topic is None else topic.partitions.get(key[1])
    if registration is None:
        return LeaderError(-1, -1, None, 0, None)
    leader = image.cluster.brokers.get(registration.leader)
    endpoint = None if leader is None else leader.listeners.get(context.listener)
    if leader is None or endpoint is None:
        return LeaderError(registration.leader, registration.leader_epoch, None, 0, None)
    return LeaderError(
        registration.leader, registration.leader_epoch, endpoint.host, endpoint.port, leader.rack
    )
