"""Requests to the coordinators with one invalid field.

The responses are the same as Apache Kafka's, the memory is bounded, and refused requests change
nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker as Process
from compat.lab.odradek_node import OdradekNode
from tests.bad_input.coordinators.recorded_answers import check_answers
from tests.bad_input.coordinators.requests import (
    Broker,
    Outcome,
    create_topic,
    wait_for_coordinators,
)
from tests.bad_input.recorded import AGAINST_APACHE

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
REQUESTS = (
    ("OffsetCommit", 10, "join_classic"),
    ("OffsetCommit", 9, "join_consumer"),
    ("OffsetCommit", 2, "join_classic"),
    ("OffsetFetch", 10, "join_consumer"),
    ("OffsetFetch", 7, "join_classic"),
    ("FindCoordinator", 6, "join_classic"),
    ("FindCoordinator", 3, "join_classic"),
    ("JoinGroup", 9, "join_classic"),
    ("JoinGroup", 3, "join_classic"),
    ("Heartbeat", 4, "join_classic"),
    ("LeaveGroup", 5, "join_classic"),
    ("LeaveGroup", 2, "join_classic"),
    ("SyncGroup", 5, "join_classic"),
    ("SyncGroup", 2, "join_classic"),
    ("DescribeGroups", 6, "join_classic"),
    ("ListGroups", 5, "join_classic"),
    ("DeleteGroups", 2, "join_classic"),
    ("OffsetDelete", 0, "join_classic"),
    ("ConsumerGroupHeartbeat", 1, "join_consumer"),
    ("ConsumerGroupDescribe", 1, "join_consumer"),
    ("InitProducerId", 5, "initialize"),
    ("AddPartitionsToTxn", 5, "begin"),
    ("AddPartitionsToTxn", 3, "begin"),
    ("AddOffsetsToTxn", 4, "begin"),
    ("EndTxn", 5, "begin"),
    ("EndTxn", 3, "begin"),
    ("WriteTxnMarkers", 1, "begin"),
    ("TxnOffsetCommit", 5, "begin"),
    ("TxnOffsetCommit", 3, "begin"),
    ("DescribeTransactions", 0, "begin"),
    ("ListTransactions", 2, "begin"),
)
"""API, version, and the method of `Actor` that prepares the group or transaction."""
ADDS_BEFORE_IT_VALIDATES = "TxnOffsetCommit 5 "
"""First adds the group's partition to the transaction, as in Apache Kafka (KIP-890)."""
AT_ONCE = 6
GROWTH_MAX = 200 << 20
"""Maximum growth of memory. Several groups store 10 MB until the sessions of their members end."""


def play(process: Process) -> list[list[Outcome]]:
    """Return the outcomes of each request."""
    topic_id = create_topic(process.port)
    wait_for_coordinators(process.port)

    def one(number: int) -> list[Outcome]:
        broker = Broker(process.port, topic_id)
        try:
            return list(broker.play(number, *REQUESTS[number]))
        finally:
            broker.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(len(REQUESTS))))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """The outcomes of all requests."""
    directory = tmp_path_factory.mktemp("node")
    kind: type[Process] = ApacheKafka if AGAINST_APACHE else OdradekNode
    with kind(settings=SETTINGS, directory=directory) as node:
        resident = node.rss_bytes()
        found = play(node)
        assert node.alive(), node.last_words()
        grown = node.rss_bytes() - resident
        said = node.log.read_text(encoding="utf-8")
    if not AGAINST_APACHE:
        assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:4000]
        assert grown < GROWTH_MAX, f"the node grew by {grown >> 20} MB"
    return [each for request in found for each in request]


def test_requests_are_answered_as_by_apache_kafka(outcomes: list[Outcome]) -> None:
    check_answers("test_coordinator_requests", outcomes)


@pytest.mark.skipif(AGAINST_APACHE, reason="what Apache Kafka does is only recorded")
def test_refused_requests_change_nothing(outcomes: list[Outcome]) -> None:
    refused = [each for each in outcomes if each.is_refused]
    assert len(refused) > len(outcomes) // 4, "so that something is refused at all"
    changed = [
        each
        for each in refused
        if each.before != each.after and not each.what.startswith(ADDS_BEFORE_IT_VALIDATES)
    ]
    assert not changed, "\n".join(map(_shown, changed[:5]))


def _shown(outcome: Outcome) -> str:
    return (
        f"{outcome.what}\n  {outcome.answer}\n  before {outcome.before}\n  after  {outcome.after}"
    )
