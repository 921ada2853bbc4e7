"""The sections of the node's metrics.

Metrics are computed only when they are read. Each section of metrics is a function that reads the
parts of the node and yields metrics with their rows. `odradek.telemetry.registry` reads the sections
on another thread. Therefore the functions first copy collections that may change, and then iterate
over the copies.

Apache Kafka has threads and queues where Odradek has one event loop. The metrics of such parts have
the nearest true meaning, which their documentation says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from odradek.node.metrics import (
    clients,
    groups,
    logs,
    network,
    partitions,
    quorum,
    quotas,
    replication,
    requests,
    server,
    share,
    topics,
    transactions,
)
from odradek.node.metrics.sources import BrokerSources, MetricSources
from odradek.telemetry.mbeans import Metric
from odradek.telemetry.registry import Section

OF_NODES: tuple[Callable[[MetricSources], Iterator[Metric]], ...] = (
    requests.requests,
    requests.waiting,
    network.connections,
    network.event_loop,
    quotas.clients,
    quotas.connections,
    quorum.metadata,
    quorum.quorum,
    quorum.channel,
    quorum.controller,
    server.disk,
)
"""The sections of every node."""
OF_BROKERS: tuple[Callable[[BrokerSources], Iterator[Metric]], ...] = (
    server.state,
    topics.topics,
    topics.rejections,
    partitions.logs,
    partitions.partitions,
    replication.replicas,
    replication.fetchers,
    logs.directories,
    logs.flushes,
    logs.cold_reads,
    logs.cleaner,
    requests.fetch_sessions,
    groups.coordinators,
    groups.groups,
    groups.offset_counts,
    groups.description_counts,
    groups.offsets,
    share.share_groups,
    share.topics,
    share.coordinator,
    share.records,
    share.dead_letters,
    transactions.transactions,
    transactions.verifications,
    clients.clients,
)
"""The sections of brokers."""


def sections(node: MetricSources) -> Iterator[Section]:
    """Yield the sections of a node."""
    for section in OF_NODES:
        yield partial(section, node)
    if node.of_broker is not None:
        for of_broker in OF_BROKERS:
            yield partial(of_broker, node.of_broker)
