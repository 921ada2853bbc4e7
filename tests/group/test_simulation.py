"""Random histories of a group; see `simulation`. A seed that fails stays here."""

from __future__ import annotations

import pytest
from tests.group.simulation import World


@pytest.mark.parametrize("seed", range(40))
def test_a_history(seed):
    World(seed).run(40)


def test_the_same_seed_is_the_same_history():
    assert World(7).run(40) == World(7).run(40)
