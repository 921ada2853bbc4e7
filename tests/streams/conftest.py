from __future__ import annotations

import pytest
from tests.coordinator.support import making
from tests.streams.support import Groups


@pytest.fixture
def make():
    """Makes coordinators with settings; closes them."""
    yield from making(Groups)


@pytest.fixture
def groups(make):
    made = make()
    made.set_topics(**{"in": 4})
    return made
