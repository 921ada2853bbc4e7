"""The parts of a node that metrics are read from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.broker import Broker
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.metadata.publisher import Publishers
from odradek.broker.metadata.snapshot_generator import SnapshotGenerator
from odradek.broker.partitions.leading import IsrChanges
from odradek.broker.raft.client import RaftClient
from odradek.broker.replication.fetchers import Fetchers
from odradek.broker.replication.throttles import Throttles
from odradek.env.event_loop import NodeSelector
from odradek.handlers.dispatch import Dispatcher
from odradek.network.server import Server
from odradek.node.metrics.elections import Elections
from odradek.telemetry.rates import Rates


class ReplicationSources(NamedTuple):
    """The parts of the replication between brokers."""

    fetchers: Fetchers
    throttles: Throttles
    isr_changes: IsrChanges
    rates: Rates
    """The rates of Fetch requests, by leader."""
    now_ms: Callable[[], int]


class BrokerSources(NamedTuple):
    """The parts of a broker."""

    broker: Broker
    replication: ReplicationSources


class MetadataSources(NamedTuple):
    """The parts of the node's metadata."""

    raft: RaftClient
    cache: MetadataCache
    publishers: Publishers
    loader: MetadataLoader
    snapshots: SnapshotGenerator


class ControllerSources(NamedTuple):
    """The parts of a controller."""

    controller: QuorumController
    elections: Elections


class MetricSources(NamedTuple):
    """The parts of a node that metrics are read from."""

    node_id: int
    metadata: MetadataSources
    of_broker: BrokerSources | None
    """None on a node that is only a controller."""
    of_controller: ControllerSources | None
    """None on a node that is only a broker."""
    server: Server
    dispatcher: Dispatcher
    selector: NodeSelector | None
    quotas: QuotaManagers
    wall_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]
