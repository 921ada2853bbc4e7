"""Requests to other brokers: versions, lost connections, and registrations that change."""

from __future__ import annotations

import asyncio
import os
import struct

import pytest

from odradek.broker.peers.channels import BrokerChannels, BrokerUnreachable, UnsupportedByBroker
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import ClusterImage, MetadataImage
from odradek.core.metadata.registrations import BrokerRegistration, Endpoint
from odradek.env.network import SocketNetwork
from odradek.model import api_keys
from odradek.network.client import NodeClient
from odradek.network.client_machine import ClientSettings
from odradek.network.listeners import bind
from odradek.network.server import Limits, Server
from odradek.wire.api import BY_KEY
from odradek.wire.generated.api_versions_response import ApiVersion, ApiVersionsResponse
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from odradek.wire.generated.write_txn_markers_response import (
    WritableTxnMarkerResult,
    WriteTxnMarkersResponse,
)

LISTENER = "INTERNAL"
SETTINGS = ClientSettings(reconnect_backoff_ms=1, in_flight_max=1, fails_fast=True)
REQUEST = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=7, transaction_version=2)])


class Peer:
    """Another broker, which answers ApiVersions and WriteTxnMarkers."""

    def __init__(self, versions=(1, 2)):
        self.versions = versions
        self.heard = []
        """API keys and versions, in order, and the transaction versions of markers."""
        self.names = set()
        self.is_silent = False
        self.answers_nonsense = False
        self.port = 0
        self._connections = []

    def __call__(self, connection, view):
        if connection not in self._connections:
            self._connections.append(connection)
        answer = self._answer(bytes(view))
        if answer is not None:
            connection.respond([struct.pack(">i", len(answer)), answer], len(answer) + 4)

    def _answer(self, frame):
        key, version = struct.unpack_from(">hh", frame)
        api = BY_KEY[key]
        header_version = api.request_header_version(version)
        header, position = RequestHeader.decode_prefix(frame, header_version)
        request = api.request_class().decode(frame, version, position)
        self.names.add(header.client_id)
        head = struct.pack(">i", header.correlation_id)
        if key == api_keys.API_VERSIONS:
            self.heard.append((key, version))
            known = [ApiVersion(api_key=18, max_version=4)]
            if self.versions is not None:
                low, high = self.versions
                known.append(ApiVersion(api_key=27, min_version=low, max_version=high))
            return head + ApiVersionsResponse(api_keys=known).encode(version)
        self.heard.append((key, version, request.markers[0].transaction_version))
        if self.is_silent:
            return None
        if self.answers_nonsense:
            return head + b"\0\x7f"
        result = WritableTxnMarkerResult(producer_id=request.markers[0].producer_id)
        return head + b"\0" + WriteTxnMarkersResponse(markers=[result]).encode(version)

    def drop_connections(self):
        for each in self._connections:
            each.close()


def registered(port, epoch=1, fenced=False, listener=LISTENER):
    listeners = {listener: Endpoint(listener, "127.0.0.1", port, 0)}
    return BrokerRegistration(
        2, epoch, bytes(16), listeners, {}, None, fenced, False, False, (), None
    )


class Bench:
    def __init__(self):
        network = SocketNetwork()
        self.channels = BrokerChannels(
            lambda at: NodeClient(network, at.host, at.port, os.urandom, SETTINGS),
            listener=LISTENER,
            client_id="broker-1-test",
            request_timeout_ms=20_000,
        )
        self._servers = []

    def start(self, peer):
        endpoint = bind(SocketNetwork(), "TEST", "127.0.0.1", 0)
        peer.port = endpoint.port
        self.server = Server(peer, Limits(), [endpoint])
        self.server.start()
        self._servers.append(self.server)
        return peer

    def register(self, registration):
        before = self.channels.image
        delta = MetadataDelta(before)
        delta.cluster.brokers.put(2, registration)
        self.channels.publish(delta, MetadataImage(cluster=ClusterImage({2: registration})))

    def ask(self, version_min=1):
        return self.channels.ask(2, REQUEST, version_min)

    async def close(self):
        self.channels.close()
        for each in self._servers:
            await each.drain(1000)


