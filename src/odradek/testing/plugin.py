"""The pytest plugin, which has a fixture that starts a broker.

The package's entry point registers the plugin.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odradek.testing.broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "odradek(topics={name: partitions}, settings={name: value}, data=directory, port=number): "
        "the broker of `odradek_broker`",
    )


@pytest.fixture
def odradek_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A new broker for this test, an `odradek.testing.Broker`."""
    from odradek.testing.broker import Broker

    with Broker(**_wishes(request.node, inspect.signature(Broker).parameters)) as broker:
        yield broker


def _wishes(test: pytest.Item, known: Collection[str]) -> dict[str, Any]:
    """Return the marker's arguments for the broker.

    Raises:
        UsageError: the marker has an argument that is not in `known`.
    """
    marker = test.get_closest_marker("odradek")
    if marker is None:
        return {}
    unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in known)]
    if unknown:
        raise pytest.UsageError(
            f"{test.nodeid}: the marker odradek takes {', '.join(f'{n}=' for n in known)}, "
            f"not {', '.join(unknown)}"
        )
    return dict(marker.kwargs)
