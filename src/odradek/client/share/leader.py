"""The requests of a share consumer to one broker, which leads some of its partitions.

At most one request is in flight, because its epoch must follow the previous one. Acknowledgements
are collected in `_pending`. The next ShareFetch contains them, or a ShareAcknowledge if they are
`urgent`. The broker releases all records of the member when the connection ends. So if the session
is new, earlier acknowledgements have failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from odradek.client.errors import (
    ClientError,
    DisconnectedError,
    MalformedResponseError,
    broker_error,
    error_code,
)
from odradek.client.share.acknowledgements import (
    AcknowledgementResult,
    AcknowledgeType,
    TopicIdPartition,
)
from odradek.client.share.session import EPOCH_FINAL, ShareSession
from odradek.model.errors import ErrorCode
from odradek.wire.generated.share_acknowledge_request import ShareAcknowledgeRequest
from odradek.wire.generated.share_acknowledge_response import ShareAcknowledgeResponse
from odradek.wire.generated.share_fetch_request import ShareFetchRequest
from odradek.wire.generated.share_fetch_response import ShareFetchResponse

RETRY_MS = 100
RETRY_MS_MAX = 1_000
BATCH_OPTIMIZED = 0
RECORD_LIMIT = 1

Types = dict[TopicIdPartition, dict[int, AcknowledgeType]]
ShareRequest = ShareFetchRequest | ShareAcknowledgeRequest
ShareResponse = ShareFetchResponse | ShareAcknowledgeResponse

_RETRIES_MS = 30_000
"""How long acknowledgements are repeated. This is the usual duration of an acquisition lock."""
LEADER_CHANGED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_SESSION_LOST = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """How much a ShareFetch acquires, and how long the broker may wait for records.

    A broker acquires whole batches, so there may be more than `records_max` records. With
    `is_record_limit` (KIP-1206) there are never more.
    """

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 << 20
    records_max: int = 500
    is_record_limit: bool = False


class _Sent(NamedTuple):
    """The request in flight."""

    request: ShareRequest
    types: Types
    sent_ms: int


class ShareLeader:
    """The share session with one broker, and the acknowledgements that the broker must get."""

    def __init__(self, group: str, member_id: str, limits: ShareLimits) -> None:
        self._group = group
        self._member_id = member_id
        self._limits = limits
        self._session = ShareSession()
        self._pending: Types = {}
        self._late: Types = {}
        """Acknowledgements of records whose locks have probably ended. They are sent on their own:
        if one fails, the broker fails all acknowledgements of the partition in the request."""
        self._pending_since_ms: int | None = None
        self._is_urgent = False
        self._is_closing = False
        self._in_flight: _Sent | None = None
        self._retry_ms = RETRY_MS
        self._rests_until_ms = 0
        self._gives_up_ms: int | None = None
        """When acknowledgements that fail with retriable errors have failed."""
        self._results: list[AcknowledgementResult] = []

    # -- acknowledgements -------------------------------------------------------------------

    def acknowledge(
        self,
        partition: TopicIdPartition,
        types: Mapping[int, AcknowledgeType],
        now_ms: int,
        *,
        is_late: bool = False,
    ) -> None:
        """Send these acknowledgements with the next request. They replace pending ones.

        Those of records whose lock has probably ended are `is_late`.
        """
        target = self._late if is_late else self._pending
        target.setdefault(partition, {}).update(types)
        if self._pending_since_ms is None:
            self._pending_since_ms = now_ms

    @property
    def _has_pending(self) -> bool:
        return bool(self._pending or self._late)

    def hurry(self) -> None:
        """Send the pending acknowledgements with a ShareAcknowledge, as soon as possible."""
        self._is_urgent = self._has_pending

    def has_waited(self, since_ms: int) -> bool:
        """Return whether an acknowledgement has been pending since this time, or longer."""
        return self._pending_since_ms is not None and self._pending_since_ms <= since_ms

    @property
    def has_acknowledgements(self) -> bool:
        """Whether acknowledgements are pending or in flight."""
        return self._has_pending or (self._in_flight is not None and bool(self._in_flight.types))

    def take_results(self) -> list[AcknowledgementResult]:
        """Return the results of acknowledgements since the last call."""
        results, self._results = self._results, []
        return results

    # -- requests ---------------------------------------------------------------------------

    @property
    def in_flight(self) -> bool:
        """Whether there is a request without a response."""
        return self._in_flight is not None

    @property
    def is_idle(self) -> bool:
        """Whether the broker knows no session and must get nothing."""
        return self._session.is_new and not self._has_pending and self._in_flight is None

    def wait_ms(self, now_ms: int) -> int:
        """Return how long to wait before the next request, after errors."""
        return max(0, self._rests_until_ms - now_ms)

    def close(self) -> None:
        """Send the pending acknowledgements with the last request of the session."""
        self._is_closing = True
        self._rests_until_ms = 0
        for types in (*self._pending.values(), *self._late.values()):
            for offset in [o for o, kind in types.items() if kind is AcknowledgeType.RENEW]:
                types[offset] = AcknowledgeType.RELEASE

    def request(
        self, wanted: Collection[TopicIdPartition], now_ms: int, *, fetches: bool
    ) -> ShareRequest | None:
        """Return the next request, or None. Then call `answered` or `failed`.

        Without `fetches`, only urgent acknowledgements are sent.
        """
        if self._in_flight is not None or now_ms < self._rests_until_ms:
            return None
        if self._session.is_new:
            self._fail_pending()
        if self._is_closing:
            return None if self._session.is_new else self._acknowledge(now_ms)
        if self._has_pending and (self._is_urgent or self._has_renewals()):
            return self._acknowledge(now_ms)
        if fetches and (wanted or self._has_pending or self._session.must_change(wanted)):
            return self._fetch(wanted, now_ms)
        return None

    def _has_renewals(self) -> bool:
        """Return whether locks must be renewed. A request that does this cannot fetch."""
        collected = (*self._pending.values(), *self._late.values())
        return any(AcknowledgeType.RENEW in types.values() for types in collected)

    def _fail_pending(self) -> None:
        """Fail acknowledgements of an earlier session."""
        lost = DisconnectedError("the share session has ended before the acknowledgement")
        while self._has_pending:
            self._report(self._take_pending(), lost)

    def _take_pending(self) -> Types:
        """Return the acknowledgements of the next request: the late ones come last."""
        if self._pending:
            types, self._pending = self._pending, {}
        else:
            types, self._late = self._late, {}
        if not self._late:
            self._pending_since_ms = None
            self._is_urgent = False
        return types

    def _fetch(self, wanted: Collection[TopicIdPartition], now_ms: int) -> ShareFetchRequest:
        limits = self._limits
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            max_wait_ms=limits.wait_ms_max if wanted else 0,
            min_bytes=limits.bytes_min,
            max_bytes=limits.bytes_max,
            max_records=limits.records_max,
            batch_size=limits.records_max,
            share_acquire_mode=RECORD_LIMIT if limits.is_record_limit else BATCH_OPTIMIZED,
        )
        types = self._take_pending()
        self._session.fill_fetch(request, wanted, types)
        self._in_flight = _Sent(request, types, now_ms)
        return request

    def _acknowledge(self, now_ms: int) -> ShareAcknowledgeRequest:
        types = self._take_pending()
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member_id,
            is_renew_ack=any(AcknowledgeType.RENEW in each.values() for each in types.values()),
        )
        is_final = self._is_closing and not self._has_pending
        self._session.fill_acknowledge(request, types, is_final=is_final)
        self._in_flight = _Sent(request, types, now_ms)
        return request

    # -- responses --------------------------------------------------------------------------

    def answered(self, response: ShareResponse, now_ms: int) -> ClientError | None:
        """Process a response, except for its records. Return the error of the whole response."""
        sent, self._in_flight = self._in_flight, None
        assert sent is not None
        if sent.request.share_session_epoch == EPOCH_FINAL:
            self._session.reset()
        else:
            self._continue_session(response.error_code)
        error = broker_error(response.error_code, response.error_message, f"group {self._group}")
        if error is not None:
            self._rest(now_ms)
            for partition, types in sent.types.items():
                self._settle(partition, types, error, now_ms)
            return None if error.code in _SESSION_LOST else error
        outcomes = _outcomes(response)
        is_refused = False
        for partition, types in sent.types.items():
            key = partition.topic_id, partition.partition
            if key not in outcomes:
                missing = MalformedResponseError("the response has no result of acknowledgements")
                self._settle(partition, types, missing, now_ms)
                continue
            outcome = broker_error(*outcomes[key], f"partition {partition.topic}-{key[1]}")
            is_refused |= self._settle(partition, types, outcome, now_ms)
        if is_refused:
            self._rest(now_ms)
        else:
            self._retry_ms = RETRY_MS
            self._gives_up_ms = None
        return None

    def _continue_session(self, code: int) -> None:
        if code in _SESSION_LOST or (code and self._session.is_new):
            self._session.reset()
        else:
            self._session.advance()

    def failed(self, error: ClientError, now_ms: int) -> None:
        """The connection has ended, or the request could not be sent."""
        sent, self._in_flight = self._in_flight, None
        self._session.reset()
        self._rest(now_ms)
        if sent is not None:
            self._report(sent.types, error)
        self._fail_pending()

    def rest(self, now_ms: int) -> None:
        """Wait before the next request, because a partition has an error."""
        if now_ms >= self._rests_until_ms:
            self._rest(now_ms)

    def _rest(self, now_ms: int) -> None:
        self._rests_until_ms = now_ms + (0 if self._is_closing else self._retry_ms)
        self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)

    def _settle(
        self,
        partition: TopicIdPartition,
        types: Mapping[int, AcknowledgeType],
        error: ClientError | None,
        now_ms: int,
    ) -> bool:
        """Report a result. Or retry, and return True, if the error may pass.

        After a change of the leader there is no retry: the locks have been released.
        """
        code = getattr(error, "code", None)
        may_pass = error is not None and error.retriable
        if may_pass and code not in LEADER_CHANGED and not self._session.is_new:
            if self._gives_up_ms is None:
                self._gives_up_ms = now_ms + _RETRIES_MS
            if now_ms < self._gives_up_ms:
                newer = self._pending.get(partition, {})
                self._pending[partition] = {**types, **newer}
                self._is_urgent = True
                if self._pending_since_ms is None:
                    self._pending_since_ms = now_ms
                return True
        self._report({partition: types}, error)
        return False

    def _report(
        self,
        types: Mapping[TopicIdPartition, Mapping[int, AcknowledgeType]],
        error: ClientError | None,
    ) -> None:
        self._results += (
            AcknowledgementResult(partition.topic, partition.partition, some, error)
            for partition, some in types.items()
        )


def _outcomes(response: ShareResponse) -> dict[tuple[bytes, int], tuple[int, str | None]]:
    """Return code and message of the acknowledgements, by topic id and partition index."""
    if isinstance(response, ShareFetchResponse):
        return {
            (topic.topic_id, p.partition_index): (
                p.acknowledge_error_code,
                p.acknowledge_error_message,
            )
            for topic in response.responses
            for p in topic.partitions
        }
    return {
        (topic.topic_id, p.partition_index): (p.error_code, p.error_message)
        for topic in response.responses
        for p in topic.partitions
    }


def leader_errors(response: ShareResponse) -> Iterable[tuple[bytes, int, ErrorCode, int, int]]:
    """Yield topic id, index, code, leader id and leader epoch of the partitions with errors."""
    for topic in response.responses:
        for p in topic.partitions:
            if p.error_code:
                leader = p.current_leader
                yield (
                    topic.topic_id,
                    p.partition_index,
                    error_code(p.error_code),
                    leader.leader_id,
                    leader.leader_epoch,
                )
