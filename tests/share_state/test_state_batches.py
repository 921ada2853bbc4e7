"""Combined batches do not overlap, and each offset has the state with the highest priority."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from tests.support.run_seed import seeds

from odradek.core.share_coordinator.state_batches import StateBatch, combine


def states(batches, start_offset):
    """The highest (count, state) of each offset."""
    found = {}
    for first, last, *state in batches:
        for offset in range(max(first, start_offset), last + 1):
            found[offset] = max(found.get(offset, state), state)
    return found


@pytest.mark.parametrize("seed", seeds(20))
def test_the_highest_state_wins(seed):
    random = Random(seed)
    for _ in range(100):
        batches = [
            StateBatch(
                first := random.randrange(30),
                first + random.randrange(10),
                random.randint(1, 3),
                random.choice((0, 2, 4)),
            )
            for _ in range(random.randrange(10))
        ]
        start_offset = random.choice((-1, 0, 7, 20))
        cut = random.randrange(len(batches) + 1)
        combined = combine(batches[:cut], batches[cut:], start_offset)
        wanted = states(batches, start_offset)
        assert states(combined, start_offset) == wanted, f"seed {seed}: {batches}"
        assert sum(last - first + 1 for first, last, *_ in combined) == len(wanted)
        assert combined == sorted(combined)


@pytest.mark.parametrize("seed", seeds(10))
def test_only_the_neighbours_of_changes_are_combined_if_there_are_many(seed):
    random = Random(seed)
    found, wanted, start_offset = [], [], -1
    for _ in range(200):
        first = random.randrange(60)
        change = StateBatch(
            first, first + random.randrange(8), random.randint(1, 3), random.choice((0, 2, 4))
        )
        if random.random() < 0.05:
            start_offset = max(start_offset, random.randrange(30))
        wanted = combine(wanted, [change], start_offset)
        found = combine(found, [change], start_offset, many=0)
        assert states(found, start_offset) == states(wanted, start_offset), f"seed {seed}"
        assert found == sorted(found)
        for one, next_one in pairwise(found):
            assert one.last_offset < next_one.first_offset
            is_neighbour = one.last_offset + 1 == next_one.first_offset
            assert not (is_neighbour and one.has_same_state(next_one)), f"seed {seed}: {found}"


def test_neighbours_with_the_same_state_are_joined():
    assert combine([StateBatch(0, 4, 1, 2)], [StateBatch(5, 9, 1, 2)], -1) == [
        StateBatch(0, 9, 1, 2)
    ]


def test_a_better_state_splits_a_batch():
    assert combine([StateBatch(0, 9, 1, 0)], [StateBatch(3, 5, 2, 0)], -1) == [
        StateBatch(0, 2, 1, 0),
        StateBatch(3, 5, 2, 0),
        StateBatch(6, 9, 1, 0),
    ]
