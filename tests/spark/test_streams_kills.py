"""Drivers and workers of an application on Spark are killed while they work: each word counts once."""

from __future__ import annotations

import os
import random
import time

import psutil
import pytest
from tests.streams_api.test_kills import BAD, BROKER, PARTITIONS, PROGRAM, Output, totals_of_core
from tests.support.child import ODRADEK, Child
from tests.support.run_seed import run_seed

from odradek.client import Producer
from odradek.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3600)]
KILLS = int(os.environ.get("ODRADEK_STREAMS_SPARK_KILLS", "10"))
PATIENCE_SECONDS = 240
LINES = 500


def workers_of(driver):
    """The processes of Spark's Python workers."""
    found = psutil.Process(driver.pid).children(recursive=True)
    return [each for each in found if "pyspark.daemon" in " ".join(each.cmdline())]


def kill(driver, draw):
    """Kill the driver or one of its Python processes. In both cases the query ends."""
    victims = workers_of(driver) if draw.random() < 0.3 else []
    if victims:
        draw.choice(victims).kill()
        time.sleep(draw.random())
    driver.kill()


def test_words_are_counted_once_although_drivers_and_workers_are_killed(tmp_path):
    draw = random.Random(run_seed())
    program = tmp_path / "words.py"
    program.write_text(PROGRAM, encoding="utf-8")
    lines = []
    with Broker(settings=BROKER) as broker:
        broker.create_topics({"lines": PARTITIONS, "word-counts": PARTITIONS, "failed": 1})
        bootstrap = broker.bootstrap_servers
        output = Output(bootstrap)
        run = (*ODRADEK, "streams", "run", program, "--on", "spark", "--master", "local[2]")
        words = [*run, "-b", bootstrap, "--checkpoint", tmp_path / "checkpoint"]

        def start():
            return Child(words, output=tmp_path / "driver.log")

        def read_until(is_enough):
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not is_enough():
                output.read()
                assert time.monotonic() < deadline, driver.last_words

        driver = start()
        try:
            with output.consumer, Producer(bootstrap_servers=bootstrap) as producer:
                for turn in range(KILLS + 1):
                    for _ in range(LINES):
                        bad = b"\xff%d" % len(lines)
                        some = " ".join(draw.choices("abcdefgh", k=3)).encode()
                        lines.append(bad if draw.random() < BAD else some)
                        producer.send("lines", lines[-1])
                    producer.flush()
                    if turn == KILLS:
                        break
                    before = sum(output.totals.values())
                    read_until(lambda before=before: sum(output.totals.values()) > before)
                    time.sleep(draw.random())
                    kill(driver, draw)
                    driver.close()
                    driver = start()
                wanted = totals_of_core(lines)
                letters = sorted(each for each in lines if each[:1] == b"\xff")
                read_until(lambda: output.totals == wanted and len(output.letters) >= len(letters))
                assert sorted(output.letters) == letters
            assert driver.terminate(PATIENCE_SECONDS) == 0, driver.last_words
        finally:
            driver.close()
