"""A node of Odradek and a node of Apache Kafka in one cluster, with SASL_SSL and ACLs everywhere.

Both read the files that `odradek secure init` wrote.
"""

import pytest
from compat.lab.cluster import QUICK_SETTINGS, ApacheMember, OdradekMember
from compat.lab.toolchain import Missing, free_port
from confluent_kafka import Consumer, Producer
from tests.cli.conftest import invoke

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.config.properties import parse_properties

FACTORS = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}


def properties(file):
    return parse_properties(file.read_bytes())


def nodes_known(client_settings, address):
    security = parse_security(client_settings)
    try:
        with Cluster(address, security=security, timeout_ms=5_000) as cluster:
            return sorted(cluster.refresh([]).nodes)
    except ClientError:
        return []


def member(kind, client_settings):
    """A node that is ready when it says to a client with SASL_SSL that it is a broker."""

    class Member(kind):
        def _serves(self):
            return self.node_id in nodes_known(client_settings, self.bootstrap)

    return Member


@pytest.mark.cluster
@pytest.mark.java
def test_replication_over_sasl_ssl(tmp_path):
    files = tmp_path / "secured"
    ports = {1: free_port(), 2: free_port()}
    controller_port = free_port()
    options = (w for each, port in ports.items() for w in ("--node", f"{each}@127.0.0.1:{port}"))
    assert invoke("secure", "init", files, *options).code == 0
    clients = properties(files / "librdkafka.properties")
    running = []
    try:
        for node_id, kind, roles in (
            (1, OdradekMember, "broker,controller"),
            (2, ApacheMember, "broker"),
        ):
            listeners = [f"SASL_SSL://127.0.0.1:{ports[node_id]}"]
            if "controller" in roles:
                listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
            settings = {
                **properties(files / f"server-{node_id}.properties"),
                **QUICK_SETTINGS,
                **FACTORS,
                "process.roles": roles,
                "listeners": ",".join(listeners),
                "advertised.listeners": listeners[0],
                "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
                "listener.name.controller.ssl.client.auth": "required",
            }
            made = member(kind, clients)(node_id, settings, tmp_path / str(node_id), ports[node_id])
            running.append(made)
            made.start()
        replicate(clients)
    except Missing as reason:
        pytest.skip(str(reason))
    finally:
        for each in reversed(running):
            each.close()


def replicate(clients):
    """Write to partitions that each node leads, until both replicas have all; then read."""
    with Cluster(clients["bootstrap.servers"], security=parse_security(clients)) as cluster:
        topic = NewTopic("a", assignments=[[1, 2], [2, 1]])
        assert not isinstance(create_topics(cluster, [topic])["a"], ClientError)
        errors = []
        producer = Producer({**clients, "acks": "all", "log_level": 0})
        for number in range(100):
            producer.produce(
                "a", b"%d" % number, partition=number % 2,
                on_delivery=lambda error, _: errors.append(error),
            )  # fmt: skip
        assert producer.flush(60) == 0
        assert errors == [None] * 100
        partitions = cluster.refresh(["a"]).topics["a"].partitions.values()
        assert [sorted(each.in_sync) for each in partitions] == [[1, 2], [1, 2]]
    consumer = Consumer(
        {**clients, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe(["a"])
    read = set()
    while len(read) < 100:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            read.add(int(record.value()))
    consumer.close()
