"""The producer of asyncio, with a real broker: what it writes, cancelled calls, and bad surroundings."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import threading
import time
import uuid
from types import SimpleNamespace

import pytest
from tests.support.registry_server import registry_server

from odradek.client import deadline
from odradek.client.aio import Producer
from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.errors import (
    BrokerError,
    BufferFullError,
    ClosedError,
    NoSuchTopicError,
    NotDeliveredError,
    RecordTooLargeError,
    RequestTimeoutError,
    SerializationError,
    TransactionStateError,
    UnreachableError,
)
from odradek.client.offsets import EARLIEST, READ_COMMITTED, offsets_at
from odradek.client.serializers import Avro, Text
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"t": 2}) as broker:
        yield broker


@pytest.fixture
def topic(broker):
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topics({name: 2})
    return name


@pytest.fixture
def make(broker):
    def make(**options):
        return Producer({"bootstrap.servers": broker.bootstrap_servers}, **options)

    return make


def values(broker, topic, isolation=READ_COMMITTED):
    keys = [TopicPartition(topic, index) for index in range(2)]
    with Cluster(broker.bootstrap_servers) as cluster:
        starts = offsets_at(cluster, keys, EARLIEST)
        batches = read_to_ends(cluster, starts, isolation)
        found = [each for batch in batches for each in batch.values()]
    return sorted(found, key=lambda value: value or b"")


# -- what is written ------------------------------------------------------------------------------


def test_records_and_their_deliveries(broker, topic, make):
    async def run():
        called = []
        async with make() as producer:
            first = await producer.send(topic, b"a", partition=1, headers={"h": b"1"}, timestamp=5)
            assert not first.done
            assert await first is first
            assert (first.offset, first.partition) == (0, 1)
            second = await producer.send(topic, b"b", partition=1, on_delivery=called.append)
            with pytest.raises(TypeError, match="write `await delivery`"):
                second.wait()
            await second
            second.add_callback(called.append)
            assert [each.offset for each in called] == [1, 1]
            left = await producer.send(topic, b"c")
        assert left.offset >= 0

    asyncio.run(run(), debug=True)
    assert values(broker, topic) == [b"a", b"b", b"c"]


def test_tasks_that_send_at_the_same_time_share_batches(broker, topic, make):
    async def run():
        async with make() as producer:

            async def handle(number):
                return await (await producer.send(topic, b"%d" % number, partition=0))

            deliveries = await asyncio.gather(*(handle(number) for number in range(500)))
        assert sorted(each.offset for each in deliveries) == list(range(500))
        assert len({each.batch for each in deliveries}) < 20

    asyncio.run(run())


def test_many_values(broker, topic, make):
    wanted = [b"%d" % number for number in range(3_000)]

    async def run():
        async with make(batch_size=1_000) as producer:
            batches = await producer.send_values(topic, [*wanted, None])
            assert sum([(await producer.wait(each)).count for each in batches]) == 3_001
            with pytest.raises(TypeError, match="not str"):
                await producer.send_values(topic, ["x"])

    asyncio.run(run())
    assert values(broker, topic) == [None, *sorted(wanted)]


def test_serializers_do_not_stop_the_loop(broker, topic, make):
    """A schema registry that does not answer for a while keeps nobody else waiting."""
    with registry_server() as registry:
        registry.gate = threading.Event()
        value = Avro(registry.url, "long")

        async def run():
            async with make(key_serializer=Text(), value_serializer=value) as producer:
                sending = asyncio.create_task(producer.send(topic, 7, key="k"))
                while not registry.requests:
                    await asyncio.sleep(0.01)
                registry.gate.set()
                await (await sending)
                with pytest.raises(SerializationError):
                    await producer.send(topic, "x")
                await producer.send_values(topic, [8, None])

        asyncio.run(run())
        assert registry.requests == [f"POST /subjects/{topic}-value/versions"]
    assert set(values(broker, topic)) == {b"\0\0\0\0\1\x0e", b"\0\0\0\0\1\x10", None}


# -- transactions -----------------------------------------------------------------------------------


def test_commits_and_aborts(broker, topic, make):
    async def run():
        async with make(transactional_id=topic) as producer:
            for number in range(4):
                with contextlib.suppress(KeyError):
                    async with producer.transaction():
                        await producer.send(topic, b"%d" % number)
                        if number % 2:
                            raise KeyError
            with pytest.raises(TransactionStateError):
                await producer.commit_transaction()
        async with make(transactional_id=topic) as old, make(transactional_id=topic) as new:
            await old.init_transactions()
            old.begin_transaction()
            await new.init_transactions()
            await old.send(topic, b"zombie")
            with pytest.raises(BrokerError) as raised:
                await old.commit_transaction()
            assert raised.value.code in {
                ErrorCode.PRODUCER_FENCED,
                ErrorCode.INVALID_PRODUCER_EPOCH,
            }
            await old.close(0)
        async with make() as producer:
            with pytest.raises(TransactionStateError, match="no transactions"):
                await producer.init_transactions()

    asyncio.run(run())
    assert values(broker, topic) == [b"0", b"2"]


def test_a_cancelled_transaction_is_aborted_and_a_cancelled_commit_can_be_repeated(
    broker, topic, make
):
    async def run():
        async with make(transactional_id=topic) as producer:
            ready = asyncio.Event()

            async def work():
                async with producer.transaction():
                    await (await producer.send(topic, b"cancelled"))
                    ready.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await ready.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            producer.begin_transaction()
            await producer.send(topic, b"kept")
            broker.inject("EndTxn", "CONCURRENT_TRANSACTIONS", times=10_000)
            try:
                commit = asyncio.create_task(producer.commit_transaction())
                await asyncio.sleep(0.2)
                commit.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await commit
                with pytest.raises(RequestTimeoutError, match="no answer after 100 ms"):
                    await producer.commit_transaction(0.1)
            finally:
                broker.heal()
            await producer.commit_transaction()

    asyncio.run(run())
    assert values(broker, topic) == [b"kept"]


# -- cancelled calls ----------------------------------------------------------------------------------


def test_those_who_wait_for_a_batch_can_be_cancelled(broker, topic, make):
    async def run():
        async with make() as producer:
            await (await producer.send(topic, b"0", partition=0))
            broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=10_000)
            try:
                deliveries = [await producer.send(topic, b"1", partition=0) for _ in range(3)]

                async def wait(delivery):
                    return await delivery

                tasks = [asyncio.create_task(wait(each)) for each in deliveries]
                flush = asyncio.create_task(producer.flush())
                await asyncio.sleep(0.1)
                for each in (tasks[1], flush):
                    each.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await each
                assert not tasks[0].done()
                with pytest.raises(RequestTimeoutError, match="not written after"):
                    await producer.flush(0.01)
            finally:
                broker.heal()
            assert (await tasks[0]).offset == 1
            assert (await deliveries[1]).offset == 2
            assert (await tasks[2]).offset == 3

    asyncio.run(run())


def test_a_cancelled_send_adds_nothing(broker, topic, make):
    async def run():
        async with make(batch_size=1_000, buffer_memory=3_000) as producer:
            await (await producer.send(topic, b"0"))
            broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=10_000)
            try:
                sent = 1
                with contextlib.suppress(TimeoutError):
                    while True:
                        await asyncio.wait_for(producer.send(topic, bytes(500)), 0.2)
                        sent += 1
            finally:
                broker.heal()
            await producer.flush()
        return sent

    sent = asyncio.run(run())
    assert len(values(broker, topic)) == sent


def test_a_cancelled_wait_for_a_topic(broker, make):
    async def run():
        async with make() as producer:
            await (await producer.send("t", b"x"))
            broker.pause()
            try:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(producer.send(f"new-{uuid.uuid4().hex}", b"x"), 0.2)
            finally:
                broker.resume()
            await (await producer.send("t", b"y"))

    asyncio.run(run())


# -- wrong calls ----------------------------------------------------------------------------------


def test_arguments_that_are_wrong(make):
    async def run():
        async with make(max_request_size=1_000, allow_auto_create_topics=False) as producer:
            with pytest.raises(
                RecordTooLargeError, match=r"2,000 bytes; max.request.size is 1,000"
            ):
                await producer.send("t", bytes(2_000))
            with pytest.raises(NoSuchTopicError, match="no such topic"):
                await producer.send("missing", b"x")
            with pytest.raises(NoSuchTopicError, match="no partition"):
                await producer.send("t", b"x", partition=2)
            with pytest.raises(TypeError, match="encode it first"):
                await producer.send("t", "text")
            with pytest.raises(ValueError, match="ms since 1970"):
                await producer.send("t", b"x", timestamp=-1)

    asyncio.run(run())


def test_calls_after_close(make):
    async def run():
        async with make() as producer:
            await producer.send("t", b"x")
        for call in (
            producer.send("t", b"x"),
            producer.send_values("t", [b"x"]),
            producer.flush(),
            producer.init_transactions(),
        ):
            with pytest.raises(ClosedError, match="closed"):
                await call
        await producer.close()

    asyncio.run(run())


def test_it_belongs_to_one_loop(make):
    producer = make()

    async def use():
        await (await producer.send("t", b"x"))

    async def close():
        await producer.close()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(use())
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            second.run(producer.flush())
        first.run(close())


def test_another_thread_is_refused(make):
    async def run():
        async with make() as producer:
            await (await producer.send("t", b"x"))

            def call():
                with asyncio.Runner() as runner:
                    for work in (producer.send("t", b"y"), producer.flush(), producer.close()):
                        with pytest.raises(RuntimeError, match="belongs to another event loop"):
                            runner.run(work)

            await asyncio.to_thread(call)
            assert (await (await producer.send("t", b"z"))).offset >= 0

    asyncio.run(run())


def test_close_ends_in_time_and_fails_what_is_left(broker, make):
    async def run():
        producer = make()
        await (await producer.send("t", b"x"))
        broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=10_000)
        try:
            delivery = await producer.send("t", b"x")
            waiting = asyncio.create_task(producer.flush())
            await asyncio.sleep(0)
            await producer.close(0.1)
        finally:
            broker.heal()
        with pytest.raises(ClosedError, match="before the record was written"):
            await delivery
        with pytest.raises((ClosedError, NotDeliveredError)):
            await waiting

    asyncio.run(run())


def test_a_child_process_cannot_use_it(make):
    async def run():
        async with make() as producer:
            await (await producer.send("t", b"x"))
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    producer.send("t", b"y").send(None)
                except ClosedError as error:
                    status = 0 if "before a fork" in str(error) else 2
                finally:
                    os._exit(status)
            _, status = os.waitpid(child, 0)  # noqa: ASYNC222  (it ends at once)
            assert os.waitstatus_to_exitcode(status) == 0
            await (await producer.send("t", b"z"))

    asyncio.run(run())


def test_nobody_closes_it(make):
    async def run():
        producer = make()
        await (await producer.send("t", b"x"))
        del producer
        with pytest.warns(ResourceWarning, match="was not closed"):
            gc.collect()

    asyncio.run(run())


# -- surroundings ---------------------------------------------------------------------------------


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]

    async def run():
        async with Producer(bootstrap_servers=f"127.0.0.1:{port}") as producer:
            with pytest.raises(UnreachableError, match="connection refused"):
                await producer.send("t", b"x")

    asyncio.run(run())


def test_a_name_with_two_addresses_of_which_one_is_dead(broker, make, monkeypatch):
    real = socket.getaddrinfo
    port = broker.bootstrap_servers.rpartition(":")[2]

    def resolve(host, *more, **others):
        if host != "two.test":
            return real(host, *more, **others)
        return [*real("127.0.0.2", *more, **others), *real("127.0.0.1", *more, **others)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def run():
        async with Producer(bootstrap_servers=f"two.test:{port}") as producer:
            await (await producer.send("t", b"x"))

    asyncio.run(run())


def test_tls_where_none_is_spoken(broker):
    async def run():
        settings = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL"}
        async with Producer(settings) as producer:
            with pytest.raises(UnreachableError, match="TLS handshake"):
                await producer.send("t", b"x")

    asyncio.run(run())


def test_a_full_buffer(broker, make):
    async def run():
        async with make(batch_size=1_000, buffer_memory=5_000, max_block_ms=2_000) as producer:
            await (await producer.send("t", b"x"))
            broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=10_000)
            try:
                with pytest.raises(BufferFullError, match=r"buffer\.memory is 5,000"):
                    await asyncio.gather(*(producer.send("t", bytes(500)) for _ in range(100)))
            finally:
                broker.heal()

    asyncio.run(run())


def test_a_loop_that_was_blocked(broker, topic, make, monkeypatch):
    """After a minute in which the loop did nothing, what has arrived counts, and the rest is sent again."""
    late_ns = 0

    async def run():
        nonlocal late_ns
        async with make(linger_ms=0) as producer:
            await (await producer.send(topic, b"0", partition=0))
            delivery = await producer.send(topic, b"1", partition=0)
            time.sleep(0.1)  # noqa: ASYNC251
            late_ns = 60_000_000_000
            assert (await delivery).offset == 1
            assert (await (await producer.send(topic, b"2", partition=0))).offset == 2

    clock = SimpleNamespace(monotonic_ns=lambda: time.monotonic_ns() + late_ns, sleep=time.sleep)
    monkeypatch.setattr(deadline, "time", clock)
    asyncio.run(run())
    assert values(broker, topic) == [b"0", b"1", b"2"]


def test_the_broker_restarts():
    async def run(broker):
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await (await producer.send("t", b"before"))
            await asyncio.get_running_loop().run_in_executor(None, broker.restart)
            assert (await (await producer.send("t", b"after"))).offset == 1

    with Broker(topics={"t": 1}) as broker:
        asyncio.run(run(broker))


def test_an_idle_producer_lets_the_loop_sleep(make):
    async def run():
        async with make() as producer:
            await (await producer.send("t", b"x"))
            turns = 0
            work = producer._driver.work

            def count():
                nonlocal turns
                turns += 1
                work()

            producer._driver.work = count
            await asyncio.sleep(0.7)
            assert turns <= 2

    asyncio.run(run())
