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
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import BrokerFailed
from compat.lab.cluster import APACHE, ODRADEK, Cluster, Member, Node, OdradekMember
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from compat.lab.wire_client import decode_response, request_frame
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.build import Build, add_mode, prepared
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.payloads import UNIFORM, draw_values
from bench.replication import MeasuredApacheMember
from bench.results import conclude
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
QUANTITIES = (*RATE.values(), *PER_CPU.values())
TRIALS = ((OURS, ONE), (OURS, TWO), (THEIRS, ONE))


def new_cluster(role: str, nodes: str, build: Build, path: Path) -> Cluster:
    """Return a node, or two nodes with the controller on the first, which are not started."""
    program = ODRADEK if role == OURS else APACHE
    members = {1: Member(program)}
    if nodes == TWO:
        members[2] = Member(program, roles="broker")
    kinds: dict[str, type[Node]] = {
        ODRADEK: build.measured(OdradekMember),
        APACHE: MeasuredApacheMember,
    }
    return Cluster(path, members, {}, kinds)


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


def trial(cluster: Cluster, seconds: float) -> tuple[float, float]:
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
    return served / seconds, served / spent


def main() -> int:
    """Run all trials, and store the result. Return the exit code: 2 if a trial has failed."""
    options = _parser().parse_args()
    figures = {each.name: Figure("shards", each) for each in QUANTITIES}
    machine = facts()
    try:
        build = prepared(options.mode)
        described: dict[str, object] = {}
        failures: list[str] = []
        for number in range(options.rounds):
            for role, nodes in TRIALS if number % 2 == 0 else TRIALS[::-1]:
                with tempfile.TemporaryDirectory(prefix="odradek-shards-") as path:
                    cluster = new_cluster(role, nodes, build, Path(path))
                    described[role] = cluster.nodes[1].described()
                    try:
                        cluster.start()
                        rate, per_cpu = trial(cluster, options.seconds)
                    except (BrokerFailed, KafkaException, OSError) as reason:
                        failures.append(f"round {number + 1}, {role}, {nodes}")
                        print(f"{failures[-1]} failed: {str(reason)[:1000]}", flush=True)
                        continue
                    finally:
                        for node in cluster.nodes.values():
                            node.kill()
                print(f"{number + 1}/{options.rounds} {role:8} {nodes}: {rate:.0f} {per_cpu:.0f}")
                figures[RATE[nodes].name].add(role, rate)
                figures[PER_CPU[nodes].name].add(role, per_cpu)
    except Missing as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    setup = {"kind": "setup", **described, "rounds": options.rounds, "failures": failures}
    names = {OURS: OdradekNode.name, THEIRS: ApacheKafka.name}
    is_trial = options.seconds != SECONDS
    code = conclude(
        [*figures.values()], names, machine, setup, is_trial=is_trial, output=options.output
    )
    return 2 if failures else code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.shards", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of measured load")
    parser.add_argument("--rounds", type=int, default=3)
    add_mode(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
