"""Produces events to topics with confluent-kafka, a widely used Kafka client.

If the demo is killed while it produces, the next run continues at the same event. The events of a
topic, their order and their partitions are always the same, and an idempotent producer leaves no
gap. So the number of records in a partition determines which events it already has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from odradek.demo.data import Events
from odradek.demo.topics import Topics
from odradek.spark.partitioning import partitions_of_keys

TIMEOUT_S = 30
POLL_EVERY = 5_000
"""The number of events between two polls for acknowledgements."""


class NotProducedError(RuntimeError):
    """The broker rejected an event, or did not acknowledge it in time."""


def client_settings(servers: str) -> dict[str, str | int | float | bool]:
    """Return the settings of all clients of the demo. The clients log nothing."""
    return {"bootstrap.servers": servers, "log_level": 0}


def create_topics(servers: str, topics: Topics) -> None:
    """Create the missing topics.

    Raises:
        KafkaException: the broker returns an error.
    """
    admin = AdminClient(client_settings(servers))
    wanted = [
        NewTopic(name, partitions, replication_factor=1, config=config)
        for name, (partitions, config) in topics.settings().items()
    ]
    for made in admin.create_topics(wanted, request_timeout=TIMEOUT_S).values():
        try:
            made.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


class EventProducer:
    """Produces the missing events of topics. Use it in a `with` statement."""

    def __init__(self, servers: str, topics: Topics) -> None:
        self._partition_counts = {name: count for name, (count, _) in topics.settings().items()}
        self._failure: KafkaError | None = None
        self._consumer = Consumer({**client_settings(servers), "group.id": "unused"})
        self._producer = Producer(
            {
                **client_settings(servers),
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # the partitioner of the Java client
                "compression.type": "lz4",
                "batch.size": 256 * 1024,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def produce(self, topic: str, events: Events, progress: Callable[[int], None]) -> int:
        """Send the missing `events`, wait for all acknowledgements, and return the number sent.

        `progress` is called with the number of events that were sent since the last call. The
        first call has the number of events that the topic already has.

        Raises:
            NotProducedError: an event was not written.
        """
        missing = self._missing(topic, events)
        progress(len(events) - len(missing))
        produce, poll = self._producer.produce, self._producer.poll
        times = events.timestamps_ms
        for count, number in enumerate(missing, start=1):
            produce(
                topic,
                events.values[number],
                events.keys[number],
                on_delivery=self._note,
                timestamp=0 if times is None else times[number],  # 0 means the current time.
            )
            if count % POLL_EVERY == 0:
                poll(0)
                progress(POLL_EVERY)
        progress(len(missing) % POLL_EVERY)
        left = self._producer.flush(TIMEOUT_S)
        if self._failure is not None or left:
            reason = self._failure or f"{left} events not acknowledged within {TIMEOUT_S} s"
            raise NotProducedError(f"topic {topic}: {reason}")
        return len(missing)

    def _note(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failure = error

    def _missing(self, topic: str, events: Events) -> list[int]:
        """Return the indexes of the events that the topic does not have."""
        count = self._partition_counts[topic]
        present = np.array([self._end(topic, partition) for partition in range(count)])
        if not present.any():
            return list(range(len(events)))
        partition = partitions_of_keys(pa.array([k.encode() for k in events.keys]), count, 0)
        # For each event, the number of earlier events of the same partition.
        place = np.empty(len(events), np.int64)
        for each in range(count):
            here = np.flatnonzero(partition == each)
            place[here] = np.arange(len(here))
        missing: list[int] = np.flatnonzero(place >= present[partition]).tolist()
        return missing

    def _end(self, topic: str, partition: int) -> int:
        """Return the number of records in a partition. Wait until the partition has a leader."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), 5)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return int(end)
