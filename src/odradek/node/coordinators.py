"""Creates the coordinators of a broker and connects them with the parts that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.controller.channel import ControllerChannel
from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.coordinator.coordinators import Coordinators
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.latest_offsets import LatestOffsets
from odradek.broker.coordinator.marker_sender import MarkerSender
from odradek.broker.coordinator.markers import MarkerWriter
from odradek.broker.coordinator.membership import RemoteMembership
from odradek.broker.coordinator.producer_ids import ProducerIds
from odradek.broker.coordinator.replicas import ReplicaTopic
from odradek.broker.coordinator.share_coordinator import ShareCoordinator
from odradek.broker.coordinator.share_groups import ShareGroups
from odradek.broker.coordinator.share_persister import SharePersister
from odradek.broker.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.broker.coordinator.verification import Verification
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.peers.channels import BrokerChannels
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.registrations import Endpoint
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes
from odradek.model.topic_name import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from odradek.network.client import NodeClient
from odradek.network.client_machine import ClientSettings


class CoordinatorChannels(NamedTuple):
    """The connections to other brokers. Those of each kind do not wait for the other kind."""

    markers: BrokerChannels
    membership: BrokerChannels
    share_state: BrokerChannels
    latest_offsets: BrokerChannels
    dead_letters: BrokerChannels

    def close(self) -> None:
        """Close the connections; requests that wait fail."""
        for each in self:
            each.close()


def channels_to_brokers(
    config: BrokerConfig, network: Network, random_bytes: RandomBytes
) -> CoordinatorChannels:
    """Create the connections of a broker. They must be installed as publishers."""
    settings = ClientSettings(in_flight_max=1, fails_fast=True)

    def connect(endpoint: Endpoint) -> NodeClient:
        return NodeClient(network, endpoint.host, endpoint.port, random_bytes, settings)

    def channels(purpose: str) -> BrokerChannels:
        return BrokerChannels(
            connect,
            listener=config.inter_broker_listener_name,
            client_id=f"broker-{config.node_id}-{purpose}",
            request_timeout_ms=config.request_timeout_ms,
        )

    return CoordinatorChannels(
        channels("txn-marker-sender"),
        channels("add-partitions-to-txn"),
        channels("share-persister"),
        channels("partition-metadata-client"),
        channels("share-dead-letters"),
    )


def compose(
    dynamic: DynamicConfig,
    clock: Clock,
    random_bytes: RandomBytes,
    replicas: ReplicaManager,
    controller: ControllerChannel,
    topic_creation: TopicCreation,
    channels: CoordinatorChannels,
    broker_epoch: Callable[[], int],
    loop: asyncio.AbstractEventLoop,
    executor: Executor,
    on_loaded: Callable[[int], None],
) -> Coordinators:
    """Create the coordinators.

    `broker_epoch` returns the epoch of this broker's registration. `on_loaded` is called with the
    number of records of each partition that a coordinator has loaded.
    """
    config = dynamic.base
    groups = GroupCoordinator(
        config,
        clock,
        random_bytes,
        ReplicaTopic(replicas, OFFSETS_TOPIC),
        loop,
        executor,
        on_loaded,
    )
    producer_ids = ProducerIds(config.node_id, broker_epoch, controller, clock, loop)
    markers = MarkerWriter(replicas, groups, clock, loop, config.request_timeout_ms)
    transactions = TransactionCoordinator(
        config,
        clock,
        ReplicaTopic(replicas, TRANSACTION_TOPIC),
        producer_ids,
        MarkerSender(config.node_id, markers, channels.markers, loop),
        loop,
        executor,
        on_loaded,
    )
    remote = RemoteMembership(config.node_id, channels.membership, loop)
    verification = Verification(transactions, remote, lambda: dynamic.newest, clock)
    shares = ShareCoordinator(
        config, clock, ReplicaTopic(replicas, SHARE_STATE_TOPIC), loop, executor, on_loaded
    )
    persister = SharePersister(
        config.node_id, shares, channels.share_state, topic_creation, random_bytes, loop
    )
    share_groups = ShareGroups(
        groups.shard_of,
        persister,
        LatestOffsets(config.node_id, replicas, channels.latest_offsets).find,
        lambda: channels.share_state.image,
        loop,
    )
    groups.delete_states_with(share_groups.delete_states)
    return Coordinators(
        groups,
        producer_ids,
        markers,
        transactions,
        verification,
        shares,
        persister,
        share_groups,
    )
