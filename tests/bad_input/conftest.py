from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bad_input.victim import Victim, victim


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """One node for all tests of a file."""
    with victim(tmp_path_factory.mktemp("victim")) as one:
        yield one


@pytest.fixture
def mistreated(node: Victim) -> Iterator[Victim]:
    """The node, which is checked when the test is over."""
    yield node
    node.check()
