"""Measures the codecs of the most frequent messages: `python -m bench.wire_micro`.

The results are microseconds per call in a process with one thread. Each result is the best of
several runs, because the other runs contain noise. A broker decodes requests and encodes responses.
Clients encode requests and decode responses.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from odradek.wire.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.primitives import Message

RECORDS = bytes(16_384)
TOPIC_ID = bytes(range(16))


def samples() -> dict[str, tuple[Message, int]]:
    """Return the measured messages, each with a version."""
    partition = PartitionProduceData(index=3, records=RECORDS)
    topic = TopicProduceData(name="orders", topic_id=TOPIC_ID, partition_data=[partition])
    produce = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    stored = PartitionProduceResponse(index=3, base_offset=123_456, log_start_offset=0)
    answer = TopicProduceResponse(name="orders", topic_id=TOPIC_ID, partition_responses=[stored])
    produced = ProduceResponse(responses=[answer])
    return {
        "RequestHeader v2": (RequestHeader(request_api_key=0, client_id="producer-1"), 2),
        "ProduceRequest v9, 1 partition": (produce, 9),
        "ProduceRequest v13, 1 partition": (produce, 13),
        "ProduceResponse v9": (produced, 9),
        "ProduceResponse v13": (produced, 13),
        "FetchRequest v12, 1 partition": (_fetch(1), 12),
        "FetchRequest v17, 50 partitions": (_fetch(50), 17),
        "FetchResponse v17, 1 partition": (_fetched(1), 17),
        "FetchResponse v17, 50 partitions": (_fetched(50), 17),
        "MetadataResponse v12, 100 partitions": (_metadata(100), 12),
    }


def _fetch(count: int) -> FetchRequest:
    partitions = [
        FetchPartition(partition=n, fetch_offset=1000, partition_max_bytes=1 << 20)
        for n in range(count)
    ]
    topic = FetchTopic(topic="orders", topic_id=TOPIC_ID, partitions=partitions)
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])


def _fetched(count: int) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=n, high_watermark=9, last_stable_offset=9, records=RECORDS)
        for n in range(count)
    ]
    topic = FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=partitions)
    return FetchResponse(responses=[topic])


def _metadata(count: int) -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(
            partition_index=n, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for n in range(count)
    ]
    topic = MetadataResponseTopic(name="orders", topic_id=TOPIC_ID, partitions=partitions)
    brokers = [MetadataResponseBroker(node_id=n, host="localhost", port=9092) for n in (1, 2, 3)]
    return MetadataResponse(brokers=brokers, cluster_id="cluster", topics=[topic])


def best_microseconds(call: Callable[[], Any], seconds: float) -> float:
    """Return the microseconds per call in the fastest of ten runs of `seconds` / 10 each."""
    count, best = 1, float("inf")
    while True:
        started = time.perf_counter()
        for _ in range(count):
            call()
        elapsed = time.perf_counter() - started
        if elapsed > seconds / 10:
            break
        count *= 2
    for _ in range(10):
        started = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - started) / count)
    return best * 1e6


def measure(seconds: float) -> dict[str, dict[str, float]]:
    """Return the microseconds to decode and to encode each sample."""
    results: dict[str, dict[str, float]] = {}
    for name, (message, version) in samples().items():
        frame = memoryview(message.encode(version))
        decode, encode = message.DECODERS[version], message.ENCODERS[version]
        results[name] = {
            "decode": best_microseconds(lambda d=decode, f=frame: d(f, 0), seconds),  # type: ignore[misc]
            "encode": best_microseconds(lambda e=encode, m=message: e(m, [].append), seconds),  # type: ignore[misc]
        }
    return results


def main() -> None:
    """Measure all samples, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each figure")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = measure(arguments.seconds)
    if arguments.json:
        print(json.dumps({"python": sys.version.split()[0], "microseconds": results}))
        return
    print(f"Python {sys.version.split()[0]}, microseconds per call")
    for name, figures in results.items():
        print(f"{name:40} decode {figures['decode']:8.2f}   encode {figures['encode']:8.2f}")


if __name__ == "__main__":
    main()
