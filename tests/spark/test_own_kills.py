"""A pipeline on own data is killed twice, and each change of the database counts once.

`make proofs ARGS=pipeline-kills` does this with all pipelines, and more records.
"""

from __future__ import annotations

import random

import pytest
from tests.pipelines.own_kills.__main__ import killed
from tests.support.run_seed import run_seed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cluster,
    pytest.mark.slow("three starts of a broker and Spark, which only a killed process needs"),
    pytest.mark.timeout(600),
]


def test_two_kills(capsys):
    assert killed("commitlog", 2000, random.Random(run_seed())), capsys.readouterr().out
