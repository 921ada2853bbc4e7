"""Brokers in one event loop that replicate over real connections, with a scripted controller."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Self

from compat.lab.toolchain import free_port
from tests.log.support import BROKER_CONFIG, TOPIC_ID
from tests.replica.controller import Controller

from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.leading import LeaderContext
from odradek.broker.partitions.partition import Partition
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.replication.alter_partition_sender import AlterPartitionSender
from odradek.broker.replication.fetchers import Fetchers
from odradek.broker.replication.replication import PartitionReplication
from odradek.broker.replication.throttles import Throttles
from odradek.config.load import load
from odradek.core.metadata.image import (
    ClusterImage,
    Endpoint,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
    TopicsImage,
)
from odradek.core.replica.effects import IsrChange
from odradek.core.replica.follower import FetcherSettings
from odradek.core.session.fetch import FetchSessionCache
from odradek.env.clock import SystemClock
from odradek.env.executor import InlineExecutor
from odradek.env.file_system import OsFileSystem
from odradek.env.network import SocketNetwork
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.entry import Binding
from odradek.handlers.registry import SERVED
from odradek.log import LogManager
from odradek.network.client import NodeClient
from odradek.network.client_machine import ClientSettings
from odradek.network.listeners import bind
from odradek.network.server import Limits, Server
from odradek.node.serving import bound_to_broker
from odradek.wire.generated.alter_partition_response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)

TOPIC = "topic"
LISTENER = "TEST"
LAG_MS = 600
SETTINGS = FetcherSettings(wait_max_ms=50, backoff_ms=30)
CLIENT = ClientSettings(reconnect_backoff_ms=5, reconnect_backoff_max_ms=20)


class Node:
    """A broker that serves Produce, Fetch and ListOffsets."""

    def __init__(self, cluster: Cluster, node_id: int, path: Path) -> None:
        self.cluster = cluster
        self.id = node_id
        self.path = path
        self.network = SocketNetwork()
        self.endpoint = bind(self.network, LISTENER, "127.0.0.1", free_port())
        self.epoch = node_id
        self.server: Server | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.path.mkdir(exist_ok=True)
        settings = {"log.dirs": str(self.path), **self.cluster.node_settings}
        config, _ = load(None, settings, data_directory=str(self.path))
        self.logs = LogManager(
            config,
            OsFileSystem(),
            SystemClock(),
            os.urandom,
            topic_configs=lambda topic: config.topic_config(self.cluster.topic_settings),
            executor=InlineExecutor(),
        )
        self.logs.start()
        self.replicas = ReplicaManager(self.id, self.logs, loop)
        self.throttles = Throttles(config)
        self.sender = AlterPartitionSender(self.cluster, self.id, lambda: self.epoch, loop)
        context = LeaderContext(
            node_id=self.id,
            now_ms=lambda: int(loop.time() * 1000),
            broker_of=self.replicas.broker_of,
            lag_time_max_ms=LAG_MS,
            alter=self.sender.submit,
            tells_high_watermark=config.is_rack_aware,
            throttle=self.throttles.leader,
        )
        self.fetchers = fetchers = Fetchers(
            self.id,
            settings=SETTINGS,
            timeout_ms=500,
            listener=LISTENER,
            broker_of=self.replicas.broker_of,
            broker_epoch=lambda: self.epoch,
            connect=self._connect,
            when_flushed=self.logs.when_flushed,
            loop=loop,
            throttle=self.throttles.follower,
        )
        self.replication = PartitionReplication(context, fetchers, loop)
        self.replicas.replicate(self.replication)
        self.replicas.load(self.cluster.image)
        self.broker = SimpleNamespace(
            replicas=self.replicas,
            fetch_sessions=FetchSessionCache(100, lambda: int.from_bytes(os.urandom(3), "big")),
            cold_reads=ColdReads(self.logs.storage, loop),
            config=config if self.cluster.node_settings else BROKER_CONFIG,
            loop=loop,
            metadata=self.cluster,
            authorizer=None,
            quotas=None,
        )
        table = {}
        for key in (0, 1, 2):
            served = SERVED[key]
            bind_api = partial(bound_to_broker, self.broker, served)
            table[key] = Binding(served.version_min, served.version_max, bind_api)
        dispatcher = Dispatcher(table, SystemClock())
        self.server = Server(dispatcher, Limits(), [self.endpoint])
        self.server.start()

    def _connect(self, endpoint: Endpoint) -> NodeClient:
        return NodeClient(self.network, endpoint.host, endpoint.port, os.urandom, CLIENT)

    async def stop(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            self.replication.close()
            self.sender.close()
            self.replicas.expire_all()
            await server.drain(100)
            self.logs.shutdown()
            self.endpoint = bind(self.network, LISTENER, "127.0.0.1", self.endpoint.port)

    def partition(self, index: int = 0) -> Partition:
        return self.replicas.find(TOPIC, index)


class Cluster:
    """Three nodes; also the channel to the controller, and the cache of its metadata."""

    def __init__(
        self,
        path: Path,
        partitions: int = 1,
        node_settings: Mapping[str, str] | None = None,
        **topic_settings: str,
    ) -> None:
        self.node_settings = node_settings or {}
        self.topic_settings = {"min.insync.replicas": "2"} | topic_settings
        self.nodes = {each: Node(self, each, path / str(each)) for each in (1, 2, 3)}
        listeners = {
            each.id: {LISTENER: Endpoint(LISTENER, "127.0.0.1", each.endpoint.port, 0)}
            for each in self.nodes.values()
        }
        self.controller = Controller((1, 2, 3), partitions, self._publish, listeners)
        for each, broker in self.controller.brokers.items():
            self.controller.brokers[each] = broker._replace(rack=f"rack{each}")
        self.altered: list[tuple[int, ...]] = []
        """The ISRs that leaders have requested."""

    @property
    def image(self) -> MetadataImage:
        topic = TopicImage(TOPIC, TOPIC_ID, dict(enumerate(self.controller.partitions)))
        topics = TopicsImage({TOPIC: topic}, {TOPIC_ID: topic})
        return MetadataImage(cluster=ClusterImage(dict(self.controller.brokers)), topics=topics)

    def _publish(self, changes) -> None:
        partitions = {index: each for index, each in changes if index is not None}
        brokers = {each.id: each for index, each in changes if index is None}
        before = SimpleNamespace(partitions={})
        changed = {TOPIC_ID: SimpleNamespace(partitions=partitions, image_before=before)}
        delta = SimpleNamespace(
            topics=SimpleNamespace(deleted=(), changed=changed if partitions else {}),
            cluster=SimpleNamespace(brokers=SimpleNamespace(changed=brokers)),
        )
        image = self.image
        for node in self.nodes.values():
            if node.server is not None:
                node.replicas.publish(delta, image)

    async def submit(self, context, request) -> AlterPartitionResponse:
        """Change an ISR as the controller does."""
        await asyncio.sleep(0.002)
        response = AlterPartitionResponse()
        for topic in request.topics:
            result = TopicData(topic_id=topic.topic_id)
            for each in topic.partitions:
                isr = tuple((b.broker_id, b.broker_epoch) for b in each.new_isr_with_epochs)
                self.altered.append(tuple(broker_id for broker_id, _ in isr))
                change = IsrChange(each.leader_epoch, each.partition_epoch, isr)
                found = self.controller.alter(
                    request.broker_id, request.broker_epoch, each.partition_index, change
                )
                answer = PartitionData(partition_index=each.partition_index)
                if isinstance(found, PartitionRegistration):
                    answer.leader_id, answer.leader_epoch = found.leader, found.leader_epoch
                    answer.isr, answer.partition_epoch = list(found.isr), found.partition_epoch
                else:
                    answer.error_code = found
                result.partitions.append(answer)
            response.topics.append(result)
        return response

    async def __aenter__(self) -> Self:
        for node in self.nodes.values():
            node.start()
        return self

    async def __aexit__(self, *_) -> None:
        for node in self.nodes.values():
            await node.stop()
            node.endpoint.listener.close()

    async def stop(self, node_id: int) -> None:
        """Stop a node; the controller fences it."""
        await self.nodes[node_id].stop()
        self.controller.fence(node_id)

    def restart(self, node_id: int) -> None:
        node = self.nodes[node_id]
        node.epoch = self.controller.register(node_id)
        node.start()
        self.controller.unfence(node_id, node.epoch)

    async def until(self, condition, what: str) -> None:
        """Wait until a condition holds."""
        for _ in range(2000):
            if condition():
                return
            await asyncio.sleep(0.005)
        logs = [str(each.partition().log) for each in self.nodes.values() if each.server]
        raise AssertionError(f"never: {what}; {logs}, {self.controller.partitions}")
