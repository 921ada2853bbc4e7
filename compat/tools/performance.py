"""The tools that measure; here only that they work and count right, and that quotas limit them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from compat.scenarios.stage import equal, eventually, holds
from compat.tools.workbench import Workbench, check


@check("ProducerPerformance")
def producer_performance(bench: Workbench) -> None:
    """10 000 records with each acknowledgement and codec are sent and are there."""
    runs = [("acks=all", "none"), ("acks=1", "lz4"), ("acks=0", "none"), ("acks=all", "zstd")]
    for index, (acks, codec) in enumerate(runs):
        topic = bench.topic(f"tool-producer-{index}", 2)
        properties = [acks, f"compression.type={codec}"]
        if acks != "acks=all":
            properties.append("enable.idempotence=false")
        words = ["--topic", topic, "--num-records", "10000", "--record-size", "100"]
        done = bench.tool(
            "ProducerPerformance", *words, "--throughput", "-1", "--command-property", *properties
        )
        done.says(r"^10000 records sent, [\d.]+ records/sec")
        ends = bench.tool("GetOffsetShell", "--topic", topic).lines()
        total = sum(int(line.rsplit(":", 1)[1]) for line in ends)
        equal(total, 10_000, f"records in the topic with {acks} and {codec}")


@check("ConsumerPerformance")
def consumer_performance(bench: Workbench) -> None:
    """10 000 records are consumed in a group."""
    topic = bench.topic("tool-consumer", 2)
    words = ["--topic", topic, "--num-records", "10000", "--record-size", "100"]
    bench.tool("ProducerPerformance", *words, "--throughput", "-1")
    done = bench.tool(
        "ConsumerPerformance", "--topic", topic, "--num-records", "10000", "--hide-header"
    )
    figures = done.lines()[-1].split(", ")
    equal(figures[4], "10000", "messages consumed")
    equal(figures[2], "0.9537", "MB consumed")


@check("EndToEndLatency")
def end_to_end_latency(bench: Workbench) -> None:
    """500 records go round one at a time, with keys and headers, the topic made by the tool."""
    words = ["--topic", "tool-latency", "--num-records", "500", "--producer-acks", "all"]
    words += ["--record-size", "100", "--record-key-size", "10", "--num-headers", "2"]
    done = bench.tool("EndToEndLatency", *words)
    average = float(done.find(r"^Avg latency: ([\d.]+) ms$")[1])
    holds(average > 0, f"average latency {average}")
    done.says(r"^Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+$")


QUOTA_BYTES = 50_000
"""Bytes per second. A client may exceed them until the rate over ten seconds is higher."""
THROTTLED_BYTES = 700_000
BATCH_BYTES = 20_000


@contextmanager
def limited(bench: Workbench, client_id: str, name: str) -> Iterator[None]:
    """Limit a client id, and remove the limit at the end."""
    tool, entity = "kafka.admin.ConfigCommand", ("--client", client_id)
    bench.tool(tool, "--alter", *entity, "--add-config", f"{name}={QUOTA_BYTES}")
    eventually(
        lambda: bench.tool(tool, "--describe", *entity).lines(), bool, f"the quota of {client_id}"
    )
    try:
        yield
    finally:
        bench.tool(tool, "--alter", *entity, "--delete-config", name)


def within_quota(seconds: float) -> None:
    """The rate over ten seconds before the last batch was at most the quota."""
    rate = (THROTTLED_BYTES - 2 * BATCH_BYTES) / (seconds + 11)
    holds(rate <= QUOTA_BYTES, f"{THROTTLED_BYTES} bytes in {seconds:.1f} s exceed the quota")


@check("ProducerPerformance throttled")
def throttled_producer(bench: Workbench) -> None:
    """A producer with a quota is slowed down to its rate, without an error."""
    topic, client_id = bench.topic("tool-throttled"), "tool-throttled-producer"
    words = ["--topic", topic, "--num-records", str(THROTTLED_BYTES // 1000)]
    properties = [f"client.id={client_id}", f"batch.size={BATCH_BYTES}", "linger.ms=50"]
    with limited(bench, client_id, "producer_byte_rate"):
        started = time.monotonic()
        done = bench.tool(
            "ProducerPerformance",
            *(*words, "--record-size", "1000", "--throughput", "-1"),
            *("--command-property", *properties),
        )
        within_quota(time.monotonic() - started)
    done.says(r"^700 records sent, [\d.]+ records/sec")
    equal(done.err.strip(), "", "what the producer said")
    total = bench.tool("GetOffsetShell", "--topic", topic).lines()
    equal(total, [f"{topic}:0:700"], "the end of the topic")


@check("ConsumerPerformance throttled")
def throttled_consumer(bench: Workbench) -> None:
    """A consumer with a quota is slowed down to its rate, without an error."""
    topic, client_id = bench.topic("tool-throttled-reads"), "tool-throttled-consumer"
    words = ["--topic", topic, "--num-records", str(THROTTLED_BYTES // 1000)]
    size = ["--record-size", "1000", "--throughput", "-1"]
    batches = ["--command-property", f"batch.size={BATCH_BYTES}"]
    bench.tool("ProducerPerformance", *words, *size, *batches)
    properties = bench.file(
        "throttled-consumer.properties",
        f"client.id={client_id}\nmax.partition.fetch.bytes={BATCH_BYTES}\n",
    )
    with limited(bench, client_id, "consumer_byte_rate"):
        started = time.monotonic()
        done = bench.tool(
            "ConsumerPerformance",
            *(*words, "--hide-header", "--timeout", "60000", "--command-config", properties),
        )
        within_quota(time.monotonic() - started)
    equal(done.lines()[-1].split(", ")[4], "700", "messages consumed")
