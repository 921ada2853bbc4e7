"""`odradek bench`: a quick measurement of a running broker with Odradek's client.

The command has three parts. First it produces records as fast as possible for `--duration`. Then it
consumes all of them. Last it sends single records to a waiting consumer for `--duration`, to
measure the end-to-end latency. The command uses one process and one thread, so it often measures
this client rather than the broker. The benchmark in `bench/` compares Odradek with Apache Kafka and
uses other clients.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from odradek.cli.meter import Meter
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, note, number, print_json, print_table
from odradek.cli.values import DURATION
from odradek.client.admin.topics import NewTopic, create_topics, delete_topics
from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import assigned_consumer, read_to_ends
from odradek.client.errors import ClientError
from odradek.client.offsets import LATEST, offsets_at
from odradek.client.producer import Producer, ProducerBatch
from odradek.model.topic_partition import TopicPartition
from odradek.operations.texts import duration_text, size_text
from odradek.records.compression import Codec

_PERCENTILES = (50, 95, 99, 100)
_LATENCY_WAIT_SECONDS = 5.0


@click.command()
@click.option(
    "--topic", metavar="TOPIC", help="An existing topic. By default a temporary topic is created."
)
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True, metavar="N")
@click.option(
    "--size",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    metavar="BYTES",
    help="Size of a record's value.",
)
@click.option(
    "--batch-size", type=click.IntRange(1), default=65_536, show_default=True, metavar="BYTES"
)
@click.option(
    "--compression",
    "-z",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--duration",
    type=DURATION,
    default=3000,
    help="How long to produce, and then how long to measure latency.  [default: 3s]",
)
@json_option
@cluster_options
def bench(
    topic: str | None,
    partitions: int,
    size: int,
    batch_size: int,
    compression: str,
    acks: str,
    duration: int,
    as_json: bool,
) -> None:
    """Measure the throughput and the end-to-end latency of a running broker.

    \b
    Examples:
      odradek bench
      odradek bench --size 100 --compression lz4 --duration 10s
    """
    if not duration:
        raise click.BadParameter("must be longer than nothing", param_hint="--duration")
    options: dict[str, object] = {
        "acks": acks,
        "compression.type": compression,
        "batch.size": batch_size,
        "buffer.memory": max(10 * batch_size * partitions, 2 * size),
        "max.request.size": max(1 << 20, 2 * size),
        "allow.auto.create.topics": False,
    }
    with connected() as cluster, _topic(cluster, topic, partitions) as name:
        keys = [TopicPartition(name, index) for index in cluster.topic(name).partitions]
        starts = offsets_at(cluster, keys, LATEST)
        results = [
            _produce(cluster, name, options, size, duration),
            _consume(cluster, starts),
            _end_to_end(cluster, keys[0], size, duration),
        ]
    if as_json:
        print_json({result.name: result.as_json() for result in results})
        return
    columns = [
        Column("Part"),
        number("Records/s"),
        number("Bytes/s"),
        *(number("max" if p == 100 else f"p{p}") for p in _PERCENTILES),
    ]
    print_table(columns, (result.row() for result in results))
    note("The latency of produce is the time from a batch's first record to its acknowledgement.")


class _Result:
    """The measurements of one part; `latencies_ms` may be empty."""

    def __init__(
        self, name: str, records: int, size: int, seconds: float, latencies_ms: Sequence[float]
    ) -> None:
        self.name = name
        self.records_per_second = records / seconds
        self.bytes_per_second = size / seconds
        ordered = sorted(latencies_ms)
        self.percentiles = {p: _percentile(ordered, p) for p in _PERCENTILES if ordered}

    def row(self) -> list[object]:
        """The result as a row of text."""
        return [
            self.name,
            f"{self.records_per_second:,.0f}",
            size_text(round(self.bytes_per_second)),
            *(
                duration_text(self.percentiles[p]) if p in self.percentiles else None
                for p in _PERCENTILES
            ),
        ]

    def as_json(self) -> dict[str, object]:
        """The result as JSON."""
        return {
            "records_per_second": round(self.records_per_second, 1),
            "bytes_per_second": round(self.bytes_per_second),
            "latency_ms": {f"p{p}": round(v, 3) for p, v in self.percentiles.items()},
        }


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


@contextmanager
def _topic(cluster: Cluster, name: str | None, partitions: int) -> Iterator[str]:
    """Yield the topic to use: `name`, or a new topic that is deleted afterwards."""
    if name is not None:
        yield name
        return
    name = f"odradek-bench-{os.urandom(4).hex()}"
    created = create_topics(cluster, [NewTopic(name, partitions)])[name]
    if isinstance(created, ClientError):
        raise created
    try:
        yield name
    finally:
        delete_topics(cluster, [name])


def _produce(
    cluster: Cluster, topic: str, options: Mapping[str, object], size: int, duration_ms: int
) -> _Result:
    latencies: list[float] = []

    def on_batch(batch: ProducerBatch) -> None:
        latencies.append(time.monotonic_ns() / 1e6 - batch.created_ms)

    value = os.urandom(size)
    end = time.monotonic() + duration_ms / 1000
    with Meter() as meter:
        with Producer(cluster, options, on_batch=on_batch) as producer:
            while time.monotonic() < end:
                for _ in range(100):
                    producer.send(topic, value)
                meter.add(100, 100 * size)
        return _Result("produce", meter.records, meter.bytes, meter.seconds, latencies)


def _consume(cluster: Cluster, starts: dict[TopicPartition, int]) -> _Result:
    ends = offsets_at(cluster, starts, LATEST)
    with Meter(total=sum(ends.values()) - sum(starts.values())) as meter:
        for batch in read_to_ends(cluster, starts):
            values = batch.values()
            meter.add(len(values), sum(len(each or b"") for each in values))
        return _Result("consume", meter.records, meter.bytes, meter.seconds, ())


def _end_to_end(cluster: Cluster, key: TopicPartition, size: int, duration_ms: int) -> _Result:
    """Send one record at a time to a consumer whose fetch waits at the broker."""
    latencies: list[float] = []
    value = os.urandom(size)
    with (
        Meter() as meter,
        Producer(cluster, allow_auto_create_topics=False) as producer,
        assigned_consumer(cluster, offsets_at(cluster, [key], LATEST)) as consumer,
    ):
        consumer.poll(0.1)
        end = time.monotonic() + duration_ms / 1000
        while time.monotonic() < end:
            sent = time.monotonic_ns()
            producer.send(key.topic, value, partition=key.partition)
            producer.flush()
            if consumer.poll(_LATENCY_WAIT_SECONDS) is None:
                raise click.ClickException("a record did not arrive; was it deleted?")
            latencies.append((time.monotonic_ns() - sent) / 1e6)
            meter.add(1, size)
        return _Result("end to end", meter.records, meter.bytes, meter.seconds, latencies)
