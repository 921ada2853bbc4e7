"""The cluster as clients of one listener see it.

A broker is named to a client by the endpoint of the listener that the client came in by. Where
this node's own endpoint has no address that a client could use, because it listens on all
addresses and `advertised.listeners` is not set, the client is told the address that it dialled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.config.broker_config import BrokerConfig
from odradek.core.controller.state import has_online_directory
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.registrations import BrokerRegistration, PartitionRegistration
from odradek.network.peer import Peer

WILDCARD_HOSTS = frozenset(("", "0.0.0.0", "::"))  # noqa: S104  names for "any", nothing is bound


class Address(NamedTuple):
    """Where a client reaches a broker."""

    host: str
    port: int


class ListenerView:
    """Made per request; answers from one image."""

    __slots__ = ("_all_online", "_brokers", "_listener", "_own_address", "_own_id")

    def __init__(self, image: MetadataImage, config: BrokerConfig, peer: Peer) -> None:
        self._brokers = image.cluster.brokers
        self._listener = peer.listener
        self._own_id = config.node_id
        self._own_address: Address | None = None
        advertised = next((e for e in config.advertised_listeners if e.name == peer.listener), None)
        if advertised is not None and advertised.host in WILDCARD_HOSTS:
            self._own_address = Address(peer.local_host, peer.local_port)
        self._all_online = {
            broker.id
            for broker in self._brokers.values()
            if not broker.fenced and peer.listener in broker.listeners
        }

    def address(self, broker_id: int) -> Address | None:
        """Where a registered broker is reached, fenced or not; None if it lacks the listener."""
        broker = self._brokers.get(broker_id)
        endpoint = None if broker is None else broker.listeners.get(self._listener)
        if endpoint is None:
            return None
        if broker_id == self._own_id and self._own_address is not None:
            return self._own_address
        return Address(endpoint.host, endpoint.port)

    def is_registered(self, broker_id: int) -> bool:
        """Whether there is such a broker, by whatever listener."""
        return broker_id in self._brokers

    def brokers(self, with_fenced: bool = False) -> Iterator[tuple[BrokerRegistration, Address]]:
        """The brokers that clients of the listener can reach."""
        for broker in self._brokers.values():
            address = self.address(broker.id)
            if address is not None and (with_fenced or not broker.fenced):
                yield broker, address

    @property
    def controller_id(self) -> int:
        """A broker that passes requests on to the controller: in KRaft any one does."""
        if self._own_id in self._all_online:
            return self._own_id
        return min(self._all_online, default=-1)

    def reachable(self, replicas: Sequence[int]) -> list[int]:
        """Those that have the listener."""
        return [replica for replica in replicas if self.address(replica) is not None]

    def offline(self, partition: PartitionRegistration) -> list[int]:
        """Replicas that cannot serve: fenced, without the listener, or on a failed disk."""
        replicas, directories = partition.replicas, partition.directories
        if len(replicas) == 1 and replicas[0] in self._all_online:
            broker = self._brokers[replicas[0]]
            if directories[0] in broker.directories:
                return []
        return [
            replica
            for replica, directory in zip(replicas, directories, strict=True)
            if replica not in self._all_online
            or not has_online_directory(self._brokers[replica], directory)
        ]
