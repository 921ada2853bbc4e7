"""Workers that run tasks of an application are killed and stopped: each word counts once.

The test takes the place of Spark's JVM and of the driver, so that hundreds of faults take minutes. It gives
tasks to any worker. If a worker is killed, it gives the task to another one, or begins a new run, which
repeats the micro-batch. A worker that is stopped goes on when the new run has its tasks.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from tests.streams_api.test_kills import BAD, BROKER, PARTITIONS, PROGRAM, Output, totals_of_core
from tests.support.child import PYTHON, Child
from tests.support.run_seed import run_seed

from odradek.client import Producer
from odradek.streams.loading import load
from odradek.streams.on_spark.application import Result
from odradek.streams.on_spark.runner import tasks_of
from odradek.streams.on_spark.settings import spark_worker_settings
from odradek.streams.on_spark.shipping import pack
from odradek.streams.on_spark.source import TaskReader, Work
from odradek.streams.process.settings import ADMIN
from odradek.streams.process.topics import prepare
from odradek.testing import Broker

FAULTS = int(os.environ.get("ODRADEK_STREAMS_WORKER_FAULTS", "3"))
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300 + 20 * FAULTS)]
LINES = 200
WORKERS = 2
PATIENCE_SECONDS = 120
STUCK_SECONDS = 1
"""After so long a run whose worker was stopped is given up."""


class Lost(Exception):
    """A worker has ended, or its task has failed."""


class Worker:
    """A process that runs one task at a time, as Spark's workers do."""

    def __init__(self):
        self.child = Child([*PYTHON, "tests.spark.streams_worker"], talks=True, hears=True)
        self._lock = threading.Lock()

    def ask(self, request):
        with self._lock:
            try:
                pickle.dump(request, self.child.stdin)
                self.child.stdin.flush()
                answer = pickle.load(self.child.stdout)
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                raise Lost(str(error)) from None
        if not isinstance(answer, Result):
            raise Lost(answer)
        return answer


class Player:
    """Spark and the driver."""

    def __init__(self, app, servers, draw):
        self.topology = app.topology()
        self.settings = spark_worker_settings({}, servers, "earliest", app.task_settings())
        self.layout, _ = prepare(self.topology, self.settings)
        self.draw = draw
        self.all = []
        self.workers = [self.worker() for _ in range(WORKERS)]
        self.stopped = []
        self.done = {}
        """The checkpoint: the offsets of the last micro-batch that has ended."""
        self.planned = None
        """Those of a micro-batch that a run has begun."""
        self.pool = ThreadPoolExecutor(16)
        self.begin()

    def worker(self):
        made = Worker()
        self.all.append(made)
        return made

    def begin(self):
        """Begin a new run."""
        self.shipped = pack(self.topology, self.settings)
        self.owners = {}
        work = Work(self.shipped.run_id, tasks_of(self.layout), self.settings.clients[ADMIN])
        self.reader = TaskReader(work)

    def batch(self, fault=None):
        """Run a micro-batch, or repeat the one that a run has not completed."""
        end = self.planned or self.reader.latestOffset(self.done, None)
        self.planned = end
        timer = None if fault is None else threading.Timer(self.draw.random() * 0.4, fault)
        if timer is not None:
            timer.start()
        splits = self.reader.partitions(self.done, end)
        futures = [
            self.pool.submit(self._run, each, self.draw.choice(self.workers)) for each in splits
        ]
        wait(futures, STUCK_SECONDS if fault == self.stop else PATIENCE_SECONDS)
        if timer is not None:
            timer.join()
        if self.stopped or any(each.exception() for each in futures):
            self._recover()
            return
        self.owners |= {
            (split.subtopology, split.partition): each.result().worker
            for split, each in zip(splits, futures, strict=True)
        }
        self.done, self.planned = end, None

    def _run(self, split, worker):
        """Run a task. If its worker is lost, another one may get it, as on a cluster."""
        request = self.shipped, (split.subtopology, split.partition), split.ends, dict(self.owners)
        try:
            return worker.ask(request)
        except Lost:
            others = [each for each in self.workers if each is not worker and each.child.runs]
            if not others or split.partition % 2:
                raise
            return others[0].ask(request)

    def _recover(self):
        """Begin a new run. If a worker was stopped, all others are new, and it goes on after them."""
        stopped, self.stopped = self.stopped, []
        for each in self.workers:
            if stopped and each not in stopped:
                each.child.kill()
        self.workers = [each for each in self.workers if each.child.runs and each not in stopped]
        self.workers += [self.worker() for _ in range(WORKERS - len(self.workers))]
        self.reader.stop()
        self.begin()
        if stopped:
            self.batch()
            for each in stopped:
                each.child.signal(signal.SIGCONT)
            time.sleep(0.5)
            for each in stopped:
                each.child.kill()

    def kill(self):
        self.draw.choice(self.workers).child.kill()

    def stop(self):
        victim = self.draw.choice(self.workers)
        victim.child.signal(signal.SIGSTOP)
        self.stopped.append(victim)

    def close(self):
        for each in self.all:
            each.child.kill()
        self.pool.shutdown()
        for each in self.all:
            each.child.close()
        self.reader.stop()


@pytest.mark.slow("starts of worker processes")
def test_words_are_counted_once_although_workers_are_killed_and_stopped(tmp_path):
    draw = random.Random(run_seed())
    program = tmp_path / "words.py"
    program.write_text(PROGRAM.replace("sys.argv[1]", '"localhost:1"'), encoding="utf-8")
    lines = []
    with Broker(settings=BROKER) as broker:
        broker.create_topics({"lines": 2, "word-counts": PARTITIONS, "failed": 1})
        output = Output(broker.bootstrap_servers)
        player = Player(load(program), broker.bootstrap_servers, draw)
        with output.consumer, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            try:
                player.batch()
                for _ in range(FAULTS):
                    for _ in range(LINES):
                        bad = b"\xff%d" % len(lines)
                        some = " ".join(draw.choices("abcdefgh", k=3)).encode()
                        lines.append(bad if draw.random() < BAD else some)
                        producer.send("lines", lines[-1])
                    producer.flush()
                    player.batch(draw.choice((player.kill, player.kill, player.stop)))
                    output.read()
                wanted = totals_of_core(lines)
                letters = sorted(each for each in lines if each[:1] == b"\xff")
                deadline = time.monotonic() + PATIENCE_SECONDS
                while output.totals != wanted or len(output.letters) < len(letters):
                    assert time.monotonic() < deadline
                    player.batch()
                    output.read()
                assert sorted(output.letters) == letters
            finally:
                player.close()
