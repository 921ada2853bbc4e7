"""The tools that measure; here only that they work and count right."""

from __future__ import annotations

from compat.scenarios.stage import equal, holds
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
