"""Starts one JVM for all tests of this directory. Without Java or Maven they are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compat.lab.toolchain import Missing
from tests.streams_api.oracle import TopologyOracle


@pytest.fixture(scope="session")
def kafka_streams(tmp_path_factory) -> Iterator[TopologyOracle]:
    try:
        started = TopologyOracle(tmp_path_factory.mktemp("state"))
    except Missing as reason:
        pytest.skip(str(reason))
    yield started
    started.close()
