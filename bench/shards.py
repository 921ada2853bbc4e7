"""Measures one node and two shards on the same processors: `python -m bench.shards`.

A node serves its clients with one core. `odradek serve --shards 2` runs two nodes, and each leads
one of the two partitions of the topic. Four clients send Produce requests with acks=all, each with a
batch of a thousand records of 40 to 160 B, compressed with lz4. They are processes that send encoded
requests, so that the nodes need most of the CPU time.

The results are the rate of the records, and how many records the nodes append with one second of CPU
time. The clients need a part of the processors. Therefore two shards on two cores append less than
twice the records. With a core for each shard, and clients on other machines, the rate of N shards is
N times the second figure, if this figure does not depend on the number of shards.

Each trial uses new nodes, and begins with unmeasured load. One node of Apache Kafka runs beside them
as a comparison. It uses all cores.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from compat.lab.broker import BrokerFailed
from compat.lab.cluster import BOTH_ROLES, Cluster
from compat.lab.toolchain import Missing
from compat.lab.wire_client import decode_response, request_frame
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.build import prepared
from bench.clusters import Trials, Value, new_cluster
from bench.figures import OURS, THEIRS, Quantity
from bench.machine import facts
from bench.payloads import UNIFORM, draw_values
from bench.programs import CANNOT_RUN, add_common_options, run
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

TOPIC = "shards"
PARTITIONS = 2
CLIENTS = 4
IN_FLIGHT = 2
RECORDS = 1000
"""Records of a batch."""
VERSION = 12
WARM_UP_SECONDS, SECONDS = 5.0, 15.0
TIMEOUT_SECONDS = 60.0
ONE, TWO = "one node", "two shards"

RATE = {each: Quantity(f"records of {each}", "1/s", None, True) for each in (ONE, TWO)}
PER_CPU = {
    each: Quantity(f"records of {each} for a second of CPU", "1/s", None, True)
    for each in (ONE, TWO)
}
ROLES = {ONE: {1: BOTH_ROLES}, TWO: {1: BOTH_ROLES, 2: "broker"}}
"""The roles of the nodes. With two shards, the first one is the only controller."""
TRIALS = ((OURS, ONE), (OURS, TWO), (THEIRS, ONE))


def send_requests(port: int, partition: int, seconds: float) -> int:
    """Send Produce requests to the leader of a partition. Return the number of records."""
    batch = RecordBatchBuilder(codec=Codec.LZ4)
    now_ms = int(time.time() * 1000)
    for value in draw_values(UNIFORM, RECORDS):
        batch.append(now_ms, None, value)
    data = PartitionProduceData(index=partition, records=batch.build())
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    frame = request_frame("Produce", VERSION, request, 1)
    served = 0
    end = time.monotonic() + seconds
    with (
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as client,
        client.makefile("rb") as reader,
    ):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(frame)
        (size,) = struct.unpack(">i", reader.read(4))
        answer = reader.read(size)
        response = decode_response("Produce", VERSION, answer, ProduceResponse)
        code = response.responses[0].partition_responses[0].error_code
        if code:
            raise BrokerFailed(f"the request was refused: {code}")
        many = frame * IN_FLIGHT
        expected = (size + 4) * IN_FLIGHT
        while time.monotonic() < end:
            client.sendall(many)
            if len(reader.read(expected)) != expected:
                raise BrokerFailed("the connection ended")
            served += IN_FLIGHT * RECORDS
    return served


def measure(cluster: Cluster, nodes: str, seconds: float) -> list[Value]:
    """Return the records per second, and per second of the nodes' CPU time."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    leaders = [1 + index % len(cluster.nodes) for index in range(PARTITIONS)]
    topic = NewTopic(TOPIC, PARTITIONS, replica_assignment=[[each] for each in leaders])
    admin.create_topics([topic])[TOPIC].result()
    cluster.wait_until_in_sync([TOPIC])
    with ProcessPoolExecutor(CLIENTS, mp_context=get_context("spawn")) as pool:

        def load(seconds: float) -> int:
            clients = [
                pool.submit(
                    send_requests,
                    cluster.nodes[leaders[number % PARTITIONS]].port,
                    number % PARTITIONS,
                    seconds,
                )
                for number in range(CLIENTS)
            ]
            return sum(client.result() for client in clients)

        load(WARM_UP_SECONDS)
        before = sum(node.cpu_seconds() for node in cluster.brokers)
        served = load(seconds)
        spent = sum(node.cpu_seconds() for node in cluster.brokers) - before
    return [Value(RATE[nodes], served / seconds), Value(PER_CPU[nodes], served / spent)]


def main() -> int:
    """Run all trials, and store the result. Return the exit code: 2 if a trial has failed."""
    options = _parser().parse_args()
    machine = facts()
    trials = Trials("shards")
    try:
        build = prepared(options.mode)
        for number in range(options.rounds):
            for role, nodes in TRIALS if number % 2 == 0 else TRIALS[::-1]:
                trials.run(
                    f"{number + 1}/{options.rounds} {role:6} {nodes}",
                    role,
                    partial(new_cluster, role, build, roles=ROLES[nodes]),
                    partial(measure, nodes=nodes, seconds=options.seconds),
                )
    except Missing as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return CANNOT_RUN
    return trials.conclude(machine, options, is_trial=options.seconds != SECONDS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.shards", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of measured load")
    add_common_options(parser, rounds=3)
    return parser


if __name__ == "__main__":
    run(main)
