"""Starts one JVM for all tests of this directory. Without Java or Maven the tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    try:
        started = Oracle()
    except Missing as reason:
        pytest.skip(str(reason))
    yield started
    started.close()
