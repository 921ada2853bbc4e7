"""What the answers to Produce mean, as in Kafka's `Sender` and `TransactionManager`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from odradek.client.address import Address
from odradek.client.core.asks import may_pass
from odradek.client.core.producer_batch import NO_ERRORS, ProducerBatch
from odradek.client.core.routes import Routes
from odradek.client.errors import BrokerError, ClientError, RequestTimeoutError, broker_error
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.produce_response import PartitionProduceResponse


class Verdict(Enum):
    """What happens to a batch after an error."""

    RETRY = auto()
    """Send the same bytes again."""
    RENEW = auto()
    """Send it again with a new identity: no broker has it."""
    FAIL = auto()
    FATAL = auto()
    """Fail this batch and all others."""
    WRITTEN = auto()


_FATAL = frozenset(
    {
        E.PRODUCER_FENCED,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.CLUSTER_AUTHORIZATION_FAILED,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_REFRESH = frozenset(
    {
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.LEADER_NOT_AVAILABLE,
        E.NOT_LEADER_OR_FOLLOWER,
        E.REPLICA_NOT_AVAILABLE,
        E.NETWORK_EXCEPTION,
        E.KAFKA_STORAGE_ERROR,
        E.LISTENER_NOT_FOUND,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
    }
)


class Outcome:
    """The answer about a batch. `error` is None if it is written."""

    __slots__ = (
        "base_offset",
        "error",
        "has_new_leader",
        "log_start_offset",
        "must_refresh",
        "record_errors",
        "timestamp_ms",
    )

    def __init__(
        self,
        error: ClientError | None,
        *,
        base_offset: int = -1,
        timestamp_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Mapping[int, str] = NO_ERRORS,
        has_new_leader: bool = False,
    ) -> None:
        self.error = error
        self.base_offset = base_offset
        self.timestamp_ms = timestamp_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.has_new_leader = has_new_leader
        """Whether the answer names a leader that was not known (KIP-951)."""
        self.must_refresh = not has_new_leader and (
            not isinstance(error, BrokerError) or error.code in _REFRESH
        )


def outcome_of(
    topic: str,
    response: PartitionProduceResponse,
    nodes: Mapping[int, tuple[str, int]],
    routes: Routes,
) -> Outcome:
    """Return the outcome of a batch, and note the leader that an error names."""
    partition = TopicPartition(topic, response.index)
    record_errors = {
        each.batch_index: each.batch_index_error_message or "the broker refused the record"
        for each in response.record_errors
    }
    message = response.error_message
    if message is None and record_errors:
        message = next(iter(record_errors.values()))
    error = broker_error(response.error_code, message, f"partition {partition}")
    leader = response.current_leader
    has_new_leader = False
    if error is not None and leader.leader_id >= 0 and leader.leader_epoch >= 0:
        address = nodes.get(leader.leader_id)
        has_new_leader = routes.move_leader(
            partition,
            leader.leader_id,
            leader.leader_epoch,
            None if address is None else Address(*address),
        )
    return Outcome(
        error,
        base_offset=response.base_offset,
        timestamp_ms=response.log_append_time_ms,
        log_start_offset=response.log_start_offset,
        record_errors=record_errors,
        has_new_leader=has_new_leader,
    )


def verdict(
    error: ClientError,
    *,
    is_idempotent: bool,
    is_transactional: bool,
    is_gap_real: bool,
    log_start_offset: int,
) -> Verdict:
    """Return what happens to a batch.

    `is_gap_real` says that all batches before it are acknowledged, or that it is unknown whether they
    are written. Otherwise, a batch that is out of order is so because an earlier one is repeated.
    """
    if not isinstance(error, BrokerError):
        return Verdict.RETRY if may_pass(error) else Verdict.FAIL
    code = error.code
    if code == E.DUPLICATE_SEQUENCE_NUMBER:
        return Verdict.WRITTEN
    if is_idempotent and code == E.OUT_OF_ORDER_SEQUENCE_NUMBER:
        if not is_gap_real:
            return Verdict.RETRY
        return Verdict.FAIL if is_transactional else Verdict.RENEW
    if is_idempotent and code == E.UNKNOWN_PRODUCER_ID:
        if log_start_offset < 0:
            return Verdict.RETRY
        return Verdict.FAIL if is_transactional else Verdict.RENEW
    if is_idempotent and code in _FATAL:
        return Verdict.FATAL
    return Verdict.RETRY if may_pass(error) else Verdict.FAIL


def expired(batch: ProducerBatch, timeout_ms: int, last_error: ClientError | None) -> ClientError:
    """Return the error of a batch that was not written in time."""
    reason = batch.last_error or last_error
    text = f"partition {batch.topic_partition}: not written within {timeout_ms} ms (delivery.timeout.ms)"
    if reason is None:
        return RequestTimeoutError(text)
    return RequestTimeoutError(f"{text}; the last failure was: {reason}", reason.advice)
