from __future__ import annotations

import pytest
from tests.coordinator.support import making
from tests.share_state.support import Coordinator


@pytest.fixture
def make():
    """Makes coordinators with settings; closes them."""
    yield from making(Coordinator)


@pytest.fixture
def coordinator(make):
    return make()
