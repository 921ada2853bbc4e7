"""Disturbs a broker or a cluster repeatedly under load, and checks that nothing is lost.

An idempotent producer writes consecutive numbers to each partition and records the acknowledged
offsets. A consumer in a group reads the numbers. A subclass decides how the servers are disturbed
(`_disturb`). At the end every number must be in its partition once, in order, at its
acknowledged offset. The consumer must have read all numbers, and must never have restarted before
its committed offset.
"""

from __future__ import annotations

import abc
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support import progress

TOPIC = "promised"
PARTITIONS = 3
IN_FLIGHT_MAX = 3000
"""Maximum number of unacknowledged records. The producer waits if this number is reached."""
ACKNOWLEDGED_BETWEEN_FAULTS = 300
PATIENCE_SECONDS = 180.0


@dataclass
class Report:
    """The sent and acknowledged records, the records that the consumer read, and all errors."""

    sent: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    acknowledged: list[dict[int, int | None]] = field(
        default_factory=lambda: [{} for _ in range(PARTITIONS)]
    )
    """For each partition: number to offset, or None if the leader no longer knows the offset of a
    batch that was sent again (DUPLICATE_SEQUENCE_NUMBER)."""
    seen: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    """For each partition: offset to number, as read by the consumer."""
    errors: list[str] = field(default_factory=list)

    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged))

    def seen_count(self) -> int:
        return sum(map(len, self.seen))


class Servers(Protocol):
    """A node or a cluster."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses for clients."""
        ...

    def start(self) -> object:
        """Start, and wait until the servers serve requests."""
        ...

    def close(self) -> None:
        """Stop the servers."""
        ...

    def last_words(self) -> str:
        """Return the last lines of the output."""
        ...


