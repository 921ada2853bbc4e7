"""Processes of an application are killed and stopped while they work: each word counts once.

A process that is stopped for a while has lost its tasks and its transaction when it goes on. Some lines cannot be decoded. Each is written once to the topic of dead letters.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import pytest
from tests.support.child import Child
from tests.support.run_seed import run_seed

from odradek.client import Consumer, Producer
from odradek.core.streams.partition_group import Consumed
from odradek.streams import App, TestDriver
from odradek.testing import Broker

KILLS = int(os.environ.get("ODRADEK_STREAMS_KILLS", "3"))
"""The number of faults: all but one kill a process, the other stops it until it has lost its tasks."""
PATIENCE_SECONDS = 120
LINES = 500
BAD = 0.1
"""The share of lines that cannot be decoded."""
PARTITIONS = 4
SESSION_SECONDS = {"classic": 1, "streams": 3}
"""After so long without a heartbeat, a process has lost its tasks."""
BROKER = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.heartbeat.interval.ms": "100",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.session.timeout.ms": "3000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.num.standby.replicas": "1",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
PROGRAM = """
import sys
from odradek.streams import App

app = App("word-count", sys.argv[1], on_undecodable="skip", dead_letters="failed")
(
    app.stream("lines", value=str)
    .flat_map_values(lambda line: line.split())
    .group_by(lambda _, word: word)
    .count(store="counts")
    .to_stream()
    .to("word-counts")
)
if __name__ == "__main__":
    app.run(
        processing_guarantee="exactly_once_v2",
        commit_interval_ms=20,
        group_protocol=sys.argv[2],
        session_timeout_ms=1000,
        heartbeat_interval_ms=100,
        transaction_timeout_ms=int(sys.argv[3]) * 1000,
    )
"""


def totals_of_core(lines):
    """Return what the core counts."""
    program = {"__name__": "words"}
    sys_argv, sys.argv = sys.argv, ["words.py", "localhost:1", "classic", "1"]
    try:
        exec(PROGRAM, program)
    finally:
        sys.argv = sys_argv
    app = program["app"]
    assert isinstance(app, App)
    with TestDriver(app) as driver:
        for line in lines:
            driver.pipe("lines", Consumed(0, 0, None, line, ()))
        return driver.topic("word-counts").read_values()


class Output:
    """Reads the committed totals and dead letters. A total that does not grow is an error."""

    def __init__(self, bootstrap):
        self.totals = {}
        self.letters = []
        self.consumer = Consumer(
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self.consumer.assign(
            [("failed", 0, 0), *(("word-counts", each, 0) for each in range(PARTITIONS))],
        )

    def read(self):
        for record in self.consumer.poll(0.1) or ():
            if record.topic == "failed":
                self.letters.append(record.value)
                continue
            word, total = record.key.decode(), int.from_bytes(record.value, "big")
            assert total > self.totals.get(word, 0), "a total is written again"
            self.totals[word] = total


@pytest.mark.slow("processes start and are killed several times")
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_words_are_counted_once_although_processes_are_killed_and_stopped(tmp_path, protocol):
    draw = random.Random(run_seed())
    program = tmp_path / "words.py"
    program.write_text(PROGRAM, encoding="utf-8")
    lines = []
    with Broker(settings=BROKER) as broker:
        broker.create_topics({"lines": PARTITIONS, "word-counts": PARTITIONS, "failed": 1})
        bootstrap = broker.bootstrap_servers
        output = Output(bootstrap)
        processes = []

        def start():
            file = tmp_path / f"process-{len(processes)}"
            words = [sys.executable, program, bootstrap, protocol, str(SESSION_SECONDS[protocol])]
            processes.append(Child(words, output=file))
            return processes[-1]

        running = [start(), start()]
        stop = draw.randrange(KILLS)
        try:
            with output.consumer, Producer(bootstrap_servers=bootstrap) as producer:
                for turn in range(KILLS + 1):
                    for _ in range(LINES):
                        words = " ".join(draw.choices("abcdefgh", k=3)).encode()
                        bad = b"\xff%d" % len(lines)
                        lines.append(bad if draw.random() < BAD else words)
                        producer.send("lines", lines[-1])
                    producer.flush()
                    if turn == KILLS:
                        break
                    before = sum(output.totals.values())
                    deadline = time.monotonic() + PATIENCE_SECONDS
                    while sum(output.totals.values()) == before:
                        output.read()
                        assert time.monotonic() < deadline, [each.last_words for each in running]
                    time.sleep(draw.random() * 0.1)
                    victim = draw.randrange(2)
                    if turn == stop:
                        running[victim].signal(signal.SIGSTOP)
                        time.sleep(SESSION_SECONDS[protocol] * 1.2)
                        running[victim].signal(signal.SIGCONT)
                        continue
                    running[victim].kill()
                    running[victim] = start()
                wanted = totals_of_core(lines)
                letters = sorted(each for each in lines if each[:1] == b"\xff")
                deadline = time.monotonic() + PATIENCE_SECONDS
                while time.monotonic() < deadline and (
                    output.totals != wanted or len(output.letters) < len(letters)
                ):
                    output.read()
                assert output.totals == wanted, [each.last_words for each in running]
                assert sorted(output.letters) == letters
            codes = [each.terminate() for each in running]
            assert codes == [0, 0], [each.last_words for each in running]
        finally:
            for each in processes:
                each.close()
