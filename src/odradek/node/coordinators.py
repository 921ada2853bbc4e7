"""Creates the connections of a broker's coordinators to other brokers."""

from __future__ import annotations

from odradek.broker.coordinator.coordinators import CoordinatorChannels
from odradek.broker.peers.channels import BrokerChannels
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.registrations import Endpoint
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes
from odradek.network.client import NodeClient
from odradek.network.client_machine import ClientSettings


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
