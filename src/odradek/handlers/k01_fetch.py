"""Fetch (1), versions 4-18: read record batches from partitions, and wait for them if requested.

- The first batch of a response is complete even if it exceeds the limits (KIP-74), so that a
  consumer always makes progress. The last batch of a partition may be incomplete, as in Apache
  Kafka.
- Fetch sessions (KIP-227) are in `core/session`. Partitions that returned data are the last ones in
  the next fetch of the session. Partitions for which there is nothing rest, and are not read again
  until they change (`broker/partitions/resting.py`).
- If there is less data than `min_bytes`, the response waits up to `max_wait_ms`. If a partition has
  an error (for example, its offset is out of range), the response is sent immediately.
- From version 13 on topics are named by id. An unknown topic id gets the error UNKNOWN_TOPIC_ID. If
  the session knows it as the id of a topic that was deleted, the error is UNKNOWN_TOPIC_OR_PARTITION,
  or INCONSISTENT_TOPIC_ID if there is another topic with this name.
- Records are sent from the page cache with `sendfile`. If records, index entries or batch headers
  are not in the page cache, a thread reads them first. Such records may be sent from a buffer
  (`odradek.broker.partitions.cold_reads`).
- With `read_committed`, the response contains only records below the last stable offset. It also
  contains the aborted transactions that overlap with these records.
- From version 11 on, consumers may read from followers too, up to the high watermark that the
  follower knows. With `replica.selector.class`, the leader names the replica in the rack of the
  consumer, instead of records (KIP-392). An offset after the end of the follower's log gets the
  error OFFSET_OUT_OF_RANGE; the consumer then asks the leader.
- From version 16 on, the errors NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH contain the leader
  (KIP-951, `leader_hints`).
- A follower gets the records up to the log end offset. Its request tells the leader which records
  it has (`broker/partitions/leading.py`). A broker that is no follower in the leader's metadata
  gets the error UNKNOWN_LEADER_EPOCH.
- On a controller listener, replicas of the metadata log fetch it from the leader of the quorum
  (KIP-595). There are no fetch sessions, and the response has at most 1 MiB of records, or one
  batch if the first batch is larger.
- If the client has exceeded its quota, the response has no records
  (`odradek.broker.clients.quotas`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import NamedTuple, cast

from odradek.broker.broker import Broker
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.broker.partitions import reading, resting
from odradek.broker.partitions.delayed_fetch import DelayedFetch
from odradek.broker.partitions.partition import Partition
from odradek.core.quota.clients import ClientMeters
from odradek.core.session.fetch import FetchedPartition, FetchPlan, FetchSession
from odradek.env.file_system import FileSystem
from odradek.env.page_cache import ReadWouldBlock
from odradek.handlers.authorization import (
    TOPIC,
    AclOperation,
    Authorizer,
    permits_cluster,
    require_cluster,
)
from odradek.handlers.handler import Handler
from odradek.handlers.leader_hints import leader_hint
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.responses import Part
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from odradek.wire.primitives import Message

FOLLOWERS_VERSION = 11
"""The lowest version in which consumers may read from followers."""
TOPIC_IDS_VERSION = 13
LEADER_HINTS_VERSION = 16
LENGTH_BYTES = 4
"""Size of the length before a response, which counts for the quota."""
MAX_BYTES_MAX = 2**31 - 1

_NOTHING: Mapping[int, Partition] = {}
_Names = frozenset[str | bytes]
_MOVED = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
_Read = Callable[[Partition, FetchedPartition, int, int, bool, FileSystem | None], PartitionData]
"""Reads one partition (`reading.read`)."""
_Found = tuple[FetchedPartition, PartitionData, Partition | None, int]
"""A partition of the request, its response, its replica or None, and the size of its records."""


def handle(
    broker: Broker, context: RequestContext, request: FetchRequest
) -> FetchResponse | asyncio.Future[FetchResponse] | Coroutine[None, None, FetchResponse]:
    """Return the response if there is enough data; otherwise a future of the response."""
    uses_ids = context.api_version >= TOPIC_IDS_VERSION
    topics = broker.metadata.image.topics.by_id
    plan = broker.fetch_sessions.plan(request, context.received_ms, uses_ids, topics)
    if plan.error:
        return FetchResponse(error_code=plan.error)
    fetch = _Fetch(broker, context, request, plan, uses_ids)
    if broker.authorizer is not None:
        fetch.authorize(broker.authorizer, context)
    if broker.quotas is not None:
        fetch.limit(broker.quotas, context)
    wait_ms = max(0, request.max_wait_ms)
    reads = broker.cold_reads
    try:
        result = fetch.evaluate(wait_ms == 0, reads.non_blocking)
    except ReadWouldBlock as missing:
        return _respond_later(broker, fetch, wait_ms, missing)
    if isinstance(result, FetchResponse):
        return reads.warm(result)
    return _wait(broker, fetch, wait_ms, result)


async def _respond_later(
    broker: Broker, fetch: _Fetch, wait_ms: int, missing: ReadWouldBlock
) -> FetchResponse:
    """Respond after a thread has read the missing data."""
    reads = broker.cold_reads

    def look(files: FileSystem) -> FetchResponse | int:
        return fetch.evaluate(wait_ms == 0, files)

    result = await reads.look_again(look, missing)
    if isinstance(result, FetchResponse):
        warm = reads.warm(result)
        return await warm if isinstance(warm, asyncio.Future) else warm
    return await _wait(broker, fetch, wait_ms, result)


def _wait(
    broker: Broker, fetch: _Fetch, wait_ms: int, missing_bytes: int
) -> asyncio.Future[FetchResponse]:
    """Respond when there are enough bytes, or the time is over."""
    wake = broker.replicas.wake
    return DelayedFetch(
        fetch.evaluate,
        fetch.waits_for,
        missing_bytes,
        wait_ms,
        wake,
        broker.cold_reads,
        broker.loop,
        fetch.follower is not None,
        fetch.session,
    ).future


class _Quotas(NamedTuple):
    """The quotas of one fetch."""

    managers: QuotaManagers
    meters: ClientMeters
    version: int
    """The version of the response, whose bytes are counted."""


class _Fetch:
    """One fetch. It is evaluated once, and again after appends to its partitions."""

    __slots__ = (
        "_broker",
        "_context",
        "_is_first",
        "_is_trusted",
        "_is_urgent",
        "_isolation",
        "_max_bytes",
        "_min_bytes",
        "_plan",
        "_quotas",
        "_rack",
        "_read",
        "_refused",
        "_replicas",
        "_uses_ids",
        "follower",
        "waits_for",
    )

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: FetchRequest,
        plan: FetchPlan,
        uses_ids: bool,
    ) -> None:
        self._broker = broker
        self._context = context
        self._plan = plan
        self._uses_ids = uses_ids
        replicas = broker.replicas
        self._replicas = cast(
            "Mapping[str | bytes, Mapping[int, Partition]]",
            replicas.by_id if uses_ids else replicas.by_name,
        )
        self._isolation = request.isolation_level
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self.waits_for: list[Partition] = []
        self.follower = _follower(request)
        """The broker that fetches; None for a consumer."""
        self._is_trusted = self.follower is not None
        """Whether a broker fetches, which has no quotas."""
        self._refused: _Names = frozenset()
        """The topics that the client may not read. `_replicas` does not have them."""
        self._is_first = True
        """Whether the leader has not been told which records the follower has."""
        self._is_urgent = False
        """Whether the response must be sent although there are too few bytes."""
        rack = request.rack_id
        self._rack = rack if rack and broker.config.is_rack_aware else ""
        """The rack of a consumer that reads from the nearest replica, else empty."""
        self._read: _Read | None = None
        """Reads for a consumer that is not sent to another replica. None for other fetchers."""
        if self.follower is None and not self._rack:
            is_old = context.api_version < FOLLOWERS_VERSION
            self._read = reading.read_from_leader if is_old else reading.read
        self._quotas: _Quotas | None = None
        """None if the client has no limit."""

    @property
    def session(self) -> FetchSession | None:
        """The session; None if the request uses none."""
        return self._plan.session

    def limit(self, quotas: QuotaManagers, context: RequestContext) -> None:
        """Apply the limits of a client that is not a broker."""
        context.peer.mark_follower(self._is_trusted)
        if self._is_trusted:
            return
        meters = quotas.meters(context.peer)
        if meters.fetch is None and meters.request is None:
            return
        self._quotas = _Quotas(quotas, meters, context.api_version)
        if meters.fetch is not None:
            # Larger responses would always be throttled, and never be sent.
            largest = int(min(meters.fetch.value_max, MAX_BYTES_MAX))
            self._max_bytes = min(self._max_bytes, largest)
            self._min_bytes = min(self._min_bytes, self._max_bytes)

    def authorize(self, authorizer: Authorizer, context: RequestContext) -> None:
        """Refuse the topics that the client may not read. A follower needs CLUSTER_ACTION."""
        if self.follower is None:
            refused = self._unreadable(authorizer, context)
        elif permits_cluster(self._broker, context, AclOperation.CLUSTER_ACTION):
            refused = frozenset()
        else:
            self._is_trusted = False
            refused = frozenset(each.key[0] for each in self._plan.partitions)
        if refused:
            self._refused = refused
            names = {each.key[0] for each in self._plan.partitions} - refused
            replicas = self._replicas
            self._replicas = {name: replicas[name] for name in names if name in replicas}

    def _unreadable(self, authorizer: Authorizer, context: RequestContext) -> _Names:
        read = AclOperation.READ
        known = authorizer.known(context.peer, read, TOPIC)
        counts = Counter(
            each.key[0]
            for each in self._plan.partitions
            if known is None or each.key[0] not in known
        )
        refused: set[str | bytes] = set()
        names = {each.key[0]: each.topic for each in self._plan.partitions}
        for key, count in counts.items():
            name = names[key]
            if name is None:
                continue  # the topic id is unknown
            if not authorizer.permits(context, read, TOPIC, name, count=count):
                refused.add(key)
            elif known is not None:
                known.add(key)
        return frozenset(refused)

    def evaluate(self, final: bool, files: FileSystem | None = None) -> FetchResponse | int:
        """Return the response, or the number of missing bytes. With `final`, always respond.

        Raises:
            ReadWouldBlock: a read from `files` would wait for the device. The exception contains
                the missing data of all partitions.
        """
        read = self._read or self._other_reader()
        replicas = self._replicas
        left = self._max_bytes
        found: list[_Found] = []
        immediate = final
        self._is_urgent = any_bytes = has_errors = False
        missing: list[ReadWouldBlock] = []
        for wanted in list(self._plan.partitions):
            name, index = wanted.key
            partition = replicas.get(name, _NOTHING).get(index)
            if partition is None:
                immediate = has_errors = True
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if name not in self._refused:
                    error = self._broker.replicas.why_missing(name, index, wanted.topic)
                found.append((wanted, reading.failed(index, error), None, 0))
                continue
            partition.count_fetch()
            try:
                answer = read(
                    partition, wanted, self._isolation, max(0, left), not any_bytes, files
                )
            except ReadWouldBlock as part:
                missing.append(part)
                continue
            size = len(answer.records) if answer.records is not None else 0
            if size:
                any_bytes = True
                left -= size
            elif answer.error_code:
                partition.count_fetch_error(answer.error_code)
                immediate = has_errors = True
            elif answer.diverging_epoch.epoch >= 0:
                immediate = True
            found.append((wanted, answer, partition, size))
        if missing:
            raise ReadWouldBlock.all_of(missing)
        self._is_first = False
        missing_bytes = self._min_bytes - (self._max_bytes - left)
        is_empty = not found and not self._plan.incremental
        if missing_bytes > 0 and not immediate and not self._is_urgent and not is_empty:
            self.waits_for = [each for _, _, each, _ in found if each is not None]
            return missing_bytes
        return self._respond(found, has_errors)

    def _other_reader(self) -> _Read:
        return self._read_nearest if self.follower is None else self._read_for_follower

    def _read_nearest(
        self,
        partition: Partition,
        wanted: FetchedPartition,
        isolation: int,
        max_bytes: int,
        whole_first: bool,
        files: FileSystem | None,
    ) -> PartitionData:
        """Read here, or name the replica in the consumer's rack."""
        listener = self._context.listener
        answer = reading.nearer_replica(partition, wanted, self._rack, listener)
        if answer is None:
            return reading.read(partition, wanted, isolation, max_bytes, whole_first, files)
        self._is_urgent = True
        return answer

    def _read_for_follower(
        self,
        partition: Partition,
        wanted: FetchedPartition,
        _isolation: int,
        max_bytes: int,
        whole_first: bool,
        files: FileSystem | None,
    ) -> PartitionData:
        assert self.follower is not None
        answer = reading.read_for_follower(
            partition,
            wanted,
            self.follower,
            max_bytes,
            whole_first,
            files,
            is_first=self._is_first,
        )
        if -1 < wanted.high_watermark < answer.high_watermark:
            leading = partition.leading
            if leading is not None and leading.tells_high_watermark:
                self._is_urgent = True  # consumers of the follower wait for the high watermark
        return answer

    def _throttle(self, quotas: _Quotas, found: list[_Found]) -> int:
        """Return how long the client must be throttled; 0 if the response may be sent.

        Partitions that have new offsets but no records are not counted. They have few bytes.
        """
        counted = found
        if self._plan.incremental:
            counted = [each for each in found if each[3] or each[1].error_code]
        parts: list[Part] = []
        response = FetchResponse(responses=_by_topic(counted, self._uses_ids))
        response.ENCODERS[quotas.version](response, parts.append)
        size = LENGTH_BYTES + sum(map(len, parts))
        return quotas.managers.fetched(quotas.meters, size)

    def _throttled(self, throttle_ms: int) -> FetchResponse:
        """Return a response without partitions. A full fetch opens no session, as in Kafka."""
        plan = self._plan
        session_id = 0
        if plan.incremental:
            assert plan.session is not None
            session_id = plan.session.id
        else:
            self._broker.fetch_sessions.drop_new(plan)
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id)

    def _respond(self, found: list[_Found], has_errors: bool) -> FetchResponse:
        if self._quotas is not None:
            throttle_ms = self._throttle(self._quotas, found)
            if throttle_ms:
                return self._throttled(throttle_ms)
        follower = self.follower
        for _, _, source, size in found:
            if size and source is not None:
                if follower is None:
                    source.on_fetched(size)
                else:
                    source.on_replicated(size, follower.broker_id)
        if has_errors:
            codes = [int(each[1].error_code) for each in found if each[1].error_code]
            self._context.peer.count_errors(codes)
        session = self._plan.session
        if session is None:
            response = FetchResponse(responses=_by_topic(found, self._uses_ids))
        else:
            # `has_news` also records the state of the partition that this response contains.
            incremental = self._plan.incremental
            told = [each for each in found if each[0].has_news(each[1]) or not incremental]
            session.rotate([wanted.key for wanted, answer, _, _ in told if answer.records])
            responses = _by_topic(told, self._uses_ids)
            response = FetchResponse(session_id=session.id, responses=responses)
            self._let_rest(session, found)
        if has_errors and self._context.api_version >= LEADER_HINTS_VERSION:
            self._name_leaders(response, found)
        return response

    def _let_rest(self, session: FetchSession, found: list[_Found]) -> None:
        """Let the partitions rest that have nothing for the fetcher: read them after a change.

        With an authorizer or a rack, partitions of consumers do not rest: their ACLs or nearest
        replica can change, and this is no change of the partition.
        """
        follower = self.follower
        if follower is None and (self._rack or self._broker.authorizer is not None):
            return
        for wanted, answer, partition, size in found:
            if size or partition is None or not resting.is_told(partition, answer):
                continue
            offset = wanted.fetch_offset
            if follower is None:
                if resting.has_everything(partition, offset, self._isolation):
                    resting.RestingPartition(session, wanted, partition, resting.CONSUMER)
            elif resting.is_in_sync(partition, offset, follower.broker_id):
                resting.RestingPartition(session, wanted, partition, follower.broker_id)

    def _name_leaders(self, response: FetchResponse, found: list[_Found]) -> None:
        """Add the current leaders of the partitions that this broker does not lead."""
        endpoints: dict[int, NodeEndpoint] = {}
        for wanted, answer, _, _ in found:
            if answer.error_code not in _MOVED:
                continue
            hint = leader_hint(self._broker, self._context.peer, *wanted.key)
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
            )
            if hint.address is not None and self.follower is None:
                endpoints[hint.leader_id] = NodeEndpoint(
                    node_id=hint.leader_id,
                    host=hint.address.host,
                    port=hint.address.port,
                    rack=hint.rack,
                )
        response.node_endpoints = list(endpoints.values())


