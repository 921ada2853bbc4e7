"""Which brokers may be emptied and removed, and which leaders are to be elected."""

from __future__ import annotations

import pytest

from odradek.client.address import Address
from odradek.client.admin.cluster import BrokerInfo, ClusterInfo
from odradek.client.admin.reassignments import Reassignment
from odradek.client.errors import ClientError
from odradek.client.metadata import Partition, Topic
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_layout import Layout, check_removal, drain, led_by_others

KEY = TopicPartition("orders", 0)


def layout(*, fenced=(), moving=(), partitions=None, present=None) -> Layout:
    brokers = tuple(BrokerInfo(i, Address("h", i), None, i in fenced) for i in (1, 2, 3))
    partitions = {KEY: (1, 2)} if partitions is None else partitions
    return Layout(ClusterInfo("c", 1, brokers), dict(moving), partitions, present or partitions)


def test_a_broker_is_drained() -> None:
    assert drain(layout(), 2).moves == {KEY: (1, 3)}


def test_a_broker_that_is_not_registered_but_has_replicas_is_drained() -> None:
    assert drain(layout(partitions={KEY: (1, 9)}), 9).moves == {KEY: (1, 2)}


def test_an_unknown_broker_is_not_drained() -> None:
    with pytest.raises(ClientError, match="there is no broker 7") as caught:
        drain(layout(), 7)
    assert caught.value.advice == "The brokers of the cluster: 1, 2, 3"


def test_no_broker_is_left_for_a_replica() -> None:
    partitions = {TopicPartition("t", index): (1, 2) for index in range(7)}
    with pytest.raises(ClientError, match=r"of 7 partitions: t-0, .*t-4, …$") as caught:
        drain(layout(fenced=[3], partitions=partitions), 2)
    assert "add-broker" in caught.value.advice


def test_what_leaves_a_broker() -> None:
    moving = {KEY: Reassignment((3, 1, 2), (3,), (2,))}
    assert layout(moving=moving).leaving(2) == [KEY]
    assert layout(moving=moving).leaving(1) == []


def test_a_broker_that_is_stopped_and_empty_may_be_removed() -> None:
    check_removal(layout(fenced=[3]), 3)


@pytest.mark.parametrize(
    ("fenced", "broker", "message"),
    [
        ([3], 8, "there is no broker 8"),
        ([], 3, "broker 3 runs at h:3"),
        ([2], 2, "broker 2 has replicas of 1 partition"),
    ],
)
def test_other_brokers_may_not_be_removed(fenced, broker, message) -> None:
    with pytest.raises(ClientError, match=message):
        check_removal(layout(fenced=fenced), broker)


def test_a_replica_that_is_being_moved_away_keeps_its_broker() -> None:
    """Until the new replica is in sync, the old one may be the only one with all records."""
    leaving = layout(fenced=[2], partitions={KEY: (1, 3)}, present={KEY: (1, 3, 2)})
    with pytest.raises(ClientError, match="has replicas"):
        check_removal(leaving, 2)
    check_removal(leaving, 2, may_hold_replicas=True)


def test_only_preferred_replicas_in_sync_are_elected() -> None:
    states = {0: (1, (1, 2)), 1: (2, (1, 2)), 2: (2, (2,)), 3: (-1, (1,))}
    partitions = {
        index: Partition(index, leader, 0, (1, 2), in_sync, ())
        for index, (leader, in_sync) in states.items()
    }
    topic = Topic("t", b"0" * 16, is_internal=False, partitions=partitions)
    assert led_by_others([topic]) == [TopicPartition("t", 1)]
