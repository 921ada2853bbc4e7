"""The consumer of asyncio, with a real broker: groups, long handlers, cancelled calls, a blocked loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid

import pytest
from tests.support.registry_server import registry_server

from odradek.client.aio import Consumer, Producer
from odradek.client.aio import shell as shell_module
from odradek.client.errors import (
    ClosedError,
    CommitFailedError,
    ConcurrentUseError,
    ConsumerStateError,
    UnreachableError,
)
from odradek.client.serializers import Avro
from odradek.client.serializers.registry import NotRegisteredError, RegistryError
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker

QUICK = {
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
CLASSIC = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 100}
PROTOCOLS = [{"group_protocol": "classic", **CLASSIC}, {"group_protocol": "consumer"}]


@pytest.fixture(scope="module")
def broker():
    with Broker(settings=QUICK) as broker:
        yield broker


@pytest.fixture
def topic(broker):
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topics({name: 2})
    return name


@pytest.fixture
def make(broker, topic):
    def make(**options):
        first = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        return Consumer(first, **options)

    return make


@pytest.fixture
def write(broker, topic):
    async def write(*values, partition=0):
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for each in values:
                await producer.send(topic, each, partition=partition)

    return write


async def take(consumer, count):
    """Read records until there are so many."""
    found = []
    async with asyncio.timeout(30):
        async for batch in consumer.batches():
            found += batch.values()
            if len(found) >= count:
                break
    return found


def test_partitions_that_are_assigned(make, write, topic):
    async def run():
        await write(b"0", b"1", b"2")
        key, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with make() as consumer:
            consumer.assign([(topic, 0, 1), (topic, 1)])
            assert await take(consumer, 2) == [b"1", b"2"]
            assert consumer.positions[key] == await consumer.position(key) == 3
            assert await consumer.position(other) == 0
            assert await consumer.end_offsets(key, other) == {key: 3, other: 0}
            assert await consumer.beginning_offsets(key) == {key: 0}
            assert (await consumer.offsets_for_times({key: 0}))[key].offset == 0
            consumer.seek(key, 2)
            assert await take(consumer, 1) == [b"2"]
            consumer.pause(key)
            consumer.seek_to_beginning(key)
            assert await consumer.poll(0.2) is None
            consumer.resume(key)
            assert await take(consumer, 3) == [b"0", b"1", b"2"]
            consumer.seek_to_beginning()
            found = []
            async for record in consumer:
                assert consumer.positions[key] == record.offset + 1
                found.append(record.value)
                if len(found) == 2:
                    break
            assert found == [b"0", b"1"]
            for call in (lambda: consumer.seek(("t", 9), 0), consumer.commit_async):
                with pytest.raises(ConsumerStateError):
                    call()
            with pytest.raises(ConsumerStateError):
                await consumer.commit()

    asyncio.run(run())


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["classic", "consumer"])
def test_a_group(make, write, topic, protocol):
    async def run():
        told = []

        async def assigned(partitions):
            await asyncio.sleep(0)
            told.append(("assigned", len(partitions)))

        def revoked(partitions):
            told.append(("revoked", len(partitions)))

        await write(b"0", b"1")
        async with make(group_id=topic, enable_auto_commit=False, **protocol) as consumer:
            consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
            assert await take(consumer, 2) == [b"0", b"1"]
            await consumer.commit()
            key = TopicPartition(topic, 0)
            assert (await consumer.committed(key))[key].offset == 2
            committed = asyncio.get_running_loop().create_future()
            consumer.commit_async({key: 1}, committed.set_result)
            while not committed.done():
                await consumer.poll(0.05)
            assert committed.result() is None
        assert told == [("assigned", 2), ("revoked", 2)]
        async with make(group_id=topic, **protocol) as consumer:
            consumer.subscribe(topic)
            assert await take(consumer, 1) == [b"1"]

    asyncio.run(run())


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["classic", "consumer"])
def test_a_handler_may_await_for_longer_than_the_session(make, write, topic, protocol):
    async def run():
        told = []
        await write(b"0")
        async with make(group_id=topic, enable_auto_commit=False, **protocol) as consumer:
            consumer.subscribe([topic], on_revoked=told.append)
            await take(consumer, 1)
            await asyncio.sleep(2.5)
            await consumer.poll()
            assert told == []
            await consumer.commit()

    asyncio.run(run())


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["classic", "consumer"])
def test_a_handler_that_awaits_for_too_long(make, write, topic, protocol, caplog):
    async def run():
        lost = []
        await write(b"0")
        more = {"max_poll_interval_ms": 1_200, "enable_auto_commit": False, **protocol}
        async with make(group_id=topic, **more) as consumer:
            consumer.subscribe([topic], on_lost=lost.append)
            await take(consumer, 1)
            await asyncio.sleep(1.8)
            with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
                await consumer.commit()
            assert await take(consumer, 1) == [b"0"]
            assert len(lost) == 1

    asyncio.run(run())
    assert "max.poll.interval.ms" in caplog.text


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["classic", "consumer"])
def test_a_loop_that_was_blocked(make, write, topic, protocol, caplog, monkeypatch):
    """The member has lost its partitions, is told so with the reason, and joins again."""
    monkeypatch.setattr(shell_module, "BLOCKED_SECONDS", 1.0)

    async def run():
        lost = []
        await write(b"0")
        async with make(group_id=topic, enable_auto_commit=False, **protocol) as consumer:
            consumer.subscribe([topic], on_lost=lost.append)
            await take(consumer, 1)
            await asyncio.sleep(0.3)
            time.sleep(2.5)  # noqa: ASYNC251
            with pytest.raises(CommitFailedError, match="the event loop was blocked for") as raised:
                await consumer.commit()
            assert "asyncio.to_thread" in raised.value.advice
            assert await take(consumer, 1) == [b"0"]
            assert len(lost) == 1
            await consumer.commit()

    asyncio.run(run())
    assert "partitions are lost: the event loop was blocked for" in caplog.text


def test_cancelled_calls_lose_nothing(make, write, topic):
    async def run():
        await write(*(b"%d" % number for number in range(50)))
        async with make(group_id=topic, max_poll_records=1, **CLASSIC) as consumer:
            consumer.subscribe([topic])
            found = []
            for number in range(200):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.001 * (number % 7)):
                        batch = await consumer.poll(5)
                        if batch is not None:
                            found += batch.values()
                if len(found) >= 50:
                    break
            found += await take(consumer, 50 - len(found)) if len(found) < 50 else []
            assert found == [b"%d" % number for number in range(50)]
            commit = asyncio.create_task(consumer.commit())
            await asyncio.sleep(0)
            commit.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await commit
            await consumer.commit()
            key = TopicPartition(topic, 0)
            assert (await consumer.committed(key))[key].offset == 50

    asyncio.run(run())


def test_what_was_read_is_part_of_a_transaction(broker, make, write, topic):
    async def run():
        await write(b"0", b"1", b"2")
        bootstrap = {"bootstrap.servers": broker.bootstrap_servers}
        async with (
            make(group_id=topic, isolation_level="read_committed", **CLASSIC) as consumer,
            Producer(bootstrap, transactional_id=topic) as producer,
        ):
            consumer.subscribe([topic])
            async for batch in consumer.batches():
                with contextlib.suppress(KeyError):
                    async with producer.transaction(consumer):
                        for record in batch:
                            await producer.send(topic, record.value, partition=1)
                        raise KeyError
                break
            consumer.seek_to_beginning()
            async for batch in consumer.batches():
                if batch.partition == 0:
                    async with producer.transaction(consumer):
                        await producer.send(topic, b"".join(batch.values()), partition=1)
                    break
            key = TopicPartition(topic, 0)
            assert (await consumer.committed(key))[key].offset == 3
            other = TopicPartition(topic, 1)
            consumer.seek(other, 0)
            assert await take(consumer, 1) == [b"012"]

    asyncio.run(run())


def test_tasks_take_turns(make, topic):
    async def run():
        async with make(group_id=topic, **CLASSIC) as consumer:
            consumer.subscribe([topic])
            polling = asyncio.create_task(consumer.poll(5))
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentUseError, match="another task"):
                await consumer.poll()
            polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await polling
            await consumer.poll()

    asyncio.run(run())


def test_calls_after_close(make, topic):
    async def run():
        async with make(group_id=topic, **CLASSIC) as consumer:
            consumer.subscribe([topic])
            await consumer.poll(0.1)
        for call in (consumer.poll(), consumer.commit(), consumer.committed((topic, 0))):
            with pytest.raises(ClosedError, match="closed"):
                await call
        with pytest.raises(ClosedError):
            consumer.subscribe([topic])
        await consumer.close()

    asyncio.run(run())


def test_nobody_listens():
    async def run():
        async with Consumer(bootstrap_servers="127.0.0.1:1") as consumer:
            consumer.assign([("t", 0)])
            with pytest.raises(UnreachableError, match="connection refused"):
                await consumer.poll(10)

    asyncio.run(run())


def test_a_schema_registry_does_not_stop_the_loop(make, write, topic):
    async def run(registry):
        number = registry.add(f"{topic}-value", '"long"')
        value = Avro(registry.url)
        await write(*[b"\0" + number.to_bytes(4, "big") + b"\x0e"] * 3, b"\0\0\0\0\7\0")
        async with make(value_deserializer=value) as consumer:
            consumer.assign([(topic, 0)])
            registry.gate = threading.Event()
            polling = asyncio.create_task(consumer.poll(30))
            while not registry.requests:
                await asyncio.sleep(0.01)
            polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await polling
            registry.gate.set()
            batch = await consumer.poll(30)
            assert registry.requests.count(f"GET /schemas/ids/{number}") == 1
            with pytest.raises(NotRegisteredError, match="no schema 7") as raised:
                batch.values()
            assert "record at offset 3" in raised.value.__notes__[0]
            consumer.seek((topic, 0), 0)
            registry.credentials = "secret"
            registry.add("other", '"int"')
            await write(b"\0\0\0\0\2\2", partition=1)
            consumer.assign([(topic, 1)])
            with pytest.raises(RegistryError, match="401"):
                await consumer.poll(30)
            registry.credentials = None
            assert await take(consumer, 1) == [1]

    with registry_server() as registry:
        asyncio.run(run(registry))
