"""The cluster as clients of one listener see it.

A client gets the endpoints of the listener that it is connected to. If this node listens on all
addresses and `advertised.listeners` is not set, its own endpoint has no address that a client could
use: then the client gets the address that it connected to.
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
    """Created per request; reads from one image."""

    __slots__ = ("_addresses", "_brokers", "_online", "_own_id", "_places")

    def __init__(self, image: MetadataImage, config: BrokerConfig, peer: Peer) -> None:
        self._brokers = image.cluster.brokers
        self._own_id = config.node_id
        self._addresses = {
            broker.id: Address(endpoint.host, endpoint.port)
            for broker in self._brokers.values()
            if (endpoint := broker.listeners.get(peer.listener)) is not None
        }
        advertised = next((e for e in config.advertised_listeners if e.name == peer.listener), None)
        if (
            self._own_id in self._addresses
            and advertised is not None
            and advertised.host in WILDCARD_HOSTS
        ):
            self._addresses[self._own_id] = Address(peer.local_host, peer.local_port)
        self._online = {each for each in self._addresses if not self._brokers[each].fenced}
        self._places = {
            (each, directory)
            for each in self._online
            for directory in self._brokers[each].directories
        }

    def address(self, broker_id: int) -> Address | None:
        """Return the address of a registered broker, fenced or not; None if it lacks the listener."""
        return self._addresses.get(broker_id)

    def is_registered(self, broker_id: int) -> bool:
        """Whether there is such a broker, with any listeners."""
        return broker_id in self._brokers

    def brokers(self, with_fenced: bool = False) -> Iterator[tuple[BrokerRegistration, Address]]:
        """The brokers that clients of the listener can reach."""
        for broker_id, address in self._addresses.items():
            if with_fenced or broker_id in self._online:
                yield self._brokers[broker_id], address

    @property
    def controller_id(self) -> int:
        """Return a broker that forwards requests to the controller; in KRaft any broker does."""
        if self._own_id in self._online:
            return self._own_id
        return min(self._online, default=-1)

    def reachable(self, replicas: Sequence[int]) -> list[int]:
        """Return the replicas whose brokers have the listener."""
        return [replica for replica in replicas if replica in self._addresses]

    def offline(self, partition: PartitionRegistration) -> list[int]:
        """Return the offline replicas: fenced, without the listener, or on a failed disk."""
        return [
            place[0]
            for place in zip(partition.replicas, partition.directories, strict=True)
            if place not in self._places and not self._is_online(*place)
        ]

    def _is_online(self, replica: int, directory: bytes) -> bool:
        return replica in self._online and has_online_directory(self._brokers[replica], directory)
