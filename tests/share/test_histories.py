"""Random histories of a share partition are the same as in Apache Kafka's SharePartition.

`python -m tests.share N` compares more of them.
"""

from __future__ import annotations

import pytest
from compat.lab.toolchain import Missing
from tests.share.histories import History, compare

HISTORIES = 40


@pytest.mark.java
def test_histories_are_those_of_kafka() -> None:
    histories = [History(seed) for seed in range(HISTORIES)]
    try:
        whole = compare(histories)
    except Missing as reason:
        pytest.skip(str(reason))
    assert whole > HISTORIES * 0.9
