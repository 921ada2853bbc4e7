"""The same questions to Apache Kafka and to us: the same answers.

Ten histories by default; `ODRADEK_TRANSACTION_HISTORIES=2000` asks more, ODRADEK_SEED others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from tests.oracle.transactions.player import Player
from tests.oracle.transactions.questions import QUESTIONS, Histories

COUNT = int(os.environ.get("ODRADEK_TRANSACTION_HISTORIES", "10"))
SEED = int(os.environ.get("ODRADEK_SEED", "1"))

SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
EXTRA_QUESTIONS = 4
"""Of each history: where it begins, who takes over, and what there is to see in the end."""

pytestmark = pytest.mark.java


@pytest.fixture
def players() -> Iterator[tuple[Player, Player]]:
    try:
        apache = ApacheKafka(settings=SETTINGS)
        with OdradekNode(settings=SETTINGS) as node, apache:
            ours, theirs = Player(node.bootstrap), Player(apache.bootstrap)
            yield ours, theirs
            ours.close()
            theirs.close()
    except Missing as reason:
        pytest.skip(str(reason))


@pytest.mark.timeout(120 + COUNT)
def test_the_answers_are_those_of_apache_kafka(players: tuple[Player, Player]) -> None:
    ours, theirs = players
    asked = 0
    with ThreadPoolExecutor(1) as pool:
        for seed in range(SEED, SEED + COUNT):
            histories = Histories(seed)
            trace = []
            for question in histories.questions():
                asking = pool.submit(theirs.ask, question)
                answer = ours.ask(question)
                trace.append((question, answer))
                assert answer == asking.result(), f"seed {seed}: {trace[-8:]}"
                histories.learn(question, answer)
                asked += 1
    assert asked == COUNT * (QUESTIONS + EXTRA_QUESTIONS)
