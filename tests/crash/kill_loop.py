"""Kills a node repeatedly under load, and checks that no acknowledged record is lost.

One idempotent producer writes consecutive numbers to each partition and remembers what was
acknowledged; one group consumer reads them. The node is killed with SIGKILL and started again on
the same data and port. At the end every number must be in its partition once, in order, at its
acknowledged offset. The consumer must have read all of them, and must never have restarted before
its committed offset.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from compat.lab.odradek_node import OdradekNode
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support import progress

TOPIC = "promised"
PARTITIONS = 3
IN_FLIGHT_MAX = 3000
"""Records sent and not acknowledged: the producer waits for room."""
ACKNOWLEDGED_BETWEEN_KILLS = 300
PATIENCE_SECONDS = 60.0


@dataclass
class Books:
    """The acknowledged records, and the records that the consumer read."""

    sent: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    acknowledged: list[dict[int, int]] = field(
        default_factory=lambda: [{} for _ in range(PARTITIONS)]
    )
    """Per partition: number to offset."""
    seen: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    """Per partition: offset to number, as the consumer read it."""
    complaints: list[str] = field(default_factory=list)

    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged))

    def seen_count(self) -> int:
        return sum(map(len, self.seen))


class KillLoop:
    """The node, its clients, and the books."""

    node_settings: Mapping[str, str] = MappingProxyType({})
    topic_settings: Mapping[str, str] = MappingProxyType({})
    pause_seconds = 0.0
    """So long does the producer wait after a record for each partition."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.node = OdradekNode(directory=directory, settings=self.node_settings)
        self.books = Books()
        self._random = random.Random(seed)
        self._may_produce = threading.Event()
        self._may_produce.set()
        self._rests = threading.Event()
        self._stop_producing = threading.Event()
        self._stop_consuming = threading.Event()

    def run(self, kills: int) -> Books:
        """Kill the node so many times; the books, with everything in them that is wrong."""
        threads = [
            threading.Thread(target=self._produce, name="producer"),
            threading.Thread(target=self._consume, name="consumer"),
        ]
        try:
            self.node.start()
            self._create_topic()
            for thread in threads:
                thread.start()
            for done in range(kills):
                progress.report(done, kills, "kills")
                self._wait_for_progress()
                self._wait_for_the_moment()
                self.node.kill()
                self._on_killed()
                self.node.start()
                self._on_started()
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
            self.node.close()
        return self.books

    def _create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        topic = NewTopic(TOPIC, PARTITIONS, 1, config=dict(self.topic_settings))
        admin.create_topics([topic])[TOPIC].result(30)

    # -- what another loop may do otherwise ---------------------------------------------------

    def _wait_for_the_moment(self) -> None:
        """There was progress since the last kill: when is the next one?"""
        time.sleep(self._random.uniform(0.0, 0.4))

    def _on_killed(self) -> None:
        """The node is dead; its files lie there."""

    def _on_started(self) -> None:
        """It serves again; the producer goes on."""

    def _unseen_count(self) -> int:
        """So many records must the consumer still see, all being written."""
        return sum(self.books.sent) - self.books.seen_count()

    def _record(self, partition: int, number: int) -> dict[str, bytes | None]:
        """Key and value of a partition's record; asked once for each number, in order."""
        return {"value": str(number).encode()}

    # -- the clients --------------------------------------------------------------------------

    def _wait_for_progress(self) -> None:
        wanted = self.books.acknowledged_count() + ACKNOWLEDGED_BETWEEN_KILLS
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.books.acknowledged_count() < wanted:
            assert time.monotonic() < deadline, f"no progress: {self.node.last_words()}"
            assert not self.books.complaints, self.books.complaints
            time.sleep(0.01)

    def _wait_for_consumer(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while missing := self._unseen_count():
            if time.monotonic() > deadline:
                self.books.complaints.append(f"the consumer did not see {missing} records")
                return
            time.sleep(0.05)

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
            }
        )
        books = self.books

        def delivered(number: int, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                books.complaints.append(f"{number} was not delivered: {error}")
            else:
                books.acknowledged[message.partition()][number] = message.offset()

        while not self._stop_producing.is_set():
            if not self._may_produce.is_set():
                producer.flush(PATIENCE_SECONDS)
                self._rests.set()
                self._may_produce.wait()
            if sum(books.sent) - books.acknowledged_count() >= IN_FLIGHT_MAX:
                producer.poll(0.01)
                continue
            for partition in range(PARTITIONS):
                number = books.sent[partition]
                books.sent[partition] += 1
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
            books.complaints.append(f"{left} records were never acknowledged")

    def _consume(self) -> None:
        consumer = new_consumer(self.node.bootstrap, "goes-on")
        consumer.subscribe([TOPIC])
        since_commit = 0
        try:
            while not self._stop_consuming.is_set():
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
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
        seen = self.books.seen[partition]
        before = seen.get(offset)
        if before is not None and before != number:
            where = f"{TOPIC}-{partition} at {offset}"
            self.books.complaints.append(f"{where}: read {before} before, {number} now")
        if offset > 0 and before is None and offset - 1 not in seen:
            self.books.complaints.append(f"{TOPIC}-{partition}: {offset} was read before the last")
        seen[offset] = number

    def _compare(self) -> None:
        """Read everything once more, and hold it against the books."""
        for partition in range(PARTITIONS):
            stored = self._stored(partition)
            expected = {number: number for number in range(self.books.sent[partition])}
            if stored != expected:
                wrong = sorted(set(stored.items()) ^ set(expected.items()))[:10]
                told = f"{len(stored)} records stored, {len(expected)} sent, first wrong: {wrong}"
                self.books.complaints.append(f"{TOPIC}-{partition}: {told}")
            for number, offset in self.books.acknowledged[partition].items():
                if stored.get(offset) != number:
                    told = f"{number} was acknowledged at {offset}, where {stored.get(offset)} is"
                    self.books.complaints.append(f"{TOPIC}-{partition}: {told}")
                    break

    def _stored(self, partition: int) -> dict[int, int]:
        """Offset to number of everything in a partition."""
        return {each.offset(): int(each.value()) for each in read_all(self.node, partition)}


def read_all(node: OdradekNode, partition: int) -> list[Message]:
    """What is in a partition, up to its end as it is now."""
    consumer = new_consumer(node.bootstrap, "looks-once")
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


def new_consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
        }
    )