def scenario(test):
    def runner():
        async def run():
            bench = Bench()
            try:
                await test(bench)
            finally:
                await bench.close()

        asyncio.run(run())

    runner.__name__ = test.__name__
    return runner


@scenario
async def test_the_newest_common_version_is_used(bench):
    peer = bench.start(Peer((1, 1)))
    bench.register(registered(peer.port))
    for _ in range(2):
        response = await bench.ask()
        assert [each.producer_id for each in response.markers] == [7]
    assert peer.heard == [(18, 0), (27, 1, 0), (27, 1, 0)], "version 1 has no transaction version"
    assert peer.names == {"broker-1-test"}
    peer.versions = (1, 9)
    bench.register(registered(peer.port, epoch=2))
    await bench.ask()
    assert peer.heard[3:] == [(18, 0), (27, 2, 2)], "the broker has restarted with another release"


@pytest.mark.parametrize("versions", [(1, 1), (3, 4), None])
def test_a_version_that_is_not_common(versions):
    async def test(bench):
        peer = bench.start(Peer(versions))
        bench.register(registered(peer.port))
        with pytest.raises(UnsupportedByBroker):
            await bench.ask(version_min=2)
        assert peer.heard == [(18, 0)]

    scenario(test)()


@scenario
async def test_who_is_not_registered_or_fenced_is_not_asked(bench):
    peer = bench.start(Peer())
    with pytest.raises(BrokerUnreachable):
        await bench.ask()
    for each in (registered(peer.port, fenced=True), registered(peer.port, listener="EXTERNAL")):
        bench.register(each)
        with pytest.raises(BrokerUnreachable):
            await bench.ask()
    assert peer.heard == []
    bench.register(registered(peer.port))
    await bench.ask()


@scenario
async def test_a_connection_that_cannot_be_made_fails_at_once(bench):
    peer = bench.start(Peer())
    await bench.server.drain(0)
    bench.register(registered(peer.port))
    for _ in range(2):
        with pytest.raises(BrokerUnreachable):
            await bench.ask()


@scenario
async def test_a_connection_that_is_lost_is_made_again(bench):
    peer = bench.start(Peer())
    bench.register(registered(peer.port))
    peer.is_silent = True
    asked = asyncio.ensure_future(bench.ask())
    while len(peer.heard) < 2:
        await asyncio.sleep(0.001)
    peer.drop_connections()
    with pytest.raises(BrokerUnreachable):
        await asked
    peer.is_silent = False
    await bench.ask()
    assert peer.heard[2:] == [(18, 0), (27, 2, 2)], "versions are asked for again"


@scenario
async def test_a_request_to_a_broker_that_is_fenced_fails(bench):
    silent, other = bench.start(Peer()), bench.start(Peer())
    silent.is_silent = True
    bench.register(registered(silent.port))
    asked = asyncio.ensure_future(bench.ask())
    while len(silent.heard) < 2:
        await asyncio.sleep(0.001)
    bench.register(registered(silent.port))
    await asyncio.sleep(0.01)
    assert not asked.done(), "nothing has changed"
    bench.register(registered(silent.port, fenced=True))
    with pytest.raises(BrokerUnreachable):
        await asked
    bench.register(registered(other.port, epoch=2))
    await bench.ask()
    assert len(other.heard) == 2


@scenario
async def test_a_response_that_cannot_be_read(bench):
    peer = bench.start(Peer())
    bench.register(registered(peer.port))
    peer.answers_nonsense = True
    with pytest.raises(BrokerUnreachable):
        await bench.ask()
    peer.answers_nonsense = False
    await bench.ask()


@scenario
async def test_nothing_is_sent_after_the_end(bench):
    peer = bench.start(Peer())
    bench.register(registered(peer.port))
    bench.channels.close()
    with pytest.raises(BrokerUnreachable):
        await bench.ask()
    assert peer.heard == []
