"""The channels of a node to the active controller.

If this node is the only voter and has no controller listener, the active controller is always in
this process, and no connection is needed. Otherwise each kind of request has a connection of its
own, so that heartbeats do not wait behind the creation of topics. A node that is a controller
itself uses these connections only while it is not the active controller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.broker.controller.channel import ControllerChannel, LocalControllerChannel
from odradek.broker.controller.member_channel import MemberControllerChannel
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.controller.remote_channel import RemoteControllerChannel
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.raft.client import RaftClient
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
    find_is_remote: Callable[[], bool]
    connections: Sequence[RemoteControllerChannel] = ()

    @property
    def is_remote(self) -> bool:
        """Whether the active controller may be in another process now."""
        return self.find_is_remote()

    def close(self) -> None:
        """Close the connections; requests that wait fail."""
        for each in self.connections:
            each.close()


def local_channels(controller: QuorumController, replicas: ReplicaManager) -> Channels:
    """Return the channels to the controller in this process."""
    channel = LocalControllerChannel(controller, replicas.opened)
    return Channels(channel, channel, channel, lambda: False)


def remote_channels(
    config: BrokerConfig, raft: RaftClient, network: Network, random_bytes: RandomBytes
) -> Channels:
    """Return channels to the controller that the raft client follows."""
    made = _connections(config, raft, network, random_bytes)
    return Channels(*made, lambda: True, connections=made)


def member_channels(
    config: BrokerConfig,
    raft: RaftClient,
    network: Network,
    random_bytes: RandomBytes,
    controller: QuorumController,
    replicas: ReplicaManager,
) -> Channels:
    """Return the channels of a broker in the same process as a controller of the quorum."""
    local = LocalControllerChannel(controller, replicas.opened)
    made = _connections(config, raft, network, random_bytes)
    requests, lifecycle, isr_changes = (
        MemberControllerChannel(controller, local, each) for each in made
    )
    return Channels(
        requests, lifecycle, isr_changes, lambda: not raft.machine.is_only_voter, connections=made
    )


def controller_channel(
    config: BrokerConfig,
    raft: RaftClient,
    network: Network,
    random_bytes: RandomBytes,
    controller: QuorumController,
) -> MemberControllerChannel:
    """Return the channel of a controller for its own registration."""
    remote = _connection(config, raft, network, random_bytes, f"controller-{config.node_id}")
    return MemberControllerChannel(controller, LocalControllerChannel(controller), remote)


def _connections(
    config: BrokerConfig, raft: RaftClient, network: Network, random_bytes: RandomBytes
) -> tuple[RemoteControllerChannel, RemoteControllerChannel, RemoteControllerChannel]:
    """Return the connections for requests, for the lifecycle and for changes of the ISR."""

    def connection(timeout_ms: int) -> RemoteControllerChannel:
        name = f"broker-{config.node_id}"
        return _connection(config, raft, network, random_bytes, name, timeout_ms)

    lifecycle = connection(config.broker_session_timeout_ms // 2)
    return connection(TIMEOUT_MS), lifecycle, connection(TIMEOUT_MS)


def _connection(
    config: BrokerConfig,
    raft: RaftClient,
    network: Network,
    random_bytes: RandomBytes,
    client_id: str,
    timeout_ms: int = TIMEOUT_MS,
) -> RemoteControllerChannel:
    return RemoteControllerChannel(
        lambda: raft.controller,
        network,
        random_bytes,
        client_id=client_id,
        timeout_ms=timeout_ms,
        attempt_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
    )
