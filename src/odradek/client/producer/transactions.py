"""Begins and ends transactions in which several processes write (KIP-98, KIP-890).

They share the producer id and the epoch of `init_producer`, and write with `EncodedProducer`, which
joins the transaction. The version of EndTxn tells the coordinator whether the client follows the rules of
version 2 of transactions: then it increments the epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from odradek.client.cluster import TRANSACTION, Cluster
from odradek.client.connection import Connection
from odradek.client.core import transaction_requests as requests
from odradek.client.core.producer_batch import ProducerIdentity
from odradek.client.core.transaction import FEATURE
from odradek.client.core.transaction_errors import FENCED
from odradek.client.deadline import Deadline
from odradek.client.errors import BrokerError, ClientError
from odradek.wire.generated.end_txn_response import EndTxnResponse
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.primitives import Message

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    """A producer id and an epoch, which all processes of a transaction share."""

    transactional_id: str
    producer_id: int
    epoch: int


def end_version_max(connection: Connection) -> int:
    """Return the highest version of EndTxn by the finalized features of the cluster."""
    for feature in connection.features.finalized_features:
        if feature.name == FEATURE and feature.max_version_level >= 2:
            return requests.END_VERSION_MAX
    return requests.END_VERSION_1_MAX


def init_producer(
    cluster: Cluster, transactional_id: str, transaction_timeout_ms: int
) -> TransactionalProducer:
    """Return a new epoch of a transactional id.

    Producers with an older epoch are fenced. An open transaction of theirs is aborted. If it was
    about to be committed, it is committed first.

    Raises:
        ClientError: the coordinator does not respond, or returns an error.
    """
    request = requests.init(transactional_id, transaction_timeout_ms, ProducerIdentity(-1, -1))

    def check_answer(response: InitProducerIdResponse) -> None:
        requests.check_init(response, transactional_id)

    response = _ask(cluster, transactional_id, request, InitProducerIdResponse, check_answer)
    return TransactionalProducer(transactional_id, response.producer_id, response.producer_epoch)


def end_transaction(cluster: Cluster, producer: TransactionalProducer, *, committed: bool) -> None:
    """Commit or abort the transaction.

    The request is repeated until the coordinator responds. It may be repeated by later calls too:
    the coordinator recognizes a repeated request.

    Raises:
        ClientError: the coordinator does not respond, or returns an error. After an error other
            than a BrokerError it is unknown whether the transaction has ended.
    """
    identity = ProducerIdentity(producer.producer_id, producer.epoch)
    request = requests.end(producer.transactional_id, identity, is_commit=committed)

    def check_answer(response: EndTxnResponse) -> None:
        requests.check_end(response, producer.transactional_id)

    _ask(
        cluster,
        producer.transactional_id,
        request,
        EndTxnResponse,
        check_answer,
        end_version_max,
    )


def is_fenced(error: ClientError) -> bool:
    """Return whether a newer epoch of the transactional id exists."""
    return isinstance(error, BrokerError) and error.code in FENCED


def _ask(
    cluster: Cluster,
    transactional_id: str,
    request: Message,
    response_class: type[ResponseT],
    check_answer: Callable[[ResponseT], None],
    version_max: Callable[[Connection], int] = lambda _: 32767,
) -> ResponseT:
    """Send a request to the coordinator, and retry it after retriable errors."""

    def attempt(deadline: Deadline) -> ResponseT:
        try:
            connection = cluster.coordinator(transactional_id, TRANSACTION)
            pending = connection.send(request, response_class, version_max(connection))
            response = connection.receive(pending, deadline.remaining_ms)
            check_answer(response)
        except ClientError as error:
            if error.retriable:
                cluster.forget_coordinator(transactional_id, TRANSACTION)
            raise
        return response

    return cluster.retrying(attempt)
