"""Connects the replication of partitions with the parts of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.broker.partitions.leading import IsrChanges, LeaderContext
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.replication.alter_partition_sender import AlterPartitionSender
from odradek.broker.replication.directory_assignments import DirectoryAssignments
from odradek.broker.replication.fetchers import Fetchers
from odradek.broker.replication.replication import PartitionReplication
from odradek.broker.replication.throttles import Throttles
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.registrations import Endpoint
from odradek.core.replica.follower import FetcherSettings
from odradek.env.clock import Clock
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes
from odradek.network.client import NodeClient
from odradek.network.client_machine import ClientSettings
from odradek.node.channels import Channels
from odradek.node.metrics.sources import ReplicationSources
from odradek.telemetry.rates import Rates


class BrokerReplication:
    """The replication of one broker. Use it only on the event loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        network: Network,
        random_bytes: RandomBytes,
        replicas: ReplicaManager,
        channels: Channels,
        broker_epoch: Callable[[], int],
    ) -> None:
        """Replicate the partitions of `replicas`, which must be empty."""
        loop = asyncio.get_running_loop()
        self.throttles = Throttles(config)
        self._sender = AlterPartitionSender(
            channels.isr_changes, config.node_id, broker_epoch, loop
        )
        self.isr_changes = IsrChanges()
        self.now_ms = clock.monotonic_ms
        self._now_ns = clock.monotonic_ns
        context = LeaderContext(
            node_id=config.node_id,
            now_ms=clock.monotonic_ms,
            broker_of=replicas.broker_of,
            lag_time_max_ms=config.replica_lag_time_max_ms,
            alter=self._sender.submit,
            tells_high_watermark=config.is_rack_aware,
            throttle=self.throttles.leader,
            isr_changes=self.isr_changes,
        )

        def connect(endpoint: Endpoint) -> NodeClient:
            settings = ClientSettings(connection_setup_timeout_ms=config.replica_socket_timeout_ms)
            return NodeClient(network, endpoint.host, endpoint.port, random_bytes, settings)

        self.fetchers = Fetchers(
            config.node_id,
            settings=FetcherSettings(
                wait_max_ms=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                response_bytes_max=config.replica_fetch_response_max_bytes,
                partition_bytes_max=config.replica_fetch_max_bytes,
                backoff_ms=config.replica_fetch_backoff_ms,
            ),
            timeout_ms=config.replica_socket_timeout_ms,
            listener=config.inter_broker_listener_name,
            broker_of=replicas.broker_of,
            broker_epoch=broker_epoch,
            connect=connect,
            when_flushed=replicas.logs.when_flushed,
            loop=loop,
            throttle=self.throttles.follower,
        )
        self._assignments = DirectoryAssignments(
            channels.requests, config.node_id, broker_epoch, loop
        )
        replicas.report_directories(self._assignments.report)
        self._replication = PartitionReplication(context, self.fetchers, loop)
        replicas.replicate(self._replication)

    def sources(self) -> ReplicationSources:
        """Return the parts that metrics are read from."""
        rates = Rates(self._now_ns)
        return ReplicationSources(
            self.fetchers, self.throttles, self.isr_changes, rates, self.now_ms
        )

    def close(self) -> None:
        """Stop fetching, and send no more changes of ISRs."""
        self._replication.close()
        self._sender.close()
        self._assignments.close()
