"""Apache Kafka and Odradek give the same responses to random transactional requests.

By default there are 20 histories. `ODRADEK_TRANSACTION_HISTORIES=2000` runs 2000; ODRADEK_HISTORY
selects histories by number.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from tests.oracle.transactions.player import PARTITIONS, Answer, Player, Step
from tests.oracle.transactions.requests import REQUESTS, Histories
from tests.support import progress
from tests.support.run_seed import numbers_of_histories

HISTORIES = numbers_of_histories("ODRADEK_TRANSACTION_HISTORIES", 20)
FIRST_RUN_DIFFERENT_MAX = 0.5
"""Maximum fraction of histories that may differ in the first run (but always at least five).

On a busy machine Apache Kafka puts more verifications into one request.
"""

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "log.retention.ms": "-1",  # else the old records are removed 30 s after the start
}
EXTRA_REQUESTS = 4
"""Number of fixed requests in a history: at its start, and at its end."""

AT_ONCE = 6
SERVED_SECONDS_MAX = 20.0

pytestmark = pytest.mark.java


@pytest.fixture
def brokers() -> Iterator[tuple[str, str]]:
    """The addresses of Odradek and Apache Kafka."""
    try:
        apache = NextApacheKafka(settings=SETTINGS)
        with OdradekNode(settings=SETTINGS) as node, apache:
            yield node.bootstrap, apache.bootstrap
    except Missing as reason:
        pytest.skip(str(reason))


def differences(brokers: tuple[str, str], seeds: Iterable[int], run: str) -> dict[int, str]:
    """Run histories one after the other. Return the differences by seed."""
    found = {}
    players: list[Player] = []
    for seed in seeds:
        players = players or [_player(each, f"histories-{run}-{seed}") for each in brokers]
        difference = _difference(players, Histories(seed, f"{run}-{seed}"))
        if difference is not None:
            found[seed] = difference
            _close(players)  # an unfinished history would affect the next one
            players = []
    _close(players)
    return found


def _player(bootstrap: str, topic: str) -> Player:
    """Create a player, and wait until its topic is served.

    Apache Kafka responds to CreateTopics before it serves the topic.
    """
    player = Player(bootstrap, topic)
    with WireClient(int(bootstrap.rpartition(":")[2])) as wire:
        deadline = time.monotonic() + SERVED_SECONDS_MAX
        while wire.serving(topic, PARTITIONS) < PARTITIONS:
            assert time.monotonic() < deadline, f"{topic} is not served"
    return player


def _difference(players: list[Player], histories: Histories) -> str | None:
    trace: list[tuple[Step, Answer]] = []
    for step in histories.steps():
        answer, expected = (player.ask(step) for player in players)
        if answer != expected:
            return f"{step}: {answer}, not {expected}, after {trace[-8:]}"
        trace.append((step, answer))
        histories.learn(step, answer)
    assert len(trace) == REQUESTS + EXTRA_REQUESTS
    return None


def _close(players: list[Player]) -> None:
    for player in players:
        player.close()


@pytest.mark.timeout(120 + 2 * len(HISTORIES))
def test_the_same_responses(brokers: tuple[str, str], figures: list[str]) -> None:
    """Several histories run at the same time. Those with a difference run once more alone.

    The reason: Apache Kafka may verify the transactions of several producers in one request, with
    the version of the first producer. Then clients that do not know TRANSACTION_ABORTABLE get this
    error, or other clients get INVALID_TXN_STATE.
    """
    played = itertools.count(1)

    def reported(seeds: Iterable[int]) -> Iterator[int]:
        for seed in seeds:
            yield seed
            progress.report(next(played), len(HISTORIES), "histories")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        playing = [
            pool.submit(differences, brokers, reported(HISTORIES[first::AT_ONCE]), "first")
            for first in range(min(AT_ONCE, len(HISTORIES)))
        ]
        suspects = sorted(seed for each in playing for seed in each.result())
    different = differences(brokers, suspects, "alone")
    figures.append(
        f"{len(HISTORIES)} histories from {HISTORIES[0]}, {len(suspects)} of them run twice"
        f" {suspects[:20]}, {len(different)} different"
    )
    numbers = ",".join(map(str, different))
    assert not different, (
        f"to repeat them: ODRADEK_HISTORY={numbers} python -m pytest tests/oracle/transactions\n"
        + "\n".join(f"history {number}: {text}" for number, text in different.items())
    )
    assert len(suspects) <= max(5, FIRST_RUN_DIFFERENT_MAX * len(HISTORIES)), suspects
