"""A run: a query copies a topic while its driver, its workers or a broker are killed.

The query copies `RECORDS` records in micro-batches. Its faults come from its seed (`plan`): each is
at a step of a micro-batch, or at a random time. A driver can also become a zombie: it waits at a
step, continues when another driver has taken over the query, and is killed later. The network
between Spark and brokers can be cut. At the end a read_committed consumer of another implementation
must find every record exactly once.

The runs share brokers and drivers (`Runs`), but each has its own topics and checkpoint.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.spark.faults.brokers import TRANSACTIONS, Brokers, Replicated, Single
from tests.spark.faults.drivers import (
    LOCAL,
    SILENCE_SECONDS,
    Driver,
    Drivers,
    has_archive,
    make_archive,
)
from tests.spark.faults.forks import ForkServer
from tests.spark.faults.job import RECORDS_PER_BATCH, Query
from tests.spark.faults.plan import (
    BROKER,
    CUT,
    DRIVER,
    EXACTLY_ONCE,
    EXECUTOR,
    RANDOM_TIME,
    TASK_STEPS,
    WORKER,
    ZOMBIE,
    Fault,
    Plan,
)
from tests.spark.faults.source import KILL_WORKER, WAIT
from tests.spark.faults.standalone import StandaloneCluster

from odradek.spark.transactional import PREFIX

PARTITIONS = 2
RECORDS = 5 * RECORDS_PER_BATCH
VALUE_BYTES_MAX = 200
CUT_SECONDS_MIN = 0.2
ZOMBIE_SECONDS = 30.0
"""A zombie whose query neither fails nor ends is killed after this time."""
POLL_SECONDS = 0.01

Record = tuple[bytes | None, bytes]


@dataclass
class Outcome:
    """What a run found."""

    seed: int
    faults: list[str] = field(default_factory=list)
    """The faults that happened. The query may end before a fault."""
    killed: list[str] = field(default_factory=list)
    """What the killed brokers led."""
    cuts: list[str] = field(default_factory=list)
    """What brokers led that Spark could not reach, and how the network was cut."""
    on_cluster: bool = False
    missing: int = 0
    doubled: int = 0
    seconds: float = 0.0


class Run:
    """One query with its faults."""

    def __init__(
        self, plan: Plan, brokers: Brokers, drivers: Drivers | None, directory: Path, guarantee: str
    ) -> None:
        directory.mkdir(parents=True)
        self._plan = plan
        self._brokers = brokers
        self._given_drivers = drivers
        self._guarantee = guarantee
        self._random = random.Random(plan.seed)
        self._faults = directory / "faults"
        self._source, self._target = f"source-{plan.seed}", f"target-{plan.seed}"
        self._checkpoint = str(directory / "checkpoint")
        self._starts = 0
        self._directory = directory
        self.outcome = Outcome(plan.seed, on_cluster=plan.on_cluster)

    def play(self) -> Outcome:
        """Run the query, its faults and the comparison."""
        self._faults.mkdir()
        records = self.produce()
        self._start()
        for fault in self._plan.faults:
            if self._driver.has_ended():
                break
            self._fault(fault)
        self._driver.wait_for_end()
        found = Counter(committed_records(self._brokers.bootstrap, self._target, PARTITIONS))
        wanted = set(records)
        assert found.keys() <= wanted, "records that were never written"
        self.outcome.missing = len(wanted - found.keys())
        self.outcome.doubled = sum(count - 1 for count in found.values())
        return self.outcome

    def query(self) -> Query:
        """Return the query, with a new file for its end."""
        self._starts += 1
        return Query(
            self._brokers.proxied if self._plan.has_cut else self._brokers.bootstrap,
            self._source,
            self._target,
            self._checkpoint,
            str(self._faults),
            self._plan.distribution,
            str(self._directory / f"done-{self._starts}"),
        )

    @property
    def _drivers(self) -> Drivers:
        assert self._given_drivers is not None
        return self._given_drivers

    @property
    def _driver(self) -> Driver:
        return self._drivers.current

    def _start(self) -> None:
        self._driver.start(self.query())

    # -- faults -----------------------------------------------------------------------------

    def _fault(self, fault: Fault) -> None:
        if fault.step == RANDOM_TIME:
            time.sleep(fault.wait_seconds)
            if self._driver.has_ended() or not self._at_random_time(fault):
                return
        else:
            action = KILL_WORKER if fault.kind == WORKER else WAIT
            if not self._reach(fault.step, action, fault.skips):
                return
            self._at_step(fault)
        self.outcome.faults.append(fault.name)

    def _at_random_time(self, fault: Fault) -> bool:
        """Let a fault happen now. Return False if it cannot."""
        if fault.kind == WORKER:
            return self._driver.kill_a_worker(self._random)
        if fault.kind == EXECUTOR:
            return kill_executor(self._driver.application_id, self._random)
        if fault.kind == ZOMBIE:
            self._driver.pause()
            self._take_over(self._driver.resume, "task-start")
        elif fault.kind == BROKER:
            self._kill_broker(fault.role)
            self._brokers.restore()
        elif fault.kind == CUT:
            self._cut(fault)
        else:
            self._new_driver()
        return True

    def _at_step(self, fault: Fault) -> None:
        """Let a fault happen while a process waits at the step."""
        if fault.kind == DRIVER:
            self._drivers.current.kill()
            self._settle(fault.step)
            self._new_driver()
        elif fault.kind == ZOMBIE:
            other = "commit-start" if fault.step != "commit-start" else "task-start"
            self._take_over(lambda: self._settle(fault.step), other)
        elif fault.kind == EXECUTOR:
            if fault.step in TASK_STEPS:
                pid = int((self._faults / f"reached-{fault.step}").read_text())
                executor_of(psutil.Process(pid)).kill()
            else:  # the driver waits, while executors do nothing
                kill_executor(self._driver.application_id, self._random)
            self._settle(fault.step)
        elif fault.kind == BROKER:
            self._kill_broker(fault.role)
            self._settle(fault.step)
            self._brokers.restore()
        elif fault.kind == CUT:
            self._cut(fault)

    @property
    def _transactional_id(self) -> str | None:
        return f"{PREFIX}{self._checkpoint}" if self._guarantee == EXACTLY_ONCE else None

    def _cut(self, fault: Fault) -> None:
        """Cut the network for some time. A process that waits at the step continues meanwhile."""
        where = self._brokers.cut(fault.role, self._target, self._transactional_id, fault.way)
        self.outcome.cuts.append(f"{fault.way} {where}")
        self._settle(fault.step)
        time.sleep(CUT_SECONDS_MIN + fault.wait_seconds)
        self._brokers.heal()

    def _kill_broker(self, role: str) -> None:
        if isinstance(self._brokers, Replicated):
            transactions = (TRANSACTIONS,) if self._has_topic(TRANSACTIONS) else ()
            self._brokers.wait_until_in_sync(self._source, self._target, *transactions)
        led = self._brokers.kill(role, self._target, self._transactional_id)
        self.outcome.killed.append(led)

    def _new_driver(self) -> None:
        self._drivers.replace().kill()
        self._start()

    def _take_over(self, wake_zombie, step: str) -> None:
        """Let another driver take over the query, and then its predecessor continue.

        The other driver is at the same micro-batch then, or has committed it.
        """
        zombie = self._drivers.replace()
        try:
            self._start()
            self._reach(step, WAIT, self._random.choice((0, PARTITIONS)))
            size = zombie.log.stat().st_size
            wake_zombie()
            deadline = time.monotonic() + ZOMBIE_SECONDS
            while zombie.log.stat().st_size == size and not zombie.is_done():
                if time.monotonic() > deadline:
                    break
                time.sleep(POLL_SECONDS)
        finally:
            self._settle(step)
            zombie.kill()

    def _reach(self, step: str, action: str, skips: int) -> bool:
        """Wait until the query reaches a step. Return False if it ends before."""
        armed, reached = self._faults / f"armed-{step}", self._faults / f"reached-{step}"
        reached.unlink(missing_ok=True)
        new = self._faults / "new"
        new.write_text(f"{action} {skips}")
        new.rename(armed)
        deadline = time.monotonic() + SILENCE_SECONDS
        while not reached.exists():
            if self._driver.has_ended():
                armed.unlink(missing_ok=True)
                return False
            words = self._driver.last_words
            assert time.monotonic() < deadline, f"{step} is not reached: {words()}"
            time.sleep(POLL_SECONDS)
        return True

    def _settle(self, step: str) -> None:
        (self._faults / f"reached-{step}").unlink(missing_ok=True)

    # -- the records ------------------------------------------------------------------------

    def _has_topic(self, name: str) -> bool:
        admin = AdminClient({"bootstrap.servers": self._brokers.bootstrap})
        return name in admin.list_topics(timeout=60).topics

    def produce(self) -> list[Record]:
        """Create the topics, and fill the source."""
        servers = {"bootstrap.servers": self._brokers.bootstrap}
        admin, replicas = AdminClient(servers), self._brokers.replicas
        names = (self._source, self._target)
        topics = [NewTopic(name, PARTITIONS, replicas) for name in names]
        for made in admin.create_topics(topics, operation_timeout=60).values():
            made.result(120)
        producer = Producer({**servers, "linger.ms": 5})
        records: list[Record] = []
        for number in range(RECORDS):
            key = None if number % 3 == 0 else str(number).encode()
            padding = self._random.randrange(VALUE_BYTES_MAX) * b"."
            records.append((key, b"%d%s" % (number, padding)))
            producer.produce(self._source, records[-1][1], key, partition=number % PARTITIONS)
        assert producer.flush(120) == 0
        return records


class Runs:
    """What consecutive runs share: brokers, drivers, and a standalone cluster if they need it."""

    def __init__(self, guarantee: str, *, apache: bool) -> None:
        self._guarantee = guarantee
        self._apache = apache
        self._temporary = tempfile.TemporaryDirectory(prefix="odradek-faults-")
        self._directory = Path(self._temporary.name)
        self._cluster: StandaloneCluster | None = None
        self._fork_server = ForkServer(self._directory / "forks")
        self._brokers: Brokers | None = None
        self._brokers_started = self._drivers_started = self._drivers_used_before = 0
        self._drivers: Drivers | None = None

    @property
    def drivers_used(self) -> int:
        """The number of drivers that have run a query."""
        now = self._drivers.used if self._drivers is not None else 0
        return self._drivers_used_before + now

    def __enter__(self) -> Self:
        self._fork_server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._close_shared()
        self._fork_server.__exit__()
        self._temporary.cleanup()

    def play(self, plan: Plan) -> Outcome:
        """Run one plan. After an error the next run begins with new drivers and brokers."""
        started = time.monotonic()
        try:
            outcome = self._run(plan).play()
        except BaseException:
            self._close_shared()
            raise
        outcome.seconds = round(time.monotonic() - started, 1)
        return outcome

    def _run(self, plan: Plan) -> Run:
        if self._brokers is not None and self._brokers.replicas != plan.brokers:
            self._brokers.close()
            self._brokers = None
        if self._drivers is not None and plan.on_cluster != (self._cluster is not None):
            self._close_drivers()
        if self._brokers is None:
            self._brokers_started += 1
            directory = self._directory / f"brokers-{self._brokers_started}"
            kind = Single if plan.brokers == 1 else Replicated
            self._brokers = kind(directory, apache=self._apache)
        if self._drivers is None:
            self._drivers = self._new_drivers(self._brokers, on_cluster=plan.on_cluster)
        directory = self._directory / f"run-{plan.seed}"
        return self._make(plan, self._brokers, self._drivers, directory, self._guarantee)

    def _make(self, *arguments: Any) -> Run:
        return Run(*arguments)

    def _new_drivers(self, brokers: Brokers, *, on_cluster: bool) -> Drivers:
        self._drivers_started += 1
        directory = self._directory / f"drivers-{self._drivers_started}"
        directory.mkdir()
        if not has_archive():
            nothing = Plan(0, brokers.replicas, on_cluster=False, distribution="tasks", faults=())
            first = Run(nothing, brokers, None, directory / "first", self._guarantee)
            first.produce()
            make_archive(directory, first.query(), self._guarantee, self._fork_server)
        if not on_cluster:
            return Drivers(directory, LOCAL, self._guarantee, self._fork_server)
        self._cluster = StandaloneCluster(directory)
        self._cluster.__enter__()
        # Executors are not among the processes that the fork server can be asked for.
        return Drivers(directory, self._cluster.master, self._guarantee, None)

    def _close_drivers(self) -> None:
        if self._drivers is not None:
            self._drivers_used_before += self._drivers.used
            self._drivers.close()
        if self._cluster is not None:
            self._cluster.__exit__()
        self._drivers = self._cluster = None

    def _close_shared(self) -> None:
        self._close_drivers()
        if self._brokers is not None:
            self._brokers.close()
        self._brokers = None


def executor_of(worker: psutil.Process) -> psutil.Process:
    """Return the executor that started a Python worker."""
    for parent in worker.parents():
        if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()):
            return parent
    raise AssertionError("the worker has no executor")


def kill_executor(application_id: str, choices: random.Random) -> bool:
    """Kill one of the executors of an application. Return False if there is none."""
    executors = [
        each
        for each in psutil.process_iter(["cmdline"])
        if "CoarseGrainedExecutorBackend" in " ".join(each.info["cmdline"] or ())
        and application_id in each.info["cmdline"]
    ]
    if not executors:
        return False
    choices.choice(executors).kill()
    return True


def committed(servers: str, topic: str, partitions: int) -> list[bytes]:
    """Return the values of a topic as a read_committed consumer finds them."""
    return [value for _, value in committed_records(servers, topic, partitions)]


def committed_records(servers: str, topic: str, partitions: int) -> list[Record]:
    """Return the keys and values of a topic as a read_committed consumer finds them."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "comparison",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    records, left = [], set(range(partitions))
    while left:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            records.append((message.key(), message.value()))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition())
        elif message.error().fatal() or not message.error().retriable():
            raise AssertionError(message.error())
    consumer.close()
    return records
