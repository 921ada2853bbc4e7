"""Nodes of one cluster in one process, on one event loop."""

import asyncio
import contextlib

from compat.lab.toolchain import free_port
from confluent_kafka import Consumer, Producer
from tests.raft.controllers import TIMES
from tests.raft.requests import ask

from odradek.config.load import load
from odradek.node.node import Node
from odradek.wire.generated.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SETTINGS = {
    **TIMES,
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "50",
    "offsets.topic.num.partitions": "2",
    "odradek.shutdown.timeout.ms": "1000",
}


def free_ports(count):
    """Ports that no other process of the tests gets, although nothing is bound to them yet."""
    return [free_port() for _ in range(count)]


class Cluster:
    """`nodes` has the running nodes by id."""

    listener = "PLAINTEXT"

    def __init__(self, path, roles, **settings):
        """`roles` has the process.roles of each node by id. In `settings`, {node} is its path."""
        self.path = path
        self.roles = roles
        ids = list(roles)
        self.ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        controllers = [each for each in ids if "controller" in roles[each]]
        self.controller_ports = dict(zip(controllers, free_ports(len(controllers)), strict=True))
        self.voters = ",".join(
            f"{each}@127.0.0.1:{port}" for each, port in self.controller_ports.items()
        )
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.client_settings = {}
        """Further settings of clients."""
        self.nodes = {}
        self.broker_count = sum("broker" in each for each in roles.values())

    def config(self, node_id):
        listeners = []
        if "broker" in self.roles[node_id]:
            listeners.append(f"{self.listener}://127.0.0.1:{self.ports[node_id]}")
        if node_id in self.controller_ports:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}")
        settings = {
            **SETTINGS,
            "process.roles": self.roles[node_id],
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": self.voters,
            "log.dirs": str(self.path / str(node_id)),
            "offsets.topic.replication.factor": str(self.broker_count),
            **self.listener_settings(node_id),
            **{
                name: value.replace("{node}", str(self.path / str(node_id)))
                for name, value in self.settings.items()
            },
        }
        return load(settings, {}).config

    def listener_settings(self, node_id):
        return {}

    async def start(self, *ids):
        made = {each: Node(self.config(each), cluster_id=CLUSTER_ID) for each in ids}
        await asyncio.gather(*(each.start() for each in made.values()))
        self.nodes.update(made)
        # A broker that is ready may not have read yet that the others are ready.
        await self.until(lambda: all(self._knows_all(each) for each in self.brokers()))

    def _knows_all(self, node):
        known = node.broker.metadata.image.cluster.brokers
        ids = (each.config.node_id for each in self.brokers())
        return all(each in known and not known[each].fenced for each in ids)

    async def stop(self, *ids):
        await asyncio.gather(*(self.nodes.pop(each).stop() for each in ids))

    async def kill_controller(self, node_id):
        """End a node that is only a controller: it sends nothing any more."""
        node = self.nodes.pop(node_id)
        node._metadata.publishers.close()
        node._metadata.raft.abandon()
        node.controller._deactivate()  # else its timer goes on to append NoOp records
        await node._controller.service.server.drain(0)
        await node._executor.close()
        node._storage.release()

    def brokers(self):
        return [each for each in self.nodes.values() if each.config.is_broker]

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{self.ports[each.config.node_id]}" for each in self.brokers())

    async def until(self, holds):
        """Wait; the test's own time limit ends a wait without end."""
        while not holds():
            assert not any(each.failed.is_set() for each in self.nodes.values())
            await asyncio.sleep(0.01)

    async def active(self):
        """The id of the active controller."""

        def found():
            return [
                each.config.node_id
                for each in self.nodes.values()
                if each.config.is_controller and each.controller.is_active
            ]

        await self.until(found)
        return found()[0]

    async def create(self, via, name, partitions=1, factor=1, assignments=()):
        """Create a topic. Without assignments, the controller places the replicas at random."""
        if assignments:
            partitions = factor = -1
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
                for index, each in enumerate(assignments)
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        answer = (await ask(self.ports[via], request, 7)).topics[0]
        assert answer.error_code == 0, answer
        await self.until(
            lambda: all(
                name in each.broker.metadata.image.topics.by_name for each in self.brokers()
            )
        )

    def partition(self, via, topic, index=0):
        return self.nodes[via].broker.metadata.partition(topic, index)

    async def produce(self, topic, values):
        """Append records with acks=all, and wait until they are committed."""
        await asyncio.to_thread(self._produce, topic, values)

    def _produce(self, topic, values):
        errors = []
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
                **self.client_settings,
            }
        )
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        assert errors == [None] * len(values)

    async def consume(self, topic, count, group):
        """The values of the first records of a topic, read by a group."""
        return await asyncio.to_thread(self._consume, topic, count, group)

    def _consume(self, topic, count, group):
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **self.client_settings,
            }
        )
        consumer.subscribe([topic])
        values = []
        silent = 0
        while len(values) < count and silent < 40:
            record = consumer.poll(1)
            if record is not None and record.error() is None:
                values.append(record.value())
            else:
                silent += 1
        consumer.close()
        return values


@contextlib.asynccontextmanager
async def cluster(path, roles, **settings):
    made = Cluster(path, roles, **settings)
    await made.start(*roles)
    try:
        yield made
    finally:
        brokers = [each.config.node_id for each in made.brokers()]
        await made.stop(*brokers)
        await made.stop(*made.nodes)
