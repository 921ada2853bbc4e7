"""ShareFetch (78), versions 1-2: share consumers acquire and acknowledge records (KIP-932).

- A share session has the partitions that the member fetches (`core/share/session.py`). The first
  request of a session must have no acknowledgements.
- If there are as many sessions as `group.share.max.share.sessions`, the response has the error
  SHARE_SESSION_LIMIT_REACHED, after `max_wait_ms`.
- The acknowledgements of a request are applied before records are acquired. The response has their
  results, when they are stored.
- A request with epoch -1 closes the session: it acknowledges, and fetches nothing.
- From version 2 on, a request may renew locks (KIP-1222). Such a request fetches nothing, and its
  limits must be 0. `share_acquire_mode` 1 limits the number of records exactly (KIP-1206).
- The response has only the partitions with records, with errors, or with results of
  acknowledgements, and those that are new in the session.
- Records are sent from the page cache, as in Fetch.
- The bytes of responses count for the quota of the client (`odradek.broker.clients.quotas`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.broker.broker import Broker
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.share.fetch import FetchLimits, Results, ShareFetch, failed
from odradek.core.share.session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionKey,
    SessionKey,
    ShareSession,
)
from odradek.handlers.handler import Handler
from odradek.handlers.share import (
    Acknowledgements,
    Acknowledging,
    PartitionErrors,
    check_request,
    current_leader,
    read_batches,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.responses import Part
from odradek.wire.generated.share_fetch_request import ShareFetchRequest
from odradek.wire.generated.share_fetch_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

LENGTH_BYTES: Final = 4
"""Size of the length before a response, which counts for the quota."""
BYTES_UNLIMITED: Final = 2**31 - 1
BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1


def handle(
    broker: Broker, context: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    """Apply the acknowledgements, and acquire records. Respond at once if nothing is waited for."""
    key = check_request(broker, context, request.group_id, request.member_id)
    if request.is_renew_ack:
        _check_renewal(request)
    acknowledgements = _acknowledgements(request)
    try:
        session = _use_session(broker, context, request, key, acknowledgements)
    except ApiError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return _refused_later(error, request.max_wait_ms)
        raise
    if request.share_acquire_mode not in {BATCH_OPTIMIZED, RECORD_LIMIT}:
        # As in Kafka: the session has advanced, and nothing is acknowledged.
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    is_final = request.share_session_epoch == FINAL_EPOCH
    wanted = [] if is_final else _rotated(list(session.partitions), request.share_session_epoch)
    errors = PartitionErrors(broker, context, [*wanted, *acknowledgements])
    # Not after the fetch has waited: if the group has no members then, its settings are dropped.
    lock_duration_ms = broker.share_partitions.settings.of(key.group_id).record_lock_duration_ms
    acknowledging = Acknowledging(
        broker, key, acknowledgements, errors, context.api_version, is_renew=request.is_renew_ack
    )
    if wanted:
        failed = [each for each in wanted if errors.of(each)]
        broker.share_partitions.topic_counts.on_fetch(wanted, failed)
    quota = None if broker.quotas is None else _Quota(broker.quotas, context)
    fetch = None
    if not is_final and not request.is_renew_ack:
        bytes_max = min(request.max_bytes, broker.config.fetch_max_bytes)
        if quota is not None:
            bytes_max = min(bytes_max, quota.bytes_max)
        fetch = _Fetching(broker, request, key, wanted, errors, bytes_max)
    answer = _Answer(
        broker, context, request, session, acknowledging, fetch, quota, lock_duration_ms
    )
    return answer.make() if answer.is_known else answer.wait()


async def _refused_later(error: ApiError, wait_ms: int) -> ShareFetchResponse:
    """Raise an error after the delay without which the member would repeat the request at once."""
    await asyncio.sleep(max(0, wait_ms) / 1000)
    raise error


class _Answer:
    """The acquired records, and the results of the acknowledgements."""

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: ShareFetchRequest,
        session: ShareSession,
        acknowledging: Acknowledging,
        fetch: _Fetching | None,
        quota: _Quota | None,
        lock_duration_ms: int,
    ) -> None:
        self._broker = broker
        self._context = context
        self._epoch = request.share_session_epoch
        self._session = session
        self._acknowledging = acknowledging
        self._fetch = fetch
        self._quota = quota
        self._lock_duration_ms = lock_duration_ms

    @property
    def is_known(self) -> bool:
        """Whether the response can be made."""
        return (self._fetch is None or self._fetch.is_done) and self._acknowledging.is_stored

    async def wait(self) -> ShareFetchResponse:
        """Return the response when it can be made."""
        if self._fetch is not None:
            await self._fetch.wait()
        await self._acknowledging.wait()
        made = self.make()
        return await made if isinstance(made, asyncio.Future) else made

    def make(self) -> ShareFetchResponse | asyncio.Future[ShareFetchResponse]:
        """Return the response, or a future of it if records must be read from the disk."""
        broker, session = self._broker, self._session
        results = {} if self._fetch is None else self._fetch.results()
        told = _news(session, results, self._epoch)
        for partition, outcome in self._acknowledging.results().items():
            result = told.get(partition)
            if result is None:
                result = told[partition] = PartitionData(partition_index=partition[1], records=b"")
            result.acknowledge_error_code = outcome.code
            result.acknowledge_error_message = outcome.message
        if self._epoch == FINAL_EPOCH:
            broker.share_partitions.close_session(session.key)
        response = _respond(broker, self._context, told)
        response.acquisition_lock_timeout_ms = self._lock_duration_ms
        if self._quota is not None:
            response.throttle_time_ms = self._quota.charge(response)
        return broker.cold_reads.warm(response)


def _check_renewal(request: ShareFetchRequest) -> None:
    limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if any(limits):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "max_bytes, min_bytes, max_records and max_wait_ms must be 0 if is_renew_ack is true",
        )


def _acknowledgements(request: ShareFetchRequest) -> Acknowledgements:
    return {
        (topic.topic_id, partition.partition_index): read_batches(partition.acknowledgement_batches)
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def _use_session(
    broker: Broker,
    context: RequestContext,
    request: ShareFetchRequest,
    key: SessionKey,
    acknowledgements: Acknowledgements,
) -> ShareSession:
    """Open or change the session of the request.

    Raises:
        ApiError: INVALID_REQUEST or an error of sessions.
    """
    sessions = broker.share_partitions.sessions
    epoch = request.share_session_epoch
    if epoch == FINAL_EPOCH:
        return sessions.find(key)
    added = [
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if epoch == INITIAL_EPOCH:
        if acknowledgements:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a new session has nothing to acknowledge")
        return broker.share_partitions.open_session(key, added, context.peer)
    forgotten = [
        (topic.topic_id, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return sessions.use(key, epoch, added, forgotten)


def _rotated(keys: list[PartitionKey], epoch: int) -> list[PartitionKey]:
    """Begin with another partition in each request, so that none of them waits forever."""
    if epoch < 1 or not keys:
        return keys
    at = epoch % len(keys)
    return keys[at:] + keys[:at]


class _Fetching:
    """The fetch of the partitions that exist and that the client may read. It begins at once."""

    def __init__(
        self,
        broker: Broker,
        request: ShareFetchRequest,
        key: SessionKey,
        wanted: Sequence[PartitionKey],
        errors: PartitionErrors,
        bytes_max: int,
    ) -> None:
        found = [(partition, errors.of(partition)) for partition in wanted]
        self._refused = {
            partition: failed(partition, ApiError(error)) for partition, error in found if error
        }
        limits = FetchLimits(
            wait_ms=request.max_wait_ms,
            bytes_min=min(request.min_bytes, bytes_max),
            bytes_max=bytes_max,
            records_max=request.max_records,
            batch_size=request.batch_size,
            is_record_limit=request.share_acquire_mode == RECORD_LIMIT,
        )
        self._fetch = ShareFetch(
            broker.share_partitions,
            key,
            limits,
            [partition for partition, error in found if not error],
            broker.cold_reads,
            broker.replicas.wake,
            broker.loop,
        )
        self._fetch.begin()

    @property
    def is_done(self) -> bool:
        """Whether the fetch has ended."""
        return self._fetch.is_done

    async def wait(self) -> None:
        """Wait until the fetch has ended."""
        if not self._fetch.is_done:
            await self._fetch.wait()

    def results(self) -> Results:
        """Return the results of all partitions, when the fetch has ended."""
        return self._fetch.results() | self._refused


class _Quota:
    """The quota of one request."""

    def __init__(self, managers: QuotaManagers, context: RequestContext) -> None:
        self._managers = managers
        self._meters = managers.meters(context.peer)
        self._version = context.api_version

    @property
    def bytes_max(self) -> int:
        """The most bytes of records to acquire. Larger responses would be throttled for longer."""
        fetch = self._meters.fetch
        return BYTES_UNLIMITED if fetch is None else max(1, int(fetch.value_max))

    def charge(self, response: ShareFetchResponse) -> int:
        """Count the bytes of a response; return how long its client must be throttled."""
        if self._meters.fetch is None:
            return 0
        parts: list[Part] = []
        response.ENCODERS[self._version](response, parts.append)
        size = LENGTH_BYTES + sum(map(len, parts))
        return self._managers.share_fetched(self._meters, size)


def _news(session: ShareSession, results: Results, epoch: int) -> Results:
    """Return the partitions that the response must contain."""
    if epoch == INITIAL_EPOCH:
        return results
    return {
        key: result
        for key, result in results.items()
        if session.has_news(
            key, has_records=bool(result.records), has_error=bool(result.error_code)
        )
    }


def _respond(broker: Broker, context: RequestContext, results: Results) -> ShareFetchResponse:
    response = ShareFetchResponse()
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    nodes: dict[int, NodeEndpoint] = {}
    for key, result in results.items():
        topic = topics.get(key[0])
        if topic is None:
            topic = topics[key[0]] = ShareFetchableTopicResponse(topic_id=key[0])
            response.responses.append(topic)
        topic.partitions.append(result)
        if result.error_code:
            result.error_message = None  # as in Kafka, the code is enough
            leader = current_leader(broker, context, key, result.error_code)
            if leader is not None:
                result.current_leader = LeaderIdAndEpoch(
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
                if leader.host is not None:
                    nodes[leader.leader_id] = NodeEndpoint(
                        node_id=leader.leader_id,
                        host=leader.host,
                        port=leader.port,
                        rack=leader.rack,
                    )
    response.node_endpoints = list(nodes.values())
    return response


HANDLER = Handler(request=ShareFetchRequest, handle=handle)
