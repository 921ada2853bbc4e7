"""One connection: negotiation, order of responses, and failures."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading

import pytest
from tests.client.fake_broker import Disconnect

from odradek.client.address import Address
from odradek.client.connection import Connection
from odradek.client.errors import (
    DisconnectedError,
    MalformedResponseError,
    RequestTimeoutError,
    UnreachableError,
    UnsupportedVersionError,
)
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse

METADATA, API_VERSIONS = MetadataRequest.API_KEY, ApiVersionsRequest.API_KEY


@pytest.fixture
def connect(fake):
    made = []

    def connect(timeout_ms=5000):
        made.append(Connection(Address("127.0.0.1", fake.port), "test", timeout_ms))
        return made[-1]

    yield connect
    for connection in made:
        connection.close()


def test_the_highest_common_version_is_used(fake, connect):
    fake.answers[API_VERSIONS] = lambda _: fake.api_versions(Metadata=(0, 9))
    connection = connect()
    connection.request(MetadataRequest(), MetadataResponse, 5000)
    assert connection.versions[METADATA] == (0, 9)
    (sent,) = fake.requests[API_VERSIONS]
    assert sent.client_software_name == "odradek"


def test_an_api_that_is_not_offered(fake, connect):
    fake.answers[API_VERSIONS] = lambda _: fake.api_versions(Metadata=None)
    with pytest.raises(UnsupportedVersionError, match="does not offer Metadata"):
        connect().request(MetadataRequest(), MetadataResponse, 5000)


@pytest.mark.parametrize("offered", [(0, 3), (30, 40)])
def test_no_common_version(fake, connect, offered):
    fake.answers[API_VERSIONS] = lambda _: fake.api_versions(Metadata=offered)
    with pytest.raises(UnsupportedVersionError, match=f"in versions {offered[0]} to {offered[1]}"):
        connect().request(MetadataRequest(), MetadataResponse, 5000)


def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest(fake, connect):
    def refuse(_):
        return struct.pack(">hihhh", 35, 1, API_VERSIONS, 0, 2)

    fake.answers[API_VERSIONS] = [refuse, lambda _: fake.api_versions()]
    connect().request(MetadataRequest(), MetadataResponse, 5000)
    assert len(fake.requests[API_VERSIONS]) == 2


def test_requests_may_be_under_way_together(fake, connect):
    connection = connect()
    first = connection.send(MetadataRequest(), MetadataResponse)
    second = connection.send(
        FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse
    )
    assert connection.receive(second, 5000).coordinators[0].key == "g"
    assert first.response is not None
    assert connection.poll(first) is first.response


def test_poll_does_not_wait(fake, connect):
    go = threading.Event()
    fake.answers[METADATA] = lambda _: go.wait(5) and fake.metadata()
    connection = connect()
    pending = connection.send(MetadataRequest(), MetadataResponse)
    assert connection.poll(pending) is None
    go.set()
    assert connection.receive(pending, 5000).controller_id == 7


def test_no_answer_in_time_closes_the_connection(fake, connect):
    fake.answers[METADATA] = lambda _: None
    connection = connect()
    with pytest.raises(RequestTimeoutError, match="Metadata within 50 ms"):
        connection.request(MetadataRequest(), MetadataResponse, 50)
    assert connection.closed


def test_an_interrupted_request_closes_the_connection(fake, connect):
    fake.answers[METADATA] = lambda _: os.kill(os.getpid(), signal.SIGINT)
    connection = connect()
    with pytest.raises(KeyboardInterrupt):
        connection.request(MetadataRequest(), MetadataResponse, 5000)
    assert connection.closed


def test_the_broker_goes_away(fake, connect):
    def leave(_):
        raise Disconnect

    fake.answers[METADATA] = leave
    connection = connect()
    with pytest.raises(DisconnectedError):
        connection.request(MetadataRequest(), MetadataResponse, 5000)
    assert connection.closed
    with pytest.raises(DisconnectedError):
        connection.send(MetadataRequest(), MetadataResponse)


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00" * 3, b"\xff" * 40, b"\x00" * 200])
def test_an_answer_that_cannot_be_read(fake, connect, body):
    fake.answers[METADATA] = lambda _: body
    connection = connect()
    with pytest.raises(MalformedResponseError):
        connection.request(MetadataRequest(), MetadataResponse, 5000)
    assert connection.closed


def test_nothing_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{port}: connection refused"):
        Connection(Address("127.0.0.1", port), "test", 1000)


def test_an_unknown_host():
    with pytest.raises(UnreachableError, match="host name is not known"):
        Connection(Address("no-such-host.invalid", 9092), "test", 1000)


def test_something_else_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(MalformedResponseError, match="does not answer as a Kafka broker"):
            Connection(Address("127.0.0.1", server.getsockname()[1]), "test", 5000)
        thread.join()
