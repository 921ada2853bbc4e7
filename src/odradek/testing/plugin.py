"""The pytest plugin: fixtures that start a broker (registered by the package's entry point)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odradek.testing.broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "odradek(topics={name: partitions}, settings={name: value}): the broker of `odradek_broker`",
    )


@pytest.fixture
def odradek_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A fresh broker for this test; see `odradek.testing.Broker`."""
    from odradek.testing.broker import Broker

    marker = request.node.get_closest_marker("odradek")
    with Broker(**(marker.kwargs if marker is not None else {})) as broker:
        yield broker
