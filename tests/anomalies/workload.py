"""Runs concurrent clients on servers with faults, and records their operations.

Each writer has a transactional producer and a read_committed consumer. Its transactions consist of
sends and polls. Some are aborted. In some the producer is killed, and a new producer uses the same
transactional id. Writers with a group subscribe to the topic, and commit offsets after the
transaction (tests/crash tests offsets in transactions). The other writers assign partitions and
sometimes seek back. There is one reader for each isolation level. At the end all records are read.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from itertools import count

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.anomalies.servers import KILL, PAUSE, Servers

from odradek.sim.operations import History, Moved, Operation, Outcome, Read, Send

TOPIC, GROUP = "events", "workers"
PARTITIONS = 3
WRITERS = 4
STEPS_MAX = 5
ABORTED_SHARE, CRASHED_SHARE, MOVED_SHARE = 0.15, 0.03, 0.05
CALL_SECONDS = 10.0
END_SECONDS = 60.0
TIMES = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}


class Workload:
    """The servers, their clients, and their history."""

    def __init__(self, seed: int, servers: Servers) -> None:
        self.history: History = []
        self.faults = {KILL: 0, PAUSE: 0}
        self._random = random.Random(seed)
        self._values = count(1)
        self._ended = threading.Event()
        self._failures: list[BaseException] = []
        self._servers = servers

    def run(self, seconds: float) -> None:
        """Run for `seconds`, and until a transaction is committed, with a fault every few seconds.

        Then read all records.
        """
        with self._servers:
            admin = AdminClient({"bootstrap.servers": self._servers.bootstrap, **TIMES})
            topic = NewTopic(
                TOPIC,
                PARTITIONS,
                self._servers.replication_factor,
                config=self._servers.topic_settings,
            )
            for made in admin.create_topics([topic]).values():
                made.result(30)
            clients: list[_Client] = [
                _Writer(self, f"writer-{number}", in_group=number % 2 == 1)
                for number in range(WRITERS)
            ]
            clients += [_Reader(self, f"{level}-reader", level) for level in ISOLATION_LEVELS]
            threads = [threading.Thread(target=self._guarded, args=(each.run,)) for each in clients]
            for thread in threads:
                thread.start()
            self._disturb(time.monotonic() + seconds)
            self._ended.set()
            for thread in threads:
                thread.join()
            assert not self._failures, self._failures
            self._read_all()

    def next_value(self) -> int:
        """Return an unused value."""
        return next(self._values)

    @property
    def goes_on(self) -> bool:
        """Whether the clients must continue."""
        return not self._ended.is_set()

    def settings(self, **more: object) -> dict[str, object]:
        """Return the settings of a client."""
        named = {key.replace("_", "."): value for key, value in more.items()}
        return {"bootstrap.servers": self._servers.bootstrap, **TIMES, **named}

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self._failures.append(error)
            raise

    def _disturb(self, deadline: float) -> None:
        while time.monotonic() < deadline or not self._has_committed():
            time.sleep(self._random.uniform(1.0, 2.5))
            kind = KILL if self._random.random() < 0.6 else PAUSE
            self.faults[kind] += 1
            self._servers.disturb(kind, self._random)

    def _has_committed(self) -> bool:
        return any(each.sends and each.outcome is Outcome.COMMITTED for each in self.history)

    def _read_all(self) -> None:
        """Initialize all transactional ids, so that no transaction is open, and read to the end."""
        for number in range(WRITERS):
            settings = self.settings(transactional_id=f"writer-{number}")
            Producer(settings).init_transactions(END_SECONDS)
        reader = _Reader(self, "last", "read_committed")
        reader.read_to_the_end()


class _Client:
    """A process of the history, with a consumer."""

    def __init__(self, workload: Workload, name: str, isolation: str, group: str) -> None:
        self.name = name
        self.workload = workload
        self.random = random.Random(f"{name} {workload.next_value()}")
        self._is_committed = isolation == "read_committed"
        self.operation = self.new_operation()
        self.consumer = Consumer(
            workload.settings(
                group_id=group,
                isolation_level=isolation,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                session_timeout_ms=6000,
            )
        )

    def run(self) -> None:
        raise NotImplementedError

    def new_operation(self) -> Operation:
        return Operation(self.name, is_committed_reader=self._is_committed)

    def moved(self, *_: object) -> None:
        self.operation.steps.append(Moved())

    def assign(self) -> None:
        """Assign all or some partitions, from the beginning or from an offset near the end."""
        self.moved()
        chosen = self.random.sample(range(PARTITIONS), self.random.randint(1, PARTITIONS))
        places = []
        for index in chosen:
            _, end = self.consumer.get_watermark_offsets(TopicPartition(TOPIC, index), CALL_SECONDS)
            places.append(TopicPartition(TOPIC, index, max(0, end - self.random.randrange(500))))
        self.consumer.assign(places)

    def poll(self, seconds: float = 0.05) -> int:
        """Poll, and record the records. Return their number."""
        reads = []
        for message in self.consumer.consume(100, seconds):
            offset, partition, value = message.offset(), message.partition(), message.value()
            if message.error() is None and value is not None:
                assert offset is not None
                assert partition is not None
                reads.append(Read(partition, offset, int(value)))
        self.operation.steps += reads
        return len(reads)

    def finish(self) -> None:
        """Record that the operation has ended."""
        self.workload.history.append(self.operation)
        self.operation = self.new_operation()


class _Reader(_Client):
    """Reads all partitions from the beginning."""

    def __init__(self, workload: Workload, name: str, isolation: str) -> None:
        super().__init__(workload, name, isolation, group=name)
        self.consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])

    def run(self) -> None:
        while self.workload.goes_on:
            self.poll()
            self.finish()
        self.consumer.close()

    def read_to_the_end(self) -> None:
        """Read up to the current end."""
        ends = {
            index: self.consumer.get_watermark_offsets(TopicPartition(TOPIC, index), CALL_SECONDS)
            for index in range(PARTITIONS)
        }
        deadline = time.monotonic() + END_SECONDS
        while any(each.offset < ends[each.partition][1] for each in self._positions()):
            assert time.monotonic() < deadline, f"{self._positions()} of {ends}"
            self.poll(0.5)
        self.finish()
        self.consumer.close()

    def _positions(self) -> list[TopicPartition]:
        wanted = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        return list(self.consumer.position(wanted))


class _Writer(_Client):
    """Performs transactions."""

    def __init__(self, workload: Workload, name: str, *, in_group: bool) -> None:
        super().__init__(workload, name, "read_committed", group=GROUP if in_group else name)
        self._in_group = in_group
        self._producer: Producer | None = None

    def run(self) -> None:
        if self._in_group:
            self.consumer.subscribe([TOPIC], on_assign=self.moved, on_revoke=self.moved)
        while self.workload.goes_on:
            try:
                self._transaction()
            except KafkaException:
                self._producer = None  # the next transaction creates a new producer
                time.sleep(0.1)
        self.consumer.close()

    def _transaction(self) -> None:
        if self._producer is None:
            self._producer = Producer(
                self.workload.settings(transactional_id=self.name, transaction_timeout_ms=10_000)
            )
            self._producer.init_transactions(CALL_SECONDS)
        if not self._in_group and (not self.consumer.assignment() or self._chance(MOVED_SHARE)):
            self.assign()
        producer = self._producer
        self.operation.outcome = Outcome.ABORTED
        try:
            producer.begin_transaction()
            self._steps(producer)
            producer.flush(CALL_SECONDS)
            if self._chance(CRASHED_SHARE):
                self._producer = None
            elif self._chance(ABORTED_SHARE):
                producer.abort_transaction(CALL_SECONDS)
            else:
                self._commit(producer)
        finally:
            self.finish()

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _steps(self, producer: Producer) -> None:
        for _ in range(self.random.randint(1, STEPS_MAX)):
            if self._chance(0.4):
                self.poll()
                continue
            send = Send(self.random.randrange(PARTITIONS), self.workload.next_value())
            self.operation.steps.append(send)
            value = str(send.value).encode()
            producer.produce(TOPIC, value, partition=send.partition, on_delivery=_noting(send))

    def _commit(self, producer: Producer) -> None:
        """Commit, and retry after retriable errors. Other errors end the producer."""
        self.operation.outcome = Outcome.UNKNOWN
        producer.commit_transaction(CALL_SECONDS)
        self.operation.outcome = Outcome.COMMITTED
        if self._in_group:
            self.consumer.commit(asynchronous=True)


ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


def _noting(send: Send) -> Callable[[KafkaError | None, Message], None]:
    def note(error: KafkaError | None, message: Message) -> None:
        if error is None:
            send.offset = message.offset()

    return note
