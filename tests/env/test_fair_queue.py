"""Senders take turns, whatever the order in which their items came."""

from __future__ import annotations

import random

import pytest

from odradek.env.fair_queue import FairQueue


def test_senders_take_turns():
    queue: FairQueue[str] = FairQueue()
    for number in range(4):
        queue.add("many", f"many {number}")
    queue.add("few", "few 0")
    queue.add("few", "few 1")
    assert len(queue) == 6
    taken = [queue.take() for _ in range(3)]
    queue.add("late", "late 0")
    taken += [queue.take() for _ in range(len(queue))]
    assert taken == ["many 0", "few 0", "many 1", "few 1", "many 2", "late 0", "many 3"]
    assert not queue
    with pytest.raises(IndexError):
        queue.take()


@pytest.mark.parametrize("seed", range(10))
def test_items_of_a_sender_stay_in_order_and_none_is_lost(seed):
    draw = random.Random(seed)
    queue: FairQueue[tuple[int, int]] = FairQueue()
    added = [0] * 5
    taken = [0] * 5
    for _ in range(500):
        if draw.random() < 0.6:
            sender = draw.randrange(5)
            queue.add(sender, (sender, added[sender]))
            added[sender] += 1
        elif queue:
            sender, number = queue.take()
            assert number == taken[sender]
            taken[sender] += 1
        assert len(queue) == sum(added) - sum(taken)