class FaultLoop(abc.ABC):
    """The servers, their clients, and the report."""

    topic_settings: Mapping[str, str] = MappingProxyType({})
    replication_factor = 1
    pause_seconds = 0.0
    """Pause of the producer after it has sent a record to each partition."""

    def __init__(self, servers: Servers, seed: int) -> None:
        self.servers = servers
        self.report = Report()
        self._random = random.Random(seed)
        self._may_produce = threading.Event()
        self._may_produce.set()
        self._is_paused = threading.Event()
        self._stop_producing = threading.Event()
        self._stop_consuming = threading.Event()

    @property
    def clients(self) -> dict[str, str]:
        """The addresses for the clients under load, and their security settings."""
        return {"bootstrap.servers": self.servers.bootstrap}

    def run(self, faults: int) -> Report:
        """Disturb the servers `faults` times. Return the report with all errors."""
        threads = [
            threading.Thread(target=self._produce, name="producer"),
            threading.Thread(target=self._consume, name="consumer"),
        ]
        try:
            self.servers.start()
            self._create_topic()
            for thread in threads:
                thread.start()
            for done in range(faults):
                progress.report(done, faults, "faults")
                self._wait_for_progress()
                self._wait_before_fault()
                self._disturb()
            self._wait_for_progress()
            self._stop_producing.set()
            threads[0].join()
            self._wait_for_consumer()
        finally:
            self._stop_producing.set()
            self._stop_consuming.set()
            self._may_produce.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            self._compare()
            self.servers.close()
        return self.report

    def _create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers.bootstrap})
        topic = NewTopic(
            TOPIC, PARTITIONS, self.replication_factor, config=dict(self.topic_settings)
        )
        admin.create_topics([topic])[TOPIC].result(30)

    # -- methods of a subclass ---------------------------------------------------------------

    @abc.abstractmethod
    def _disturb(self) -> None:
        """Disturb the servers. When it returns, they serve requests again."""

    def _wait_before_fault(self) -> None:
        """Wait until the next fault. There has been progress since the last fault."""
        time.sleep(self._random.uniform(0.0, 0.4))

    def _unseen_count(self) -> int:
        """Return the number of records that the consumer has not read yet."""
        return sum(self.report.sent) - self.report.seen_count()

    def _record(self, partition: int, number: int) -> dict[str, bytes | None]:
        """Return key and value of a record. Called once for each number, in order."""
        return {"value": str(number).encode()}

    def _is_allowed(self, error: KafkaError) -> bool:
        """Return whether the consumer may report this error, because it may follow from a fault."""
        return True

    # -- the clients --------------------------------------------------------------------------

    def _wait_for_progress(self) -> None:
        wanted = self.report.acknowledged_count() + ACKNOWLEDGED_BETWEEN_FAULTS
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.report.acknowledged_count() < wanted:
            assert time.monotonic() < deadline, f"no progress: {self.servers.last_words()}"
            assert not self.report.errors, self.report.errors
            time.sleep(0.01)

    def _wait_for_consumer(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while missing := self._unseen_count():
            if time.monotonic() > deadline:
                self.report.errors.append(f"the consumer did not see {missing} records")
                return
            time.sleep(0.05)

    def _produce(self) -> None:
        producer = Producer(
            {
                **self.clients,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
            }
        )
        report = self.report

        def delivered(number: int, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                report.errors.append(f"{number} was not delivered: {error}")
            else:
                report.acknowledged[message.partition()][number] = message.offset()

        while not self._stop_producing.is_set():
            if not self._may_produce.is_set():
                producer.flush(PATIENCE_SECONDS)
                self._is_paused.set()
                self._may_produce.wait()
            if sum(report.sent) - report.acknowledged_count() >= IN_FLIGHT_MAX:
                producer.poll(0.01)
                continue
            for partition in range(PARTITIONS):
                number = report.sent[partition]
                report.sent[partition] += 1
                producer.produce(
                    TOPIC,
                    partition=partition,
                    **self._record(partition, number),
                    on_delivery=lambda error, message, n=number: delivered(n, error, message),
                )
            producer.poll(0.0005)
            time.sleep(self.pause_seconds)
        left = producer.flush(PATIENCE_SECONDS)
        if left:
            report.errors.append(f"{left} records were never acknowledged")

    def _consume(self) -> None:
        consumer = new_consumer(self.clients, "goes-on")
        consumer.subscribe([TOPIC])
        since_commit = 0
        try:
            while not self._stop_consuming.is_set():
                message = consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    if not self._is_allowed(error):
                        self.report.errors.append(f"the consumer: {error}")
                    continue
                self._note(message)
                since_commit += 1
                if since_commit >= 200:
                    consumer.commit(asynchronous=True)
                    since_commit = 0
        finally:
            consumer.close()

    def _note(self, message: Message) -> None:
        partition, offset, number = message.partition(), message.offset(), int(message.value())
        seen = self.report.seen[partition]
        before = seen.get(offset)
        if before is not None and before != number:
            where = f"{TOPIC}-{partition} at {offset}"
            self.report.errors.append(f"{where}: read {before} before, {number} now")
        if offset > 0 and before is None and offset - 1 not in seen:
            self.report.errors.append(f"{TOPIC}-{partition}: {offset} was read before the last")
        seen[offset] = number

    def _compare(self) -> None:
        """Read all records, and compare them with the sent and acknowledged records."""
        for partition in range(PARTITIONS):
            stored = self._stored(partition)
            expected = {number: number for number in range(self.report.sent[partition])}
            if stored != expected:
                wrong = sorted(set(stored.items()) ^ set(expected.items()))[:10]
                text = f"{len(stored)} records stored, {len(expected)} sent, first wrong: {wrong}"
                self.report.errors.append(f"{TOPIC}-{partition}: {text}")
            for number, offset in self.report.acknowledged[partition].items():
                if offset is not None and stored.get(offset) != number:
                    text = f"{number} was acknowledged at {offset}, where {stored.get(offset)} is"
                    self.report.errors.append(f"{TOPIC}-{partition}: {text}")
                    break

    def _stored(self, partition: int) -> dict[int, int]:
        """Return all records of a partition: offset to number."""
        return {each.offset(): int(each.value()) for each in read_all(self.servers, partition)}


def read_all(servers: Servers, partition: int) -> list[Message]:
    """Return all records of a partition up to its current end."""
    consumer = new_consumer({"bootstrap.servers": servers.bootstrap}, "looks-once")
    try:
        place = TopicPartition(TOPIC, partition, 0)
        consumer.assign([place])
        _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_SECONDS)
        found: list[Message] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (not found or found[-1].offset() < end - 1) and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message)
        return found
    finally:
        consumer.close()


def new_consumer(settings: Mapping[str, str], group: str) -> Consumer:
    return Consumer(
        {
            **settings,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
        }
    )
