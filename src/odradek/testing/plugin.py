"""The pytest plugin, which has fixtures that start a broker or a cluster.

The package's entry point registers the plugin.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odradek.testing.broker import Broker
    from odradek.testing.cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "odradek(topics={name: partitions}, settings={name: value}, data=directory, port=number, "
        "nodes=number): the broker of `odradek_broker` (port) or the cluster of `odradek_cluster` "
        "(nodes)",
    )


@pytest.fixture
def odradek_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A new broker for this test, an `odradek.testing.Broker`."""
    from odradek.testing.broker import Broker

    with Broker(**_wishes(request.node, inspect.signature(Broker).parameters)) as broker:
        yield broker


@pytest.fixture
def odradek_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A new cluster for this test, an `odradek.testing.Cluster`."""
    from odradek.testing.cluster import Cluster

    with Cluster(**_wishes(request.node, inspect.signature(Cluster).parameters)) as cluster:
        yield cluster


def _wishes(test: pytest.Item, known: Collection[str]) -> dict[str, Any]:
    """Return the marker's arguments for the broker or the cluster.

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
