"""Apache Kafka and Odradek give the same responses to random transactional requests.

Twenty histories by default; `ODRADEK_TRANSACTION_HISTORIES=2000` asks more,
ODRADEK_HISTORY=number,number some of them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from tests.oracle.transactions.player import PARTITIONS, Answer, Player, Question
from tests.oracle.transactions.questions import QUESTIONS, Histories
from tests.support import progress
from tests.support.run_seed import numbers_of_histories

HISTORIES = numbers_of_histories("ODRADEK_TRANSACTION_HISTORIES", 20)
FIRST_LOOK_SHARE_MAX = 0.5
"""How many histories may differ at the first look, as a part of all; at least five.

The busier the machine, the more verifications Apache Kafka puts into one request.
"""

SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
EXTRA_QUESTIONS = 4
"""Of each history: where it begins, who takes over, and what there is to see in the end."""

AT_ONCE = 6
SERVED_SECONDS_MAX = 20.0

pytestmark = pytest.mark.java


@pytest.fixture
def brokers() -> Iterator[tuple[str, str]]:
    """Where ours is, and theirs."""
    try:
        apache = BriefApacheKafka(settings=SETTINGS)
        with OdradekNode(settings=SETTINGS) as node, apache:
            yield node.bootstrap, apache.bootstrap
    except Missing as reason:
        pytest.skip(str(reason))


def differences(brokers: tuple[str, str], seeds: Iterable[int], run: str) -> dict[int, str]:
    """Ask both the same, history after history; seeds and what was answered differently."""
    found = {}
    players: list[Player] = []
    for seed in seeds:
        players = players or [_player(each, f"histories-{run}-{seed}") for each in brokers]
        difference = _difference(players, Histories(seed, f"{run}-{seed}"))
        if difference is not None:
            found[seed] = difference
            _close(players)  # what is half done would be seen in the next history
            players = []
    _close(players)
    return found


def _player(bootstrap: str, topic: str) -> Player:
    """Apache Kafka answers that it has made a topic before it serves it."""
    player = Player(bootstrap, topic)
    with WireClient(int(bootstrap.rpartition(":")[2])) as wire:
        deadline = time.monotonic() + SERVED_SECONDS_MAX
        while wire.serving(topic, PARTITIONS) < PARTITIONS:
            assert time.monotonic() < deadline, f"{topic} is not served"
    return player


def _difference(players: list[Player], histories: Histories) -> str | None:
    trace: list[tuple[Question, Answer]] = []
    for question in histories.questions():
        answer, expected = (player.ask(question) for player in players)
        if answer != expected:
            return f"{question}: {answer}, not {expected}, after {trace[-8:]}"
        trace.append((question, answer))
        histories.learn(question, answer)
    assert len(trace) == QUESTIONS + EXTRA_QUESTIONS
    return None


def _close(players: list[Player]) -> None:
    for player in players:
        player.close()


@pytest.mark.timeout(120 + 2 * len(HISTORIES))
def test_the_answers_are_those_of_apache_kafka(
    brokers: tuple[str, str], figures: list[str]
) -> None:
    """Several histories at a time; those with a difference once more, each alone.

    For Apache Kafka verifies the transactions of several producers in one request, all by the
    rules of the first one's version: then it says TRANSACTION_ABORTABLE to clients that do not
    know it, or INVALID_TXN_STATE to those that do.
    """
    played = itertools.count(1)

    def told(seeds: Iterable[int]) -> Iterator[int]:
        for seed in seeds:
            yield seed
            progress.report(next(played), len(HISTORIES), "histories")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        playing = [
            pool.submit(differences, brokers, told(HISTORIES[first::AT_ONCE]), "first")
            for first in range(min(AT_ONCE, len(HISTORIES)))
        ]
        suspects = sorted(seed for each in playing for seed in each.result())
    different = differences(brokers, suspects, "alone")
    figures.append(
        f"{len(HISTORIES)} histories from {HISTORIES[0]}, {len(suspects)} of them played twice"
        f" {suspects[:20]}, {len(different)} different"
    )
    numbers = ",".join(map(str, different))
    assert not different, (
        f"to repeat them: ODRADEK_HISTORY={numbers} python -m pytest tests/oracle/transactions\n"
        + "\n".join(f"history {number}: {text}" for number, text in different.items())
    )
    assert len(suspects) <= max(5, FIRST_LOOK_SHARE_MAX * len(HISTORIES)), suspects
