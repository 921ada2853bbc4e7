from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bad_input.target import Target, running_target


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One node for all tests of a file."""
    with running_target(tmp_path_factory.mktemp("target")) as one:
        yield one


@pytest.fixture
def target(node: Target) -> Iterator[Target]:
    """The node. It is checked after the test."""
    yield node
    node.check()
