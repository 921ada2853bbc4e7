"""Creates the share partitions of a broker, and connects them with the parts that they need."""

from __future__ import annotations

import asyncio

from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.coordinator.coordinators import Coordinators
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.peers.channels import BrokerChannels
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.broker.share.dead_letters import DeadLetterWriter
from odradek.broker.share.manager import SharePartitionManager
from odradek.broker.share.originals import Originals
from odradek.env.clock import Clock
from odradek.env.executor import Executor


def share_partitions(
    coordinators: Coordinators,
    topic_creation: TopicCreation,
    channels: BrokerChannels,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    dynamic: DynamicConfig,
    cold_reads: ColdReads,
    clock: Clock,
    executor: Executor,
) -> SharePartitionManager:
    """Create the manager of share partitions. `channels` are for its dead letters."""
    loop = asyncio.get_running_loop()
    dead_letters = DeadLetterWriter(
        dynamic.newest.node_id,
        replicas,
        channels,
        topic_creation,
        Originals(cold_reads, executor, loop),
        lambda: dynamic.newest,
        clock,
        loop,
    )
    return SharePartitionManager(
        replicas,
        coordinators.share_persister,
        dead_letters,
        metadata,
        lambda: dynamic.newest,
        cold_reads,
        clock,
        loop,
    )
