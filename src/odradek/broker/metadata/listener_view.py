"""The cluster as clients of one listener see it.

A client gets the endpoints of the listener that it is connected to. If this node listens on all
addresses and `advertised.listeners` is not set, other nodes know this one by the name of its machine,
which not every client can look up. So the client gets the address that it has connected to. It gets
the same address, with another port, for other nodes of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.config.broker_config import BrokerConfig
from odradek.core.controller.state import has_online_directory
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.registrations import BrokerRegistration, PartitionRegistration
from odradek.network.peer import Peer


class Address(NamedTuple):
    """The host and port at which clients reach a broker."""

    host: str
    port: int


class ListenerView:
    """The brokers of one image and their addresses for one client. Create it for each request."""

    __slots__ = ("_addresses", "_brokers", "_online", "_own_id", "_places")

    def __init__(self, image: MetadataImage, config: BrokerConfig, peer: Peer) -> None:
        self._brokers = image.cluster.brokers
        self._own_id = config.node_id
        self._addresses = {
            broker.id: Address(endpoint.host, endpoint.port)
            for broker in self._brokers.values()
            if (endpoint := broker.listeners.get(peer.listener)) is not None
        }
        is_derived = any(
            each.is_wildcard and each.name not in config.advertised_by_setting
            for each in config.advertised_listeners
            if each.name == peer.listener
        )
        own = self._addresses.get(self._own_id)
        if own is not None and is_derived:
            for each, (host, port) in self._addresses.items():
                if host == own.host:
                    self._addresses[each] = Address(peer.local_host, port)
            self._addresses[self._own_id] = Address(peer.local_host, peer.local_port)
        self._online = {each for each in self._addresses if not self._brokers[each].fenced}
        self._places = {
            (each, directory)
            for each in self._online
            for directory in self._brokers[each].directories
        }

    def address(self, broker_id: int) -> Address | None:
        """Return the address of a broker, which may be fenced.

        Return None if the broker is not registered or lacks the listener.
        """
        return self._addresses.get(broker_id)

    def serves(self, broker_id: int) -> bool:
        """Whether a broker is alive and has the listener.

        A fenced broker keeps the partitions that have no other replica, but serves no clients.
        """
        return broker_id in self._online

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced, with or without the listener."""
        broker = self._brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def brokers(self, with_fenced: bool = False) -> Iterator[tuple[BrokerRegistration, Address]]:
        """Yield the brokers that have the listener. `with_fenced` includes fenced brokers."""
        for broker_id, address in self._addresses.items():
            if with_fenced or broker_id in self._online:
                yield self._brokers[broker_id], address

    @property
    def controller_id(self) -> int:
        """The id of a broker that forwards requests to the controller; -1 if none is available.

        In KRaft mode every broker forwards requests to the controller.
        """
        if self._own_id in self._online:
            return self._own_id
        return min(self._online, default=-1)

    def reachable(self, replicas: Sequence[int]) -> list[int]:
        """Return the replicas whose brokers have the listener."""
        return [replica for replica in replicas if replica in self._addresses]

    def offline(self, partition: PartitionRegistration) -> list[int]:
        """Return the offline replicas.

        A replica is offline if its log directory has failed, or if its broker is not registered, is
        fenced or lacks the listener.
        """
        return [
            place[0]
            for place in zip(partition.replicas, partition.directories, strict=True)
            if place not in self._places and not self._is_online(*place)
        ]

    def _is_online(self, replica: int, directory: bytes) -> bool:
        return replica in self._online and has_online_directory(self._brokers[replica], directory)