def _follower(request: FetchRequest) -> reading.Follower | None:
    state = request.replica_state  # from version 15 on
    if state.replica_id >= 0:
        return reading.Follower(state.replica_id, state.replica_epoch)
    if request.replica_id >= 0:
        return reading.Follower(request.replica_id, -1)
    return None


def _by_topic(found: list[_Found], uses_ids: bool) -> list[FetchableTopicResponse]:
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    for wanted, answer, _, _ in found:
        name = wanted.key[0]
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchableTopicResponse()
            if uses_ids:
                topic.topic_id = name  # type: ignore[assignment]
            else:
                topic.topic = name  # type: ignore[assignment]
        topic.partitions.append(answer)
    return list(topics.values())


def handle_on_controller(
    controller: Controller, context: RequestContext, request: FetchRequest
) -> Awaitable[Message]:
    """Pass a fetch of the metadata log to the quorum."""
    require_cluster(controller, context, AclOperation.CLUSTER_ACTION)
    return controller.quorum.answer(request)


def _error_response(request: FetchRequest, error: ApiError) -> FetchResponse:
    """Return the error, and the error of each partition that is named by the topic's name."""
    if error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return FetchResponse(error_code=error.code)
    topics = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[reading.failed(each.partition, error.code) for each in topic.partitions],
        )
        for topic in request.topics
        if topic.topic
    ]
    for topic in topics:
        for partition in topic.partitions:
            partition.aborted_transactions = []
    return FetchResponse(error_code=error.code, responses=topics)


HANDLER = Handler(
    request=FetchRequest,
    handle=handle,
    controller=handle_on_controller,
    error_response=_error_response,
)
