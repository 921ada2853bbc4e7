"""The channels of a broker to the active controller.

If this node is the only voter, the controller is in the same process. Otherwise each kind of
request has a connection of its own, so that heartbeats do not wait behind the creation of topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.broker.controller.channel import ControllerChannel, LocalControllerChannel
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.controller.remote_channel import RemoteControllerChannel
from odradek.broker.raft.client import RaftClient
from odradek.broker.replica_manager import ReplicaManager
from odradek.config.broker_config import BrokerConfig
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes

TIMEOUT_MS = 60_000
"""The time for a request that has no timeout of its own, as in Apache Kafka."""


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a broker."""

    requests: ControllerChannel
    """For requests of clients, and for blocks of producer ids."""
    lifecycle: ControllerChannel
    """For the registration and the heartbeats."""
    isr_changes: ControllerChannel
    is_remote: bool
    """Whether the active controller may be in another process."""
    connections: Sequence[RemoteControllerChannel] = ()

    def close(self) -> None:
        """Close the connections; requests that wait fail."""
        for each in self.connections:
            each.close()


def local_channels(controller: QuorumController, replicas: ReplicaManager) -> Channels:
    """Return the channels to the controller in this process."""
    channel = LocalControllerChannel(controller, replicas.opened)
    return Channels(channel, channel, channel, is_remote=False)


def remote_channels(
    config: BrokerConfig, raft: RaftClient, network: Network, random_bytes: RandomBytes
) -> Channels:
    """Return channels to the controller that the raft client follows."""

    def channel(timeout_ms: int) -> RemoteControllerChannel:
        return RemoteControllerChannel(
            lambda: raft.controller,
            network,
            random_bytes,
            client_id=f"broker-{config.node_id}",
            timeout_ms=timeout_ms,
            attempt_timeout_ms=config.controller_quorum_request_timeout_ms,
            retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        )

    requests, isr_changes = channel(TIMEOUT_MS), channel(TIMEOUT_MS)
    lifecycle = channel(config.broker_session_timeout_ms // 2)
    return Channels(
        requests,
        lifecycle,
        isr_changes,
        is_remote=True,
        connections=(requests, lifecycle, isr_changes),
    )
