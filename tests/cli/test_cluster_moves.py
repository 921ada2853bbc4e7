"""Moves of partitions that Ctrl-C interrupts."""

from __future__ import annotations

import pytest

from odradek.cli import cluster_moves
from odradek.cli.cluster_moves import Mover
from odradek.model.topic_partition import TopicPartition

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
