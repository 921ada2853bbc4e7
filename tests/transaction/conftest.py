from __future__ import annotations

import pytest
from tests.transaction.support import Coordinator


@pytest.fixture
def make():
    """Makes coordinators with settings; closes them."""
    made = []

    def make(**settings):
        made.append(Coordinator(**settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def coordinator(make):
    return make()
