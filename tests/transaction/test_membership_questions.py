"""The questions to coordinators on other brokers, and what their answers mean."""

from __future__ import annotations

import pytest

from odradek.core.transaction.membership_questions import (
    ADDING_VERSION,
    VERIFYING_VERSION,
    Question,
    QuestionQueues,
    version_min,
)
from odradek.core.transaction.transaction import gathered
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

OK = ErrorCode.NONE
LOST = ErrorCode.NETWORK_EXCEPTION
A, B = TopicPartition("orders", 0), TopicPartition("stock", 4)


def question(ticket, name="shop", epoch=3, partitions=(A, B), adds=True):
    return Question(name, 1000, epoch, gathered(partitions), adds, ticket)


def response(results):
    """`results` has the codes of each transaction's partitions."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=name,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=code
                            )
                        ],
                    )
                    for (topic, index), code in codes.items()
                ],
            )
            for name, codes in results.items()
        ]
    )


def test_many_transactions_are_one_request():
    queues = QuestionQueues()
    assert queues.add(1, question("x")) == []
    assert queues.add(1, question("y", "other", 0, (A,), adds=False)) == []
    request = queues.begin(1)
    first, second = request.transactions
    assert (first.transactional_id, first.producer_id, first.producer_epoch) == ("shop", 1000, 3)
    assert not first.verify_only
    assert {each.name: each.partitions for each in first.topics} == {"orders": [0], "stock": [4]}
    assert second.verify_only
    assert version_min(request) == ADDING_VERSION
    fenced = ErrorCode.PRODUCER_FENCED
    answers = queues.finish(1, response({"other": {A: fenced}, "shop": {A: OK, B: OK}}))
    assert dict(answers) == {"x": {A: OK, B: OK}, "y": {A: fenced}}


def test_a_request_that_only_verifies_may_be_older():
    queues = QuestionQueues()
    queues.add(1, question("x", adds=False))
    assert version_min(queues.begin(1)) == VERIFYING_VERSION


def test_what_comes_while_a_request_is_in_flight_is_sent_after_it():
    queues = QuestionQueues()
    assert queues.begin(1) is None
    queues.add(1, question("x"))
    assert queues.begin(1) is not None
    assert queues.add(1, question("x again")) == [], "the first is in flight, and stays"
    assert queues.begin(1) is None
    queues.add(2, question("elsewhere"))
    assert queues.begin(2) is not None
    assert queues.finish(1, response({"shop": {A: OK, B: OK}})) == [("x", {A: OK, B: OK})]
    assert len(queues.begin(1).transactions) == 1
    assert queues.finish(1, None) == [("x again", {A: LOST, B: LOST})]
    assert queues.begin(1) is None


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [(3, 3, LOST), (3, 4, ErrorCode.INVALID_PRODUCER_EPOCH)],
)
def test_a_newer_question_takes_the_place_of_an_older_one(first, second, code):
    queues = QuestionQueues()
    queues.add(1, question("old", epoch=first))
    assert queues.add(1, question("new", epoch=second)) == [("old", {A: code, B: code})]
    (asked,) = queues.begin(1).transactions
    assert asked.producer_epoch == second
    assert [ticket for ticket, _ in queues.finish(1, None)] == ["new"]


def test_an_older_epoch_is_not_asked_for():
    queues = QuestionQueues()
    queues.add(1, question("new", epoch=4))
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    assert queues.add(1, question("old", epoch=3)) == [("old", {A: code, B: code})]
    assert [each.producer_epoch for each in queues.begin(1).transactions] == [4]


def test_what_has_no_result_is_not_confirmed():
    queues = QuestionQueues()
    queues.add(1, question("x"))
    queues.add(1, question("y", "other"))
    queues.begin(1)
    answers = dict(queues.finish(1, response({"shop": {A: OK}, "third": {B: OK}})))
    assert answers == {"x": {A: OK, B: LOST}, "y": {A: LOST, B: LOST}}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (7777, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_error_of_a_whole_response_is_that_of_each_question(code, told):
    queues = QuestionQueues()
    queues.add(1, question("x"))
    queues.begin(1)
    assert queues.finish(1, AddPartitionsToTxnResponse(error_code=code)) == [
        ("x", {A: told, B: told})
    ]


def test_a_coordinator_that_cannot_be_asked_verifies_everything_and_adds_nothing():
    queues = QuestionQueues()
    queues.add(1, question("x"))
    queues.add(1, question("y", "other", adds=False))
    queues.begin(1)
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    assert dict(queues.finish_unsupported(1)) == {
        "x": {A: unsupported, B: unsupported},
        "y": {A: OK, B: OK},
    }
    assert queues.begin(1) is None
