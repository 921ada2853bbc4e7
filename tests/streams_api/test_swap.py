"""Kafka Streams in Java and ours go on with each other's changelogs and offsets, also after a kill.

Both run the same word count, and the same windowed join of two streams, in turns. At the end each record
counts once.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

import pytest
from compat.lab.java import command, compiled
from compat.lab.maven import KAFKA_VERSION, jars, kafka_jars
from compat.lab.toolchain import Missing
from tests.streams_api.oracle import ARTIFACTS
from tests.support.child import Child
from tests.support.run_seed import run_seed
from tests.tidy.sources import ROOT

from odradek.client import Admin, Consumer, Producer
from odradek.streams import App, TestDriver
from odradek.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(1800)]
PATIENCE_SECONDS = 240
CHUNK = 400
BROKER = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
PROGRAM = """
import sys
from odradek.streams import App, JoinWindow

which = sys.argv[1]
app = App(which, sys.argv[2])
if which == "words":
    (
        app.stream("lines")
        .flat_map_values(lambda line: line.split(" "))
        .group_by(lambda word: word)
        .count(store="counts")
        .to_stream()
        .to("out", value=int)
    )
else:
    (
        app.stream("views")
        .left_join(
            app.stream("clicks"),
            lambda view, click: f"{view}/{'null' if click is None else click}",
            JoinWindow(before="10s", after="10s", grace="1h"),
        )
        .to("out")
    )
if __name__ == "__main__":
    app.run(
        processing_guarantee="exactly_once_v2",
        commit_interval_ms=50,
        session_timeout_ms=2000,
        heartbeat_interval_ms=500,
        transaction_timeout_ms=3000,
    )
