"""What an error means for a transaction, as in Kafka's `TransactionManager`."""

from __future__ import annotations

from enum import Enum, auto

from odradek.client.errors import BrokerError, ClientError
from odradek.model.errors import ErrorCode as E


class Consequence(Enum):
    """What follows from an error."""

    RETRY = auto()
    LOOK_UP = auto()
    """Find the coordinator again, and retry."""
    ABORTABLE = auto()
    """The transaction can only be aborted. Then the producer can go on."""
    FATAL = auto()
    """The producer can only be closed."""


FENCED = frozenset({E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED})
"""Errors of coordinators that say that a newer epoch exists."""
_LOOK_UP = frozenset({E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE})
_ABORTABLE = frozenset(
    {
        E.TOPIC_AUTHORIZATION_FAILED,
        E.GROUP_AUTHORIZATION_FAILED,
        E.FENCED_INSTANCE_ID,
        E.UNKNOWN_MEMBER_ID,
        E.ILLEGAL_GENERATION,
        E.UNKNOWN_PRODUCER_ID,
        E.TRANSACTION_ABORTABLE,
        E.OFFSET_METADATA_TOO_LARGE,
        E.INVALID_TOPIC_EXCEPTION,
    }
)
_RIGHTS_OF_ID = frozenset({E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.CLUSTER_AUTHORIZATION_FAILED})
_FATAL_FOR_BATCHES = _RIGHTS_OF_ID | {
    E.PRODUCER_FENCED,
    E.INVALID_PRODUCER_ID_MAPPING,
    E.UNSUPPORTED_VERSION,
}

_FENCED_ADVICE = (
    "Another producer has begun with the same transactional.id, or the transaction took longer than "
    "transaction.timeout.ms. Close this producer; each running producer needs an id of its own."
)
_MEMBER_ADVICE = (
    "The consumer lost its partitions in a rebalance. Abort the transaction, poll, and process the "
    "records again."
)
_ADVICE = {
    E.PRODUCER_FENCED: _FENCED_ADVICE,
    E.INVALID_PRODUCER_EPOCH: _FENCED_ADVICE,
    E.UNKNOWN_MEMBER_ID: _MEMBER_ADVICE,
    E.ILLEGAL_GENERATION: _MEMBER_ADVICE,
    E.FENCED_INSTANCE_ID: "Another consumer has the same group.instance.id. Stop one of them.",
}


def of_coordinator(error: BrokerError, api: str, *, is_commit: bool) -> Consequence:
    """Return what follows from an error of a coordinator, in the response to a request `api`."""
    code = error.code
    if code in _LOOK_UP or (code == E.REQUEST_TIMED_OUT and api == "TxnOffsetCommit"):
        return Consequence.LOOK_UP
    if error.retriable or code == E.CONCURRENT_TRANSACTIONS:
        return Consequence.RETRY
    if code in _RIGHTS_OF_ID:
        return Consequence.ABORTABLE if api == "InitProducerId" else Consequence.FATAL
    if code == E.TRANSACTION_ABORTABLE and api == "EndTxn" and not is_commit:
        return Consequence.FATAL
    return Consequence.ABORTABLE if code in _ABORTABLE else Consequence.FATAL


def of_batch(error: ClientError) -> Consequence:
    """Return what follows from a batch that has failed for good."""
    if isinstance(error, BrokerError) and error.code in _FATAL_FOR_BATCHES:
        return Consequence.FATAL
    return Consequence.ABORTABLE


def explained(error: ClientError, transactional_id: str) -> ClientError:
    """Return the error with the advice for transactions. A fenced producer has PRODUCER_FENCED."""
    if not isinstance(error, BrokerError) or error.code not in _ADVICE:
        return error
    code, message = error.code, error.message
    if code in FENCED:
        code, message = E.PRODUCER_FENCED, E.PRODUCER_FENCED.message
    subject = error.subject or f"transactional id {transactional_id}"
    return BrokerError(code, message, subject, _ADVICE[error.code])
