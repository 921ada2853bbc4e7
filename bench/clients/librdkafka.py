"""Loads a broker with librdkafka (confluent-kafka). `bench.clients` describes the commands."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import confluent_kafka
from compat.drivers.python.lines import Command, serve
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.payloads import read_payloads

PATIENCE_SECONDS = 120.0
MESSAGES_AT_ONCE = 10_000
QUEUED_MAX = 200_000


class Load:
    """The commands."""

    def __init__(self) -> None:
        self._payloads: dict[str, list[bytes]] = {}

    def about(self, command: Command) -> Command:
        return {"client": "librdkafka", "version": confluent_kafka.libversion()[0]}

    def produce(self, command: Command) -> Command:
        path = command["payloads"]
        if path not in self._payloads:
            self._payloads[path] = read_payloads(Path(path))
        payloads = self._payloads[path]
        producer = Producer(
            {
                "bootstrap.servers": command["bootstrap"],
                "acks": "all",
                "linger.ms": 5,
                "queue.buffering.max.messages": QUEUED_MAX,
            }
        )
        refused: list[Any] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                refused.append(error)

        topic, count, produce = command["topic"], len(payloads), producer.produce
        started = time.monotonic()
        sent = 0
        for number in range(command["records"]):
            value = payloads[number % count]
            sent += len(value)
            while True:
                try:
                    produce(topic, value, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.01)
        left = producer.flush(PATIENCE_SECONDS)
        if refused:
            raise KafkaException(refused[0])
        if left:
            raise TimeoutError(f"{left} records were not acknowledged")
        return {"bytes": sent, "seconds": time.monotonic() - started}

    def consume(self, command: Command) -> Command:
        consumer = Consumer(
            {
                "bootstrap.servers": command["bootstrap"],
                "group.id": "bench",
                "enable.auto.commit": False,
            }
        )
        try:
            topic = command["topic"]
            consumer.assign([TopicPartition(topic, i, 0) for i in range(command["partitions"])])
            started = time.monotonic()
            read = received = 0
            while read < command["records"]:
                for message in consumer.consume(MESSAGES_AT_ONCE, 1.0):
                    error = message.error()
                    if error is not None:
                        raise KafkaException(error)
                    received += len(message.value() or b"")
                    read += 1
                if time.monotonic() - started > PATIENCE_SECONDS:
                    raise TimeoutError(f"only {read} records came")
            return {"bytes": received, "seconds": time.monotonic() - started}
        finally:
            consumer.close()


def name_of(error: BaseException) -> str:
    """Return Kafka's name of an error, or the name of the exception's class."""
    if isinstance(error, KafkaException):
        name: str = error.args[0].name()
        return name.lstrip("_")
    return type(error).__name__


if __name__ == "__main__":
    serve(Load(), name_of)