"""
TURNS = {
    "java first": ("java killed", "python killed", "java stopped", "python"),
    "python first": ("python killed", "java killed", "python stopped", "java"),
}
HOUR_MS = 3_600_000


def app_of(which) -> App:
    """The application of ours, in this process."""
    before, sys.argv = sys.argv, ["swap.py", which, "localhost:1"]
    program = {"__name__": "swap"}
    try:
        exec(PROGRAM, program)
    finally:
        sys.argv = before
    return program["app"]


def hours_ago(hours):
    """Records of 1970 would be deleted, and those of tomorrow refused."""
    return time.time_ns() // 1_000_000 - hours * HOUR_MS


class Words:
    """Lines of words, and their totals."""

    topics = ("lines",)

    def __init__(self, draw):
        self.draw = draw
        self.said = []
        self.time = hours_ago(1)

    def chunk(self):
        for _ in range(CHUNK):
            line = " ".join(self.draw.choices("abcdefghij", k=3))
            self.said.append(line)
            yield "lines", None, None, line, self.time

    def end(self):
        return ()

    def wanted(self):
        with TestDriver(app_of("words")) as driver:
            for line in self.said:
                driver.topic("lines").pipe(None, line, at=self.time)
            return driver.topic("out").read_values()

    def found(self, records):
        """The totals. One that does not grow is an error."""
        totals = {}
        for key, value in records:
            total = int.from_bytes(value, "big")
            assert total > totals.get(key.decode(), 0), "a total is written again"
            totals[key.decode()] = total
        return totals


class Joins:
    """Views and clicks of few users, a second apart, and their pairs; some views have no click."""

    topics = ("views", "clicks")

    def __init__(self, draw):
        self.draw = draw
        self.said = []
        self.time = hours_ago(20)
        self.last = hours_ago(10)
        """A time at which all windows are closed."""

    def chunk(self):
        for _ in range(CHUNK // 2):
            self.time += self.draw.randrange(2000)
            key = self.draw.choice("abcdefghij")
            topic = self.draw.choice(("views", "views", "clicks"))
            yield self._record(topic, key, self.time)
        self.time += 30_000
        for partition in range(
            2
        ):  # without a click: so the last one to run knows that there are such
            self.said.append(("views", f"lonely-{partition}", f"v{self.time}", self.time))
            yield "views", partition, f"lonely-{partition}", f"v{self.time}", self.time
        self.time += 30_000

    def _record(self, topic, key, at):
        value = f"{topic[0]}{len(self.said)}"
        self.said.append((topic, key, value, at))
        return topic, None, key, value, at

    def end(self):
        """Two records for each partition that close all windows, more than a second apart."""
        for number in range(2):
            for partition in range(2):
                yield "views", partition, "last", f"last-{number}", self.last + number
            time.sleep(3)

    def wanted(self):
        with TestDriver(app_of("joins")) as driver:
            for topic, key, value, at in self.said:
                driver.topic(topic).pipe(key, value, at=at)
            driver.topic("views").pipe("last", "last-0", at=self.last)
            driver.advance("2s")
            driver.topic("views").pipe("last", "last-1", at=self.last + 1)
            return Counter((key, value) for key, value, _ in driver.topic("out").read())

    def found(self, records):
        return Counter((key.decode(), value.decode()) for key, value in records)


class Lab:
    """A broker, and one of both applications at a time."""

    def __init__(self, broker, which, directory):
        self.servers = broker.bootstrap_servers
        self.which = which
        self.directory = directory
        found = jars(f"kafka-streams-test-utils-{KAFKA_VERSION}", ARTIFACTS)
        classes = compiled([*found, *kafka_jars()], ROOT / "tests" / "streams_api" / "swap")
        options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx400m")
        java = command("Swap", found, classes, options=options)
        program = directory / "swap.py"
        program.write_text(PROGRAM, encoding="utf-8")
        self.commands = {
            "java": [*java, self.servers, which, directory / "state"],
            "python": [sys.executable, program, which, self.servers],
        }
        self.records = []
        self.consumer = Consumer(bootstrap_servers=self.servers, isolation_level="read_committed")
        self.consumer.assign([("out", 0, 0), ("out", 1, 0)])

    def start(self, kind):
        return Child(self.commands[kind], output=self.directory / f"{kind}.log")

    def say(self, records):
        with Producer(bootstrap_servers=self.servers) as producer:
            for topic, partition, key, value, at in records:
                producer.send(
                    topic,
                    value.encode(),
                    key=None if key is None else key.encode(),
                    partition=partition,
                    timestamp=at,
                )
                producer.poll()

    def read(self, child, is_enough):
        """Read the output until there is enough of it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_enough():
            child.check()
            assert time.monotonic() < deadline, child.last_words
            self.records += [(each.key, each.value) for each in self.consumer.poll(0.1) or ()]

    def wait_for_the_end_of(self, child):
        """Wait until the group has noticed that a process is gone, and read what it has written."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with Admin(bootstrap_servers=self.servers) as admin:
            while admin.describe_groups([self.which])[self.which].members:
                assert time.monotonic() < deadline, child.last_words
                time.sleep(0.1)
        self.drain()

    def drain(self):
        """Read all output that is there."""
        while (batch := self.consumer.poll(1)) is not None:
            self.records += [(each.key, each.value) for each in batch]

    def take_turn(self, child, spoken, pause):
        """Let a process work on a part."""
        self.say(spoken.chunk())
        before = len(self.records)
        self.read(child, lambda: len(self.records) > before)
        self.say(spoken.chunk())
        time.sleep(pause)


@pytest.mark.parametrize("order", TURNS)
@pytest.mark.parametrize("source", [Words, Joins])
def test_java_and_ours_take_turns(source, order, tmp_path):
    draw = random.Random(run_seed())
    spoken = source(draw)
    *turns, last = TURNS[order]
    with Broker(settings=BROKER) as broker:
        broker.create_topics({**dict.fromkeys(spoken.topics, 2), "out": 2})
        try:
            lab = Lab(broker, source.__name__.lower(), tmp_path)
        except Missing as reason:
            pytest.skip(str(reason))
        with lab.consumer:
            for turn in turns:
                kind, end = turn.split()
                with lab.start(kind) as child:
                    lab.take_turn(child, spoken, draw.random())
                    if end == "killed":
                        child.kill()
                    else:
                        assert child.terminate(PATIENCE_SECONDS) in (0, 143), child.last_words
                lab.wait_for_the_end_of(child)
            with lab.start(last) as child:
                lab.take_turn(child, spoken, 0)
                wanted = spoken.wanted()
                for record in spoken.end():
                    lab.say([record])
                lab.read(child, lambda: spoken.found(lab.records) == wanted)
                assert child.terminate(PATIENCE_SECONDS) in (0, 143), child.last_words
            lab.drain()
            assert spoken.found(lab.records) == wanted
