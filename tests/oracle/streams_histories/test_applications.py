"""Kafka Streams 4.4 on Odradek, on Apache Kafka 4.4, and on clusters of both.

The application has static members, standby tasks and a described topology.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.cluster import ODRADEK, QUICK_SETTINGS, Cluster, Member
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from tests.crash.next_loop import KINDS, NEXT
from tests.oracle.streams_histories.word_count import (
    SETTINGS,
    Application,
    Seen,
    create_topics,
    is_whole,
    play,
    tasks,
)

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1500)]
OFFSETS = "__consumer_offsets"


def on(kind: type[NextApacheKafka | OdradekNode], path: Path) -> list[Seen]:
    with kind(settings=SETTINGS, directory=path / "node") as broker:
        create_topics(broker.port)
        application = Application(broker.bootstrap, path)
        try:
            return list(play(application))
        finally:
            application.close()


@pytest.mark.slow("six starts of Java")
def test_a_static_member_comes_back_as_on_apache_kafka(tmp_path: Path) -> None:
    try:
        ours = on(OdradekNode, tmp_path / "ours")
        theirs = on(NextApacheKafka, tmp_path / "theirs")
    except Missing as reason:
        pytest.skip(str(reason))
    assert ours == theirs
    assert ours[0].description is not None
    assert "counted" in ours[0].description


@pytest.mark.parametrize("other", [ODRADEK, NEXT])
@pytest.mark.slow("three nodes and two instances start, and coordinators are killed")
def test_coordinators_of_both_programs(tmp_path: Path, figures: list[str], other: str) -> None:
    """The group moves from coordinator to coordinator: no task moves, and every word is counted once."""
    members = {1: Member(ODRADEK), 2: Member(NEXT), 3: Member(other)}
    settings = QUICK_SETTINGS | SETTINGS
    try:
        nodes = Cluster(tmp_path / "nodes", members, settings, KINDS)
        nodes.start()
        create_topics(nodes.nodes[1].port, 3)
        application = Application(nodes.bootstrap, tmp_path)
    except Missing as reason:
        pytest.skip(str(reason))
    described: set[str] = set()
    try:
        application.start("one")
        application.start("two")
        application.write()
        application.until_counted()
        before = application.until(is_whole)
        for leader in (1, 2, 3):
            others = [each for each in members if each != leader]
            nodes.reassign(OFFSETS, {0: (leader, *others)})
            nodes.elect_preferred_leaders(OFFSETS, [0])
            moved = application.until(is_whole)
            if members[leader].program == ODRADEK:
                moved = application.until(lambda group: group.topology_description is not None)
                described.add(repr(moved.topology_description))
            nodes.nodes[leader].kill()
            application.write()
            application.until_counted()
            for after in (moved, application.until(is_whole)):
                assert tasks(after) == tasks(before)
                assert after.group_epoch == before.group_epoch
                assert repr(after.topology) == repr(before.topology)
            nodes.start(leader)
            nodes.wait_until_in_sync((OFFSETS, "lines", "counted", "__transaction_state"))
        assert len(described) == 1
        figures.append(f"{application.written} times all lines, three coordinators killed")
    finally:
        application.close()
        nodes.close()
