"""One client of Python does its work for `bench.client`: `python python_client.py JSON`.

The file is run by the interpreter of the measured build, outside of the package `bench`. The argument has the
library, the address, the shape of the records, the works, and a topic for each. For each work one line
is printed, with the CPU time of this process (user and system, all threads) and the time that passed. A work
begins when the client is made and ends when it is closed, or when the last record has been read. Before it is
measured, the work is done with a tenth of the records.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

BATCH_BYTES = 1_000_000
"""librdkafka's default of `batch.size`, used by all clients."""
LINGER_MS = 5
AT_ONCE = 10_000
"""How many records confluent-kafka is asked for at a time."""
UNDER_WAY_MAX = 10_000
"""How many records of aiokafka are not written at most."""


class Job:
    """What a work has to do."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.bootstrap: str = given["bootstrap"]
        self.codec: str = given["codec"]
        draw = random.Random(given["seed"])
        low, high = given["sizes"]
        pool = draw.randbytes(1 << 16)
        starts = (draw.randrange(len(pool) - high) for _ in range(given["records"]))
        self.values = [pool[at : at + draw.randint(low, high)] for at in starts]
        self.keys: list[bytes | None] = [None] * len(self.values)
        if given["has_keys"]:
            self.keys = [draw.randbytes(16) for _ in self.values]

    def part(self, count: int) -> Job:
        """Return a job with the first records."""
        made = copy.copy(self)
        made.values, made.keys = self.values[:count], self.keys[:count]
        return made

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.values)


def _producer_settings(job: Job) -> dict[str, Any]:
    """The settings that producers of both libraries understand."""
    return {
        "bootstrap.servers": job.bootstrap,
        "batch.size": BATCH_BYTES,
        "linger.ms": LINGER_MS,
        "compression.type": job.codec,
    }


# -- odradek ----------------------------------------------------------------------------------------


def _our_producer(job: Job) -> Any:
    from odradek.client import Producer

    return Producer(_producer_settings(job))


def _our_consumer(job: Job, topic: str) -> Any:
    from odradek.client import Consumer

    consumer = Consumer({"bootstrap.servers": job.bootstrap})
    consumer.assign([(topic, 0, 0)])
    return consumer


def our_send(job: Job, topic: str) -> None:
    """`send` with a callback for each record."""
    done = 0

    def delivered(_delivery: object) -> None:
        nonlocal done
        done += 1

    with _our_producer(job) as producer:
        for value, key in zip(job.values, job.keys, strict=True):
            producer.send(topic, value, key=key, on_delivery=delivered)
    assert done == job.count


def our_send_values(job: Job, topic: str) -> None:
    """`send_values` of ten thousand values at a time."""
    with _our_producer(job) as producer:
        for start in range(0, job.count, AT_ONCE):
            producer.send_values(topic, job.values[start : start + AT_ONCE])


def our_send_arrow(job: Job, topic: str) -> None:
    """`send_arrow` of a table of all values."""
    import pyarrow

    table = pyarrow.table({"value": pyarrow.array(job.values, pyarrow.binary())})
    with _our_producer(job) as producer:
        producer.send_arrow(topic, table)


def our_records_of_batches(job: Job, topic: str) -> None:
    """The records of `batches()` one by one."""
    count = size = 0
    with _our_consumer(job, topic) as consumer:
        for batch in consumer.batches():
            for record in batch:
                size += len(record.value)
                count += 1
            if count >= job.count:
                break
    assert size


def our_records(job: Job, topic: str) -> None:
    """`for record in consumer`."""
    count = size = 0
    with _our_consumer(job, topic) as consumer:
        for record in consumer:
            size += len(record.value)
            count += 1
            if count >= job.count:
                break
    assert size


def our_values(job: Job, topic: str) -> None:
    """`batch.values()`."""
    count = size = 0
    with _our_consumer(job, topic) as consumer:
        for batch in consumer.batches():
            for value in batch.values():
                size += len(value)
                count += 1
            if count >= job.count:
                break
    assert size


def our_arrow(job: Job, topic: str) -> None:
    """`batch.to_arrow()`."""
    count = 0
    with _our_consumer(job, topic) as consumer:
        for batch in consumer.batches():
            count += batch.to_arrow().num_rows
            if count >= job.count:
                break


async def our_aio_produce(job: Job, topic: str) -> None:
    """`await send`."""
    from odradek.client.aio import Producer

    async with Producer(_producer_settings(job)) as producer:
        for value, key in zip(job.values, job.keys, strict=True):
            await producer.send(topic, value, key=key)


async def our_aio_consume(job: Job, topic: str) -> None:
    """The records of `batches()` one by one."""
    from odradek.client.aio import Consumer

    count = size = 0
    async with Consumer({"bootstrap.servers": job.bootstrap}) as consumer:
        consumer.assign([(topic, 0, 0)])
        async for batch in consumer.batches():
            for record in batch:
                size += len(record.value)
                count += 1
            if count >= job.count:
                break
    assert size


# -- confluent-kafka --------------------------------------------------------------------------------


def _their_producer(job: Job) -> Any:
    from confluent_kafka import Producer

    return Producer(_producer_settings(job))


def _their_consumer(job: Job, topic: str) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": job.bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def their_produce(job: Job, topic: str) -> None:
    """`produce` with a callback for each record."""
    producer = _their_producer(job)
    done = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal done
        assert error is None
        done += 1

    for number, (value, key) in enumerate(zip(job.values, job.keys, strict=True)):
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()
    assert done == job.count


def their_produce_batch(job: Job, topic: str) -> None:
    """`produce_batch` of ten thousand values at a time, with a callback."""
    producer = _their_producer(job)
    done = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal done
        assert error is None
        done += 1

    for start in range(0, job.count, AT_ONCE):
        messages = [{"value": value} for value in job.values[start : start + AT_ONCE]]
        while messages:
            try:
                producer.produce_batch(topic, messages, on_delivery=delivered)
            except BufferError:
                producer.poll(0.05)
            else:
                messages = [each for each in messages if "_error" in each]
                for each in messages:
                    del each["_error"]
                producer.poll(0.05 if messages else 0)
    producer.flush()
    assert done == job.count


def their_consume(job: Job, topic: str) -> None:
    """`consume(10000)`."""
    consumer = _their_consumer(job, topic)
    count = size = 0
    while count < job.count:
        for message in consumer.consume(min(AT_ONCE, job.count - count), 1.0):
            size += len(message.value())
            count += 1
    consumer.close()
    assert size


def their_poll(job: Job, topic: str) -> None:
    """`poll`."""
    consumer = _their_consumer(job, topic)
    count = size = 0
    while count < job.count:
        message = consumer.poll(1.0)
        if message is not None:
            size += len(message.value())
            count += 1
    consumer.close()
    assert size


# -- aiokafka ---------------------------------------------------------------------------------------


async def aiokafka_produce(job: Job, topic: str) -> None:
    """`await send`, whose future is awaited later."""
    from aiokafka import AIOKafkaProducer

    codec = None if job.codec == "none" else job.codec
    producer = AIOKafkaProducer(
        bootstrap_servers=job.bootstrap,
        max_batch_size=BATCH_BYTES,
        linger_ms=LINGER_MS,
        compression_type=codec,
    )
    await producer.start()
    futures = []
    for value, key in zip(job.values, job.keys, strict=True):
        futures.append(await producer.send(topic, value, key))
        if len(futures) >= UNDER_WAY_MAX:
            await futures[0]
            futures = [each for each in futures if not each.done()]
    await producer.flush()
    await producer.stop()


async def aiokafka_consume(job: Job, topic: str) -> None:
    """`getmany`."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=job.bootstrap, enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    await consumer.start()
    consumer.seek(partition, 0)
    count = size = 0
    while count < job.count:
        found = await consumer.getmany(timeout_ms=1000, max_records=AT_ONCE)
        for message in found.get(partition, ()):
            size += len(message.value)
            count += 1
    await consumer.stop()
    assert size


WORKS: dict[str, Callable[[Job, str], Coroutine[Any, Any, None] | None]] = {
    each.__name__: each
    for each in (
        our_send,
        our_send_values,
        our_send_arrow,
        our_records_of_batches,
        our_records,
        our_values,
        our_arrow,
        our_aio_produce,
        our_aio_consume,
        their_produce,
        their_produce_batch,
        their_consume,
        their_poll,
        aiokafka_produce,
        aiokafka_consume,
    )
}


def _do(name: str, job: Job, topic: str) -> tuple[float, float]:
    """Do a work. Return the CPU time and the time that passed, in seconds."""
    began, cpu = time.monotonic(), time.process_time()
    result = WORKS[name](job, topic)
    if result is not None:
        asyncio.run(result)
    return time.process_time() - cpu, time.monotonic() - began


def main() -> None:
    """Do the works, and print what they cost."""
    given = json.loads(sys.argv[1])
    job = Job(given)
    for name, topic in given["works"].items():
        _do(name, job.part(job.count // 10), topic)
        cpu, wall = _do(name, job, topic)
        print(json.dumps({"work": name, "cpu": cpu, "wall": wall}), flush=True)


if __name__ == "__main__":
    main()
