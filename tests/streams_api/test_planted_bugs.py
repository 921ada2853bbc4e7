"""The comparison with Kafka Streams finds bugs that are planted into the core."""

from __future__ import annotations

import pytest
from tests.streams_api.comparison import answer
from tests.streams_api.generator import generate
from tests.streams_api.planted_bugs import BUGS, planted

from odradek.records.compiled import COMPILED

pytestmark = pytest.mark.skipif(COMPILED, reason="methods of a compiled class cannot be replaced")

HISTORIES = 720
"""`make proofs` compares these and more with Kafka Streams, `make check` the first half."""


@pytest.fixture(scope="module")
def right_answers():
    requests = [generate(seed) for seed in range(HISTORIES)]
    return [(request, answer(request)) for request in requests]


def test_there_are_many():
    assert len(BUGS) >= 15


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name, right_answers):
    with planted(BUGS[name]):
        assert any(answer(request) != right for request, right in right_answers)
