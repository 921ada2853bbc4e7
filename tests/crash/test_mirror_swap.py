"""Apache Kafka's MirrorMaker 2 and Odradek's go on with each other's flows, in turns.

Each process stops with SIGTERM, so the next one repeats nothing. In the last turns a process is killed:
then records may come twice, but none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compat.lab import java
from compat.lab.maven import CONNECT, KAFKA_VERSION, jars
from compat.lab.toolchain import Missing
from tests.connect.mirror_lab import commit, committed, place, produce, records_of, settings
from tests.support.child import ODRADEK, Child
from tests.support.waiting import until

from odradek.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.long]

PATIENCE_SECONDS = 300
COUNT = 400
"""How many records are produced in a turn, to one partition."""
GROUP = "billing"


@contextmanager
def mirror(kind: str, file: Path, *, is_killed: bool = False) -> Iterator[None]:
    """Run a process with the same file: `java` or `odradek`."""
    if kind == "java":
        try:
            main = "org.apache.kafka.connect.mirror.MirrorMaker"
            command = java.command(
                main, jars(f"connect-{KAFKA_VERSION}", CONNECT), options=["-Xmx256m"]
            )
        except Missing as reason:
            pytest.skip(str(reason))
        command = [*command, str(file)]
    else:
        command = [*ODRADEK, "connect", "mirror", str(file)]
    with Child(command, output=file.with_suffix(".log")) as child:
        yield
        child.check()
        if not is_killed:
            child.terminate()


@pytest.mark.timeout(900)
def test_each_goes_on_where_the_other_stopped(tmp_path: Path, figures: list[str]) -> None:
    file = tmp_path / "mm2.properties"
    turns = ["java", "odradek", "java", "odradek"]
    with Broker(topics={"orders": 1}) as source, Broker() as target:
        text = settings(source.bootstrap_servers, target.bootstrap_servers)
        # Otherwise Java reads all its jars for each flow.
        text |= {f"{prefix}plugin.discovery": "service_load" for prefix in ("", "eu.", "us.")}
        file.write_text("".join(f"{name}={value}\n" for name, value in text.items()))
        for turn, kind in enumerate(turns):
            take_turn(source, target, file, kind, COUNT * turn)
        assert records_of(target, "eu.orders") == records_of(source, "orders")
        kept = [each[:2] for each in records_of(target, "mm2-configs.eu.internal")]
        written = [key for key, _ in kept if key == b"connector-MirrorSourceConnector"]
        assert len(written) == 1, "the configuration is the same for both, so it is written once"
        sent = COUNT * len(turns)
        for kind in ("odradek", "java", "odradek"):
            take_turn(source, target, file, kind, sent, is_killed=True)
            sent += COUNT
        take_turn(source, target, file, "java", sent)
        copies = records_of(target, "eu.orders")
        assert set(records_of(source, "orders")) == set(copies), "nothing is lost"
        twice = len(copies) - len(set(copies))
        figures.append(f"{len(turns)} turns: each record once; 3 kills: {twice} records twice")


def take_turn(
    source: Broker,
    target: Broker,
    file: Path,
    kind: str,
    sent: int,
    *,
    is_killed: bool = False,
) -> None:
    """Copy some more records with one of both, and let a group follow."""
    end = sent + COUNT
    with mirror(kind, file, is_killed=is_killed):
        produce(source, "orders", sent, COUNT, 1)
        wanted = set(records_of(source, "orders"))
        until(
            lambda: wanted <= set(records_of(target, "eu.orders")),
            f"{kind} copies all records",
            PATIENCE_SECONDS,
        )
        commit(source, GROUP, {place("orders"): end})
        at = len(records_of(target, "eu.orders"))
        until(
            lambda: committed(target, GROUP).get(place("eu.orders")) == at,
            f"{kind} translates the offset of the group: after the last record",
            PATIENCE_SECONDS,
        )
