"""The versions in which requests are sent to another node."""

import asyncio
import struct

import pytest

from odradek.broker.peers.versions import PeerVersions, VersionNotServed
from odradek.broker.raft.peers import LOWEST_VERSIONS
from odradek.core.raft.voters import Destination
from odradek.model import api_keys
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.client import HandshakeError
from odradek.wire.generated.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersion, ApiVersionsResponse
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.broker_heartbeat_response import BrokerHeartbeatResponse
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.vote_request import VoteRequest

from .test_remote_channel import channel_to


def shaken(*responses):
    """A `PeerVersions` after a handshake with these responses, and the versions of its requests."""
    versions = PeerVersions("test")
    handshake = versions.handshake()
    asked = [next(handshake)[1]]
    for response, version in responses:
        try:
            asked.append(handshake.send(response.encode(version))[1])
        except StopIteration:
            return versions, asked
    raise AssertionError("the handshake has not ended")


def serving(*apis):
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in apis]
    return ApiVersionsResponse(api_keys=keys)


def test_the_newest_common_version():
    versions = PeerVersions("test")
    assert versions.version(FetchRequest()) == FetchRequest.VERSION_MAX, "nothing is known yet"
    assert versions.version(ApiVersionsRequest()) == 4
    versions, asked = shaken((serving((1, 4, 16), (52, 0, 99)), 4))
    assert asked == [4]
    assert versions.version(FetchRequest()) == 16
    assert versions.version(VoteRequest()) == VoteRequest.VERSION_MAX


@pytest.mark.parametrize("served", [(1, 99, 100), (1, 0, 3), (2, 0, 11)])
def test_no_common_version(served):
    versions, _ = shaken((serving(served), 4))
    with pytest.raises(VersionNotServed):
        versions.version(FetchRequest())


def test_a_pre_vote_is_not_sent_in_a_version_without_pre_votes():
    versions, _ = shaken((serving((52, 0, 1)), 4))
    assert versions.version(VoteRequest()) == 1
    lowest = LOWEST_VERSIONS[VoteRequest]
    with pytest.raises(VersionNotServed):
        versions.version(VoteRequest(), lowest)


def test_a_node_that_serves_an_older_version_of_api_versions():
    refused = serving((18, 0, 2))
    refused.error_code = 35
    versions, asked = shaken((refused, 0), (serving((1, 4, 12)), 2))
    assert asked == [4, 2]
    assert versions.version(FetchRequest()) == 12


def test_a_response_that_cannot_be_used():
    for data in (b"", b"\0\0\xff", ApiVersionsResponse(error_code=42).encode(4)):
        handshake = PeerVersions("test").handshake()
        next(handshake)
        with pytest.raises(HandshakeError):
            handshake.send(data)


async def older_node(reader, writer, log, ended):
    """Serve ApiVersions and version 0 of BrokerHeartbeat, and close on any other request."""
    while size := await reader.read(4):
        frame = await reader.readexactly(int.from_bytes(size, "big"))
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        log.append((key, version))
        if key == api_keys.API_VERSIONS:
            body = serving((18, 0, 4), (63, 0, 0)).encode(version)
        elif version == 0:
            body = b"\0" + BrokerHeartbeatResponse(is_fenced=False).encode(0)
        else:
            break
        writer.write(struct.pack(">ii", 4 + len(body), correlation_id) + body)
    writer.close()
    await writer.wait_closed()
    ended.append(True)


def test_a_request_is_repeated_in_a_version_that_the_node_serves():
    async def test():
        log, ended = [], []
        server = await asyncio.start_server(
            lambda reader, writer: older_node(reader, writer, log, ended), "127.0.0.1", 0
        )
        address = Destination(9, "127.0.0.1", server.sockets[0].getsockname()[1])
        channel = channel_to(lambda: address)
        try:
            for _ in range(2):
                response = await channel.submit(None, BrokerHeartbeatRequest(broker_id=1))
                assert not response.is_fenced
            newest = BrokerHeartbeatRequest.VERSION_MAX
            assert log == [(18, 4), (63, newest), (18, 4), (63, 0), (63, 0)]
            with pytest.raises(ApiError) as raised:
                await channel.submit(None, AllocateProducerIdsRequest())
            assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        finally:
            channel.close()
            while len(ended) < log.count((18, 4)):
                await asyncio.sleep(0.01)  # the connections of the server end
            server.close()

    asyncio.run(test())
