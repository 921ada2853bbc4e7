"""The same questions to Apache Kafka and to us: the same answers.

Ten histories by default; `ODRADEK_TRANSACTION_HISTORIES=2000` asks more, ODRADEK_SEED others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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

AT_ONCE = 6

pytestmark = pytest.mark.java


@pytest.fixture
def brokers() -> Iterator[tuple[str, str]]:
    """Where ours is, and theirs."""
    try:
        apache = ApacheKafka(settings=SETTINGS)
        with OdradekNode(settings=SETTINGS) as node, apache:
            yield node.bootstrap, apache.bootstrap
    except Missing as reason:
        pytest.skip(str(reason))


def play(brokers: tuple[str, str], seeds: Iterable[int]) -> int:
    """Ask both the same, history after history; how many questions were answered alike."""
    seeds = list(seeds)
    ours, theirs = (Player(bootstrap, f"histories-{seeds[0]}") for bootstrap in brokers)
    asked = 0
    for seed in seeds:
        histories = Histories(seed)
        trace = []
        for question in histories.questions():
            answer, expected = ours.ask(question), theirs.ask(question)
            assert answer == expected, f"seed {seed}: {question} after {trace[-8:]}"
            trace.append((question, answer))
            histories.learn(question, answer)
            asked += 1
    ours.close()
    theirs.close()
    return asked


@pytest.mark.timeout(120 + COUNT)
def test_the_answers_are_those_of_apache_kafka(brokers: tuple[str, str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        playing = [
            pool.submit(play, brokers, range(SEED + first, SEED + COUNT, AT_ONCE))
            for first in range(min(AT_ONCE, COUNT))
        ]
        asked = sum(each.result() for each in playing)
    assert asked == COUNT * (QUESTIONS + EXTRA_QUESTIONS)
