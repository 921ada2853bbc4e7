"""The requests that verify or add partitions at transaction coordinators on other brokers
(AddPartitionsToTxn, KIP-890). A *question* is one transaction in such a request.

The leader of a partition asks the coordinator whether the partition belongs to the transaction, or
asks it to add the partition (`partitions`). `QuestionQueues` collects the questions for each
broker. At most one request is in flight to a broker; the next request has all questions that were
added meanwhile.

A request has each transactional id at most once. If a question with the same id is already waiting,
their producer epochs are compared, as in Apache Kafka's `AddPartitionsToTxnManager`. The table
shows which question is sent, and the error that the other one gets:

    new question's epoch    the waiting question is       the new question is
    --------------------    --------------------------    -----------------------------
    higher                  INVALID_PRODUCER_EPOCH        sent
    the same                NETWORK_EXCEPTION (retried)   sent
    lower                   sent                          INVALID_PRODUCER_EPOCH
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from odradek.core.transaction.transaction import Partitions, each
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse

VERIFYING_VERSION: Final = 4
"""The first version of AddPartitionsToTxn that brokers may send."""
ADDING_VERSION: Final = 5
"""The first version that adds partitions in version 2 of the transaction protocol."""

Results = dict[TopicPartition, ErrorCode]
"""The coordinator's result for each partition of a question."""


class Question(NamedTuple):
    """A question about one transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    adds: bool
    """Whether the coordinator adds the partitions. If not, it verifies that they were added."""
    ticket: Any
    """Identifies the question for the caller of `QuestionQueues`."""


Answer = tuple[Any, Results]
"""The ticket of a question, and its results."""


class QuestionQueues:
    """The questions for each other broker: those that wait, and those of the request in flight."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[str, Question]] = {}
        self._in_flight: dict[int, dict[str, Question]] = {}

    def add(self, broker_id: int, question: Question) -> list[Answer]:
        """Add a question for a broker; return the questions that are answered without a request."""
        waiting = self._waiting.setdefault(broker_id, {})
        known = waiting.get(question.transactional_id)
        answers = []
        if known is not None:
            if known.producer_epoch > question.producer_epoch:
                return [_refused(question, ErrorCode.INVALID_PRODUCER_EPOCH)]
            is_fenced = known.producer_epoch < question.producer_epoch
            code = ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else ErrorCode.NETWORK_EXCEPTION
            answers.append(_refused(known, code))
        waiting[question.transactional_id] = question
        return answers

    def begin(self, broker_id: int) -> AddPartitionsToTxnRequest | None:
        """Return the next request to a broker, and call `finish` when it has ended.

        Return None if no question waits, or if a request is in flight.
        """
        if broker_id in self._in_flight or not self._waiting.get(broker_id):
            return None
        asked = self._in_flight[broker_id] = self._waiting.pop(broker_id)
        return AddPartitionsToTxnRequest(
            transactions=[_encodable(question) for question in asked.values()]
        )

    def finish(self, broker_id: int, response: AddPartitionsToTxnResponse | None) -> list[Answer]:
        """End the request in flight; return the answers to its questions.

        `response` is None if there was no response.
        """
        code = ErrorCode.NETWORK_EXCEPTION
        if response is not None and response.error_code:
            code = ErrorCode.of(response.error_code)
            if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                code = ErrorCode.INVALID_TXN_STATE  # the producer has authorized itself correctly
            response = None
        by_id: dict[str, Results] = {}
        for answer in () if response is None else response.results_by_transaction:
            results = by_id.setdefault(answer.transactional_id, {})
            for topic in answer.topic_results:
                for result in topic.results_by_partition:
                    name = TopicPartition(topic.name, result.partition_index)
                    results[name] = ErrorCode.of(result.partition_error_code)
        answers = []
        for question in self._in_flight.pop(broker_id).values():
            known = by_id.get(question.transactional_id, {})
            # A partition without a result is not confirmed.
            results = {name: known.get(name, code) for name in each(question.partitions)}
            answers.append((question.ticket, results))
        return answers

    def finish_unsupported(self, broker_id: int) -> list[Answer]:
        """End the request in flight, because the coordinator's broker does not know its version.

        Then partitions count as verified, as in Apache Kafka. They cannot be added.
        """
        return [
            _refused(question, ErrorCode.UNSUPPORTED_VERSION)
            if question.adds
            else _refused(question, ErrorCode.NONE)
            for question in self._in_flight.pop(broker_id).values()
        ]


def version_min(request: AddPartitionsToTxnRequest) -> int:
    """Return the lowest version of the API that can ask all questions of a request."""
    verifies = all(transaction.verify_only for transaction in request.transactions)
    return VERIFYING_VERSION if verifies else ADDING_VERSION


def _refused(question: Question, code: ErrorCode) -> Answer:
    return question.ticket, dict.fromkeys(each(question.partitions), code)


def _encodable(question: Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.adds,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=sorted(indexes))
            for topic, indexes in question.partitions.items()
        ],
    )
