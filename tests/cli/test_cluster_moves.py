"""Moves of partitions that Ctrl-C interrupts, or that are not complete yet."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from tests.cli.conftest import invoke

from odradek.cli import cluster_drain, cluster_moves
from odradek.cli.cluster_moves import Mover
from odradek.client.address import Address
from odradek.client.admin.cluster import BrokerInfo, ClusterInfo
from odradek.client.admin.reassignments import Reassignment
from odradek.client.metadata import Partition, Topic
from odradek.model.topic_partition import TopicPartition
from odradek.operations import cluster_layout

MOVES = {TopicPartition("orders", index): (1, 2, 4) for index in range(3)}


def test_a_move_that_has_begun_without_a_response_is_cancelled(monkeypatch, capsys) -> None:
    requests = []

    def reassign(_cluster, wanted):
        requests.append(dict(wanted))
        if len(requests) == 1:
            raise KeyboardInterrupt  # the controller has begun the moves
        return dict.fromkeys(wanted)

    monkeypatch.setattr(cluster_moves, "reassign", reassign)
    with pytest.raises(KeyboardInterrupt):
        Mover(None, MOVES, at_once=2).run()
    begun, cancelled = requests
    assert cancelled == dict.fromkeys(begun)
    assert (
        "Cancelled 2 moves in progress; 0 partitions moved, 1 not begun." in capsys.readouterr().err
    )


def test_moves_that_take_long_are_told(monkeypatch, capsys) -> None:
    looks = [MOVES, MOVES, {}]
    monkeypatch.setattr(cluster_moves, "NOTE_MS", 0)
    monkeypatch.setattr(cluster_moves, "POLL_SECONDS", 0)
    monkeypatch.setattr(cluster_moves, "reassign", lambda _, wanted: dict.fromkeys(wanted))
    monkeypatch.setattr(cluster_moves, "list_reassignments", lambda _: looks.pop(0))
    mover = Mover(None, MOVES, at_once=3)
    mover.run()
    assert (mover.moved, mover.errors) == (3, [])
    told = capsys.readouterr().err
    assert told.count("3 partitions in progress, such as orders-0.") == 2
    assert "odradek cluster status" in told


def test_a_broker_is_not_removed_while_a_partition_is_moved_away_from_it(monkeypatch) -> None:
    """Until the new replica is in sync, the old one may be the only one with all records."""
    key = TopicPartition("orders", 0)
    partition = Partition(0, leader=-1, leader_epoch=1, replicas=(3, 4), in_sync=(4,), offline=(4,))
    brokers = tuple(BrokerInfo(each, Address("h", each), None, each == 4) for each in (3, 4))
    client = SimpleNamespace(
        refresh=lambda: SimpleNamespace(
            topics={
                "orders": Topic("orders", b"0" * 16, is_internal=False, partitions={0: partition})
            }
        )
    )
    removed = []
    for module, name, value in (
        (cluster_drain, "connected", lambda: nullcontext(client)),
        (cluster_drain, "unregister_broker", lambda _, broker: removed.append(broker)),
        (cluster_layout, "describe_cluster", lambda _: ClusterInfo("c", 3, brokers)),
        (
            cluster_layout,
            "list_reassignments",
            lambda _: {key: Reassignment((3, 4), (3,), (4,))},
        ),
    ):
        monkeypatch.setattr(module, name, value)
    outcome = invoke("cluster", "remove", 4)
    assert (outcome.code, removed) == (1, [])
    assert "broker 4 has replicas of 1 partition" in outcome.err
    assert invoke("cluster", "remove", 4, "--force").code == 0
    assert removed == [4]
