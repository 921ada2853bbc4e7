"""Apache Kafka and Odradek give the same responses to random histories of Streams groups.

`ODRADEK_STREAMS_HISTORIES=2000 pytest -m cluster tests/oracle/streams_histories` runs 2000 histories;
ODRADEK_HISTORY selects histories by number.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from tests.oracle.streams_histories.generator import history
from tests.oracle.streams_histories.lab import (
    SETTINGS,
    both,
    create_topics,
    wait_for_coordinator,
)
from tests.oracle.streams_histories.player import Player
from tests.support.run_seed import numbers_of_histories

HISTORIES = numbers_of_histories("ODRADEK_STREAMS_HISTORIES", 30)
AT_ONCE = 4
PER_BROKER = 400
"""New brokers begin after so many histories: Apache Kafka keeps a file of each topic open."""
pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(600 + 5 * len(HISTORIES)),
]


def compare(brokers: list[Broker], number: int) -> list[str]:
    """Run a history on both brokers. Return the first difference and what was before it."""

    def play(broker: Broker) -> list[str]:
        return Player(broker.port, f"streams-{number}").play(history(number))

    with ThreadPoolExecutor(len(brokers)) as pool:
        kafka, ours = pool.map(play, brokers)
    difference = [f"history {number}"]
    for theirs, mine in zip(kafka, ours, strict=True):
        is_same = theirs == mine or _unconfigured(theirs) == _unconfigured(mine)
        difference.append(f"    {theirs}" if is_same else f"  - {theirs}\n  + {mine}")
        if not is_same:
            return difference
    return []


def _unconfigured(line: str) -> str:
    """Return a description without what configuring a topology changes in it.

    Apache Kafka describes the group as of its last record. If a heartbeat without a record has
    configured the topology since then, the numbers of partitions and the source topics, which may be
    repeated, are still those that the member has sent.
    """
    if not line.startswith("describe "):
        return line
    line = re.sub(r"partitions=\d+", "", line)
    return re.sub(
        r"source_topics=\[(.*?)\]", lambda found: str(sorted({*found[1].split(", ")})), line
    )


@pytest.mark.slow("the histories wait for sessions of real length in both brokers")
def test_the_same_responses(tmp_path_factory: pytest.TempPathFactory, figures: list[str]) -> None:
    differences: list[list[str]] = []
    for first in range(0, len(HISTORIES), PER_BROKER):
        some = HISTORIES[first : first + PER_BROKER]
        with both(tmp_path_factory) as brokers, ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(lambda number, pair=brokers: compare(pair, number), some)
            differences += [each for each in found if each]
    figures.append(f"{len(HISTORIES)} histories, {len(differences)} different")
    shown = "\n".join("\n".join(each[:1] + each[-12:]) for each in differences[:5])
    assert not differences, f"{len(differences)} of {len(HISTORIES)} differ\n{shown}"


PLAN = {
    "subtopologies": [
        {"id": "0", "sources": ["s3"], "sinks": ["-words"]},
        {"id": "1", "repartition": {"-words": 0}, "changelogs": ["-counts"]},
    ]
}
JOINING = {"plan": PLAN, "epoch": 0, "rebalance_timeout_ms": 60_000, "process_id": "p"}
MOVING = [
    ("beat", {"member": "m1", **JOINING}),
    ("beat", {"member": "m1"}),
    ("beat", {"member": "m2", **JOINING}),
    *(("beat", {"member": each}) for each in ("m1", "m1", "m2", "m1", "m2")),
]


@pytest.mark.parametrize("is_ours_first", [True, False])
@pytest.mark.slow("Apache Kafka stops and starts")
def test_a_group_moves_with_its_data_directory(tmp_path: Path, is_ours_first: bool) -> None:
    """The group that one broker has written is what the other one reads."""
    kinds: list[type[Broker]] = [NextApacheKafka, OdradekNode]
    seen: list[list[str]] = []
    looking = [("beat", {"member": "m1", "owned": "unknown"}), ("describe", {})]
    try:
        for kind in sorted(kinds, key=lambda each: (each is OdradekNode) != is_ours_first):
            with kind(settings=SETTINGS, directory=tmp_path) as broker:
                if not seen:
                    create_topics(broker)
                wait_for_coordinator(broker)
                player = Player(broker.port, "group")
                if seen:
                    player.know({"m1": 4})
                steps = [*([] if seen else MOVING), *looking]
                seen.append(player.play(steps)[-2:])
    except Missing as reason:
        pytest.skip(str(reason))
    # After a start, Apache Kafka shows the computed numbers of partitions only when it has written.
    before, after = ([re.sub("partitions=[0-9]+", "partitions", line) for line in e] for e in seen)
    assert "Stable" in before[1]
    assert before == after
