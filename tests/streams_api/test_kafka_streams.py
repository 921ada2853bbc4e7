"""Topologies give the records, changelogs and names that Kafka Streams gives, on random histories.

ODRADEK_HISTORIES sets how many histories are compared, and ODRADEK_FIRST the seed of the first.
"""

from __future__ import annotations

import os

import pytest
from tests.streams_api.comparison import compare

pytestmark = pytest.mark.java

COUNT = int(os.environ.get("ODRADEK_HISTORIES", "360"))
FIRST = int(os.environ.get("ODRADEK_FIRST", "0"))
PART = 1000
"""The parts of a long run share the processors (`-n 2`), with a driver each."""


@pytest.mark.slow("a driver of Kafka Streams takes 10 to 50 ms for each history")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, PART))
def test_random_histories_have_the_results_of_kafka_streams(kafka_streams, first):
    assert compare(kafka_streams, range(first, min(first + PART, FIRST + COUNT))) == []
