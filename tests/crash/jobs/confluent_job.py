"""A consume-transform-produce job with librdkafka. It exits if it cannot continue; then start it again.

python confluent_job.py BOOTSTRAP SOURCE TARGET NAME [RECORDS_MAX]
"""

from __future__ import annotations

import os
import signal
import sys

from confluent_kafka import Consumer, KafkaException, Producer

RECORDS_MAX = 20
SECONDS = 30
"""Timeout of one call."""
STUCK_SECONDS = 5
"""librdkafka 2.16 may wait forever in `send_offsets_to_transaction` if the broker was away for a
moment. An alarm then ends the job."""


def main(bootstrap: str, source: str, target: str, name: str, records_max: int) -> None:
    """Copy the source to the target, in transactions of a few records."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 10_000,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "group.instance.id": name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    consumer.subscribe([source])
    while True:
        signal.alarm(STUCK_SECONDS)
        messages = [m for m in consumer.consume(records_max, 0.2) if m.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition())
        offsets = consumer.position(consumer.assignment())
        known = [each for each in offsets if each.offset >= 0]
        producer.send_offsets_to_transaction(known, consumer.consumer_group_metadata(), SECONDS)
        producer.commit_transaction(SECONDS)


if __name__ == "__main__":
    try:
        words = sys.argv[1:5]
        main(*words, int(sys.argv[5]) if len(sys.argv) > 5 else RECORDS_MAX)
    except KafkaException as error:
        sys.stderr.write(f"{error}\n")
        os._exit(1)  # closing the producer would wait for the broker
