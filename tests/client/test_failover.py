"""Both shells of the client while leaders and coordinators die: each record is written and read once, in order."""

from __future__ import annotations

import asyncio
import threading

import pytest

from odradek.client import Consumer, Producer, aio
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Cluster

pytestmark = pytest.mark.cluster

COUNT = 300
TRANSACTION = 20
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
def cluster():
    with Cluster(3, settings=SETTINGS) as cluster:
        cluster.create_topics({"from": 2, "to": 1})
        yield cluster


def kill_leaders(cluster, progress, ended):
    """Kill and restart the leader of a partition each time when there is some progress."""
    for partition, at in ((0, COUNT // 3), (1, 2 * COUNT // 3)):
        while progress() < at:
            if ended.wait(0.01):
                return
        node = cluster.leader("from", partition)
        cluster.kill(node)
        cluster.restart(node)
        cluster.wait_until_in_sync()


def check(written, read, copied):
    for partition in range(2):
        mine = [b"%d" % number for number in range(COUNT) if number % 2 == partition]
        assert written[partition] == list(range(len(mine)))
        assert [value for number, value in read if number == partition] == mine
    assert sorted(map(int, copied)) == list(range(COUNT))


def with_killer(cluster, run, progress):
    ended = threading.Event()
    killer = threading.Thread(target=kill_leaders, args=(cluster, progress, ended))
    killer.start()
    try:
        run()
    finally:
        ended.set()
        killer.join()


@pytest.mark.slow("four starts of nodes after kills")
def test_the_blocking_client(cluster):
    bootstrap = {"bootstrap.servers": cluster.bootstrap_servers}
    reading = {**bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    written, read = {0: [], 1: []}, []

    def write():
        with Producer(bootstrap) as producer:
            for number in range(COUNT):
                value = b"%d" % number
                written[number % 2].append(
                    producer.send("from", value, partition=number % 2).wait().offset
                )

    with_killer(cluster, write, lambda: sum(map(len, written.values())))

    def copy():
        with (
            Consumer(reading, enable_auto_commit=False, max_poll_records=TRANSACTION) as consumer,
            Producer(bootstrap, transactional_id="copier") as producer,
        ):
            consumer.subscribe("from")
            for batch in consumer.batches():
                with producer.transaction(consumer):
                    for record in batch:
                        producer.send("to", record.value)
                read.extend((batch.partition, each) for each in batch.values())
                if len(read) >= COUNT:
                    return

    with_killer(cluster, copy, lambda: len(read))
    copied = []
    with Consumer(reading, isolation_level="read_committed") as consumer:
        consumer.assign([("to", 0, 0)])
        end = consumer.end_offsets(("to", 0))[TopicPartition("to", 0)]
        while consumer.position(("to", 0)) < end:
            batch = consumer.poll(1)
            copied += [] if batch is None else batch.values()
    check(written, read, copied)


@pytest.mark.slow("four starts of nodes after kills")
def test_asyncio(cluster):
    bootstrap = {"bootstrap.servers": cluster.bootstrap_servers}
    reading = {**bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    written, read, copied = {0: [], 1: []}, [], []

    async def write():
        async with aio.Producer(bootstrap) as producer:
            for number in range(COUNT):
                value = b"%d" % number
                delivery = await producer.send("from", value, partition=number % 2)
                written[number % 2].append((await delivery).offset)

    async def copy():
        more = {"enable_auto_commit": False, "max_poll_records": TRANSACTION}
        async with (
            aio.Consumer(reading, **more) as consumer,
            aio.Producer(bootstrap, transactional_id="copier") as producer,
        ):
            consumer.subscribe("from")
            async for batch in consumer.batches():
                async with producer.transaction(consumer):
                    for record in batch:
                        await producer.send("to", record.value)
                read.extend((batch.partition, each) for each in batch.values())
                if len(read) >= COUNT:
                    return

    async def read_copies():
        async with aio.Consumer(reading, isolation_level="read_committed") as consumer:
            consumer.assign([("to", 0, 0)])
            end = (await consumer.end_offsets(("to", 0)))[TopicPartition("to", 0)]
            while await consumer.position(("to", 0)) < end:
                batch = await consumer.poll(1)
                copied.extend([] if batch is None else batch.values())

    with_killer(cluster, lambda: asyncio.run(write()), lambda: sum(map(len, written.values())))
    with_killer(cluster, lambda: asyncio.run(copy()), lambda: len(read))
    asyncio.run(read_copies())
    check(written, read, copied)
