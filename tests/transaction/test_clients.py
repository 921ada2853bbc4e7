"""Transactions of unmodified clients over sockets, also with a restart of the node."""

from __future__ import annotations

import asyncio
import time
import uuid
from types import SimpleNamespace

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition as Name
from odradek.testing import Broker

COMMITTED = "read_committed"
UNCOMMITTED = "read_uncommitted"


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.create_topics({"source": 1})
        yield broker


@pytest.fixture
def topic(broker):
    name = f"t{uuid.uuid4().hex[:8]}"
    broker.create_topics({name: 2})
    return name


def transactional(broker, name, **settings):
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": name,
            "log_level": 0,
            **settings,
        }
    )
    producer.init_transactions(20)
    return producer


def write(producer, topic, *values):
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index % 2)
    producer.flush(20)


def consumer_of(broker, group, isolation=COMMITTED):
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


def values(broker, topic, isolation=COMMITTED):
    """All values that a consumer sees now, sorted."""
    consumer = consumer_of(broker, "looks", isolation)
    consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])
    found, ends = [], 0
    deadline = time.monotonic() + 60
    while ends < 2 and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value())
        elif message is not None:
            ends += 1
    consumer.close()
    return sorted(found)


def committed(broker, group):
    """The committed offset of the source."""
    consumer = consumer_of(broker, group)
    offset = consumer.committed([TopicPartition("source", 0)], 20)[0].offset
    consumer.close()
    return offset


def soon(question, wanted):
    """Markers follow the answer: what is asked is so, or becomes so."""
    deadline = time.monotonic() + 60
    while (found := question()) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


# -- librdkafka: version 1 of the protocol --------------------------------------------------------


def test_only_what_is_committed_is_seen(broker, topic):
    producer = transactional(broker, f"id-{topic}")
    for name, end in (
        (b"first", producer.commit_transaction),
        (b"second", producer.abort_transaction),
        (b"third", producer.commit_transaction),
    ):
        producer.begin_transaction()
        write(producer, topic, name + b" a", name + b" b")
        assert name + b" a" not in values(broker, topic)
        end(20)
    wanted = [b"first a", b"first b", b"third a", b"third b"]
    assert soon(lambda: values(broker, topic), wanted) == wanted
    assert len(values(broker, topic, UNCOMMITTED)) == 6


def test_offsets_count_when_the_transaction_commits(broker, topic):
    group = f"group-{topic}"
    producer = transactional(broker, f"id-{topic}")
    member = consumer_of(broker, group).consumer_group_metadata()
    for offset, end in ((10, producer.commit_transaction), (20, producer.abort_transaction)):
        producer.begin_transaction()
        write(producer, topic, b"%d" % offset)
        producer.send_offsets_to_transaction([TopicPartition("source", 0, offset)], member, 20)
        end(20)
    assert soon(lambda: committed(broker, group), 10) == 10
    assert values(broker, topic) == [b"10"]


def test_a_successor_fences(broker, topic):
    zombie = transactional(broker, f"id-{topic}")
    zombie.begin_transaction()
    write(zombie, topic, b"of the zombie")
    successor = transactional(broker, f"id-{topic}")
    successor.begin_transaction()
    write(successor, topic, b"of the successor")
    successor.commit_transaction(20)
    with pytest.raises(KafkaException, match="fenced"):
        zombie.commit_transaction(20)
    assert soon(lambda: values(broker, topic), [b"of the successor"]) == [b"of the successor"]


# -- aiokafka -------------------------------------------------------------------------------------


async def consume_transform_produce(bootstrap, topic):
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"aio-{topic}")
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"committed", partition=0)
            offsets = {AioPartition("source", 0): 77}
            await producer.send_offsets_to_transaction(offsets, f"aio-{topic}")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted", partition=1)
        await producer.abort_transaction()
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=COMMITTED, enable_auto_commit=False
    )
    await consumer.start()
    try:
        consumer.assign([AioPartition(topic, 0), AioPartition(topic, 1)])
        await consumer.seek_to_beginning()
        return (await consumer.getone()).value
    finally:
        await consumer.stop()


def test_aiokafka(broker, topic):
    bootstrap = broker.bootstrap_servers
    assert asyncio.run(consume_transform_produce(bootstrap, topic)) == b"committed"
    assert soon(lambda: committed(broker, f"aio-{topic}"), 77) == 77
    assert values(broker, topic) == [b"committed"]


# -- the node stops in between --------------------------------------------------------------------


@pytest.fixture
def restarting(tmp_path):
    with Broker(data=str(tmp_path / "data")) as broker:
        broker.create_topics({"source": 1, "target": 2})
        yield broker


def test_an_open_transaction_goes_on_after_a_restart(restarting):
    producer = transactional(restarting, "goes-on")
    producer.begin_transaction()
    write(producer, "target", b"before", b"before too")
    restarting.restart()
    assert values(restarting, "target") == []
    write(producer, "target", b"after")
    producer.commit_transaction(30)
    wanted = [b"after", b"before", b"before too"]
    assert soon(lambda: values(restarting, "target"), wanted) == wanted


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_decided_transaction_is_completed_after_a_restart(restarting, is_commit):
    producer = transactional(restarting, "decided")
    member = consumer_of(restarting, "reads").consumer_group_metadata()
    producer.begin_transaction()
    write(producer, "target", b"a", b"b")
    producer.send_offsets_to_transaction([TopicPartition("source", 0, 5)], member, 20)
    refused = {Name("target", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}
    restarting.node.broker.coordinators.transactions._markers = SimpleNamespace(
        send=lambda leader, partition, marker: refused, drop=lambda partition: None
    )
    (producer.commit_transaction if is_commit else producer.abort_transaction)(20)
    assert values(restarting, "target") == []
    restarting.restart()
    wanted = [b"a", b"b"] if is_commit else []
    assert soon(lambda: values(restarting, "target"), wanted) == wanted
    offset = 5 if is_commit else -1001
    assert soon(lambda: committed(restarting, "reads"), offset) == offset
    producer.begin_transaction()
    write(producer, "target", b"c")
    producer.commit_transaction(30)
    assert soon(lambda: values(restarting, "target"), [*wanted, b"c"]) == [*wanted, b"c"]
