"""Requests to coordinators with one invalid field get a response in bounded memory and time; a
rejected request changes nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from compat.lab.broker import Broker as Process
from compat.lab.odradek_node import OdradekNode
from tests.bad_input.coordinators.asking import (
    Broker,
    Outcome,
    create_topic,
    wait_for_coordinators,
)

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
"""API, version, and the state of the group or transaction before the request."""
ADDS_BEFORE_IT_LOOKS = "TxnOffsetCommit 5 "
"""The group's partition is added to the transaction first, also by Apache Kafka (KIP-890)."""
AT_ONCE = 6
GROWTH_MAX = 200 << 20
"""Memory for 10 MB that several groups keep until their members are lost."""


def play(process: Process) -> list[list[Outcome]]:
    """All outcomes, by request."""
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
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[list[Outcome]]:
    """The outcomes of our node; it must still run, without unexpected exceptions."""
    directory = tmp_path_factory.mktemp("ours")
    with OdradekNode(settings=SETTINGS, directory=directory) as node:
        resident = node.rss_bytes()
        outcomes = play(node)
        assert node.alive(), node.last_words()
        grown = node.rss_bytes() - resident
        said = node.log.read_text(encoding="utf-8")
    assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:4000]
    assert grown < GROWTH_MAX, f"the node grew by {grown >> 20} MB"
    return outcomes


def test_what_is_refused_leaves_no_trace(ours: list[list[Outcome]]) -> None:
    outcomes = [each for request in ours for each in request]
    refused = [each for each in outcomes if each.is_refused]
    assert len(refused) > len(outcomes) // 4, "so that something is refused at all"
    traces = [
        each
        for each in refused
        if each.before != each.after and not each.what.startswith(ADDS_BEFORE_IT_LOOKS)
    ]
    assert not traces, "\n".join(map(_shown, traces[:5]))


def test_nobody_is_hung_up_on(ours: list[list[Outcome]]) -> None:
    closed = [each.what for request in ours for each in request if each.answer == "closed"]
    assert not closed


def _shown(outcome: Outcome) -> str:
    return (
        f"{outcome.what}\n  {outcome.answer}\n  before {outcome.before}\n  after  {outcome.after}"
    )
