"""A client of a simulated cluster, which sends each request to the broker that serves it.

The client asks for the leader of a partition with Metadata, and for a coordinator with
FindCoordinator. It keeps the answer until a connection fails, or until a broker responds that it is
not the leader or the coordinator.

A client with a rack reads from the replica that the leader names in a Fetch response (KIP-392). If
this replica responds with an error, the client asks the leader again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from odradek.env.network import Address
from odradek.model.errors import ErrorCode as E
from odradek.sim.client import Client
from odradek.sim.network import SimHost
from odradek.sim.simulation import Simulation
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import FetchResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.offset_commit_request import OffsetCommitRequest
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse
from odradek.wire.generated.offset_fetch_request import OffsetFetchRequest
from odradek.wire.generated.offset_fetch_response import OffsetFetchResponse
from odradek.wire.generated.produce_request import ProduceRequest
from odradek.wire.generated.produce_response import ProduceResponse
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.sync_group_request import SyncGroupRequest
from odradek.wire.generated.txn_offset_commit_request import TxnOffsetCommitRequest
from odradek.wire.generated.txn_offset_commit_response import TxnOffsetCommitResponse
from odradek.wire.primitives import Message

MOVED = frozenset(
    {
        E.NOT_LEADER_OR_FOLLOWER,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_COORDINATOR,
        E.COORDINATOR_NOT_AVAILABLE,
        E.KAFKA_STORAGE_ERROR,
        E.LEADER_NOT_AVAILABLE,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.REQUEST_TIMED_OUT,
    }
)
"""Errors after which the client looks for the leader or the coordinator again."""
GROUP, TRANSACTION = 0, 1
"""The key types of FindCoordinator."""

Destination = tuple[str, int] | tuple[int, str] | None
"""A partition (topic, index), a coordinator (key type, key), or None: any broker."""
ResponseT = TypeVar("ResponseT", bound=Message)


def destination_of(request: Message) -> Destination:
    """Return which broker serves a request. All partitions of the request have the same leader."""
    if isinstance(request, ProduceRequest):
        data = request.topic_data[0]
        return data.name, data.partition_data[0].index
    if isinstance(request, FetchRequest):
        topic = request.topics[0]
        return topic.topic, topic.partitions[0].partition
    if isinstance(
        request,
        JoinGroupRequest
        | SyncGroupRequest
        | HeartbeatRequest
        | OffsetCommitRequest
        | TxnOffsetCommitRequest
        | ShareGroupHeartbeatRequest,
    ):
        return GROUP, request.group_id
    if isinstance(request, OffsetFetchRequest):
        return GROUP, request.groups[0].group_id
    if isinstance(request, InitProducerIdRequest | EndTxnRequest) and request.transactional_id:
        return TRANSACTION, request.transactional_id
    return None


def error_of(response: Message) -> int:
    """Return the first error code of a response."""
    if isinstance(response, ProduceResponse):
        return response.responses[0].partition_responses[0].error_code
    if isinstance(response, FetchResponse):
        return response.error_code or response.responses[0].partitions[0].error_code
    if isinstance(response, OffsetCommitResponse | TxnOffsetCommitResponse):
        return response.topics[0].partitions[0].error_code
    if isinstance(response, OffsetFetchResponse):
        return response.groups[0].error_code
    code: int = getattr(response, "error_code", 0)
    return code


class Router(Client):
    """A client that knows the addresses of all brokers. It has a connection to each of them."""

    asks_former_leaders = True

    def __init__(
        self,
        simulation: Simulation,
        host: SimHost,
        brokers: Sequence[Address],
        name: str,
        rack: str = "",
    ) -> None:
        super().__init__(simulation, host, brokers[0], name)
        self.rack = rack
        self._by_id: dict[int, Address] = {}
        self._nearest: dict[Destination, Address] = {}
        """The replicas that leaders have named, for Fetch requests."""
        self._clients = {address: Client(simulation, host, address, name) for address in brokers}
        self._known: dict[Destination, Address] = {}
        self._any = simulation.random(f"{name} routing").randrange(len(brokers))

    async def ask_all(
        self, requests: Sequence[Message], version: int, response_class: type[ResponseT]
    ) -> list[ResponseT]:
        """Send each request to its broker. Return the responses in the order of the requests.

        Raises:
            OSError: as `Client.ask_all`; or a leader or coordinator is not known.
        """
        destinations = [destination_of(each) for each in requests]
        places: dict[Address, list[int]] = {}
        for number, destination in enumerate(destinations):
            address = None
            if isinstance(requests[number], FetchRequest):
                address = self._nearest.get(destination)
            places.setdefault(address or await self._find(destination), []).append(number)
        found: dict[int, ResponseT] = {}
        for address, numbers in places.items():
            wanted = [requests[each] for each in numbers]
            try:
                responses = await self._clients[address].ask_all(wanted, version, response_class)
            except OSError:
                for each in numbers:
                    self._forget(destinations[each])
                raise
            for each, response in zip(numbers, responses, strict=True):
                found[each] = response
                destination = destinations[each]
                if isinstance(response, FetchResponse):
                    self._choose_replica(destination, response)
                if error_of(response) in MOVED:
                    self._forget(destination)
        return [found[each] for each in range(len(requests))]

    def _choose_replica(self, destination: Destination, response: FetchResponse) -> None:
        """Apply the response to a Fetch request of one partition.

        Raises:
            OSError: the replica does not have the offset. The leader may have it.
        """
        error = error_of(response)
        was_near = destination in self._nearest
        if error:
            self._nearest.pop(destination, None)
            if was_near and error == E.OFFSET_OUT_OF_RANGE:
                raise ConnectionError("the replica is behind")
            return
        preferred = response.responses[0].partitions[0].preferred_read_replica
        if preferred in self._by_id:
            self._simulation.note(self.name, f"reads from {preferred}")
            self._nearest[destination] = self._by_id[preferred]

    def _forget(self, destination: Destination) -> None:
        self._nearest.pop(destination, None)
        self._known.pop(destination, None)
        self._any += 1

    async def _find(self, destination: Destination) -> Address:
        if destination is None:
            return self._address()
        known = self._known.get(destination)
        if known is None:
            try:
                known = await self._look(destination)
            except OSError:
                self._any += 1
                raise
            self._known[destination] = known
        return known

    def _address(self) -> Address:
        addresses = list(self._clients)
        return addresses[self._any % len(addresses)]

    async def _look(self, destination: tuple[str, int] | tuple[int, str]) -> Address:
        """Ask a broker for the address.

        Raises:
            OSError: the broker does not respond, or does not know the address.
        """
        client = self._clients[self._address()]
        first, second = destination
        if isinstance(first, str):
            topics = [MetadataRequestTopic(name=first)]
            metadata = await client.ask(MetadataRequest(topics=topics), 9, MetadataResponse)
            leaders = {
                each.partition_index: each.leader_id for each in metadata.topics[0].partitions
            }
            leader = leaders.get(int(second), -1)
            self._by_id.update(
                (each.node_id, Address(each.host, each.port)) for each in metadata.brokers
            )
            for broker in metadata.brokers:
                if broker.node_id == leader:
                    return Address(broker.host, broker.port)
            raise ConnectionError(f"{first}-{second} has no leader")
        request = FindCoordinatorRequest(key_type=first, coordinator_keys=[str(second)])
        found = (await client.ask(request, 4, FindCoordinatorResponse)).coordinators[0]
        if found.error_code:
            raise ConnectionError(f"the coordinator of {second} is not known")
        return Address(found.host, found.port)

    def to(self, address: Address) -> Client:
        """Return the client that has the connection to a broker."""
        return self._clients[address]

    def disconnect(self) -> None:
        """Close all connections."""
        for each in self._clients.values():
            each.disconnect()
