"""Kafka Streams 4.4 on Odradek and on Apache Kafka 4.4.

The application has static members, standby tasks and a described topology.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from tests.oracle.streams_histories.word_count import (
    SETTINGS,
    Application,
    Seen,
    create_topics,
    play,
)

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1500)]


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
