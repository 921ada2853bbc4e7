"""Unmodified clients under a quota: slowed down, without an error. `compat` has Apache Kafka's."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.client.admin.quotas import alter_quotas
from odradek.client.cluster import Cluster
from odradek.testing import Broker

pytestmark = pytest.mark.cluster
RECORDS, SIZE = 50, 10_000
RATE = 200_000.0
"""Bytes per second. With two windows, a client may send or fetch them at once before it waits."""


@pytest.fixture
def broker():
    settings = {"quota.window.num": 2}
    with Broker(topics={"t": 1}, settings=settings) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            limits = {"producer_byte_rate": RATE, "consumer_byte_rate": RATE}
            alter_quotas(cluster, (("client-id", "limited"),), limits)
        yield broker


def throttled(broker, kind):
    """The average time for which the connections of the client id were throttled."""
    (meter,) = getattr(broker.node.broker.quotas.clients, kind).meters.values()
    return meter.throttle_time_ms(broker.node.broker.clock.monotonic_ms())


def test_librdkafka(broker):
    errors = []
    options = {
        "bootstrap.servers": broker.bootstrap_servers,
        "client.id": "limited",
        "error_cb": errors.append,
    }
    producer = Producer({**options, "batch.size": 20_000, "linger.ms": 5})
    for _ in range(RECORDS):
        producer.produce("t", bytes(SIZE), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * RECORDS
    assert throttled(broker, "produce") > 0
    errors.clear()
    consumer = Consumer({**options, "group.id": "g", "fetch.message.max.bytes": 20_000})
    consumer.assign([TopicPartition("t", 0, 0)])
    read = 0
    while read < RECORDS:
        for message in consumer.consume(100, 1):
            assert message.error() is None
            read += 1
    consumer.close()
    assert errors == []
    assert throttled(broker, "fetch") > 0


def test_aiokafka(broker):
    async def produce():
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, client_id="limited", max_batch_size=20_000
        )
        async with producer:
            await asyncio.gather(*[await producer.send("t", bytes(SIZE)) for _ in range(RECORDS)])

    asyncio.run(produce())
    assert throttled(broker, "produce") > 0
