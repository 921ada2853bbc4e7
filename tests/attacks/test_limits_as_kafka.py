"""The limits of connections have the same effects in Apache Kafka and in Odradek."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from tests.attacks.attack import connect, frame, header, is_closed
from tests.attacks.connections import API_VERSIONS, PRODUCE

from compat import authenticated
from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.cluster import Cluster
from odradek.model.config_resource import ResourceType

pytestmark = [pytest.mark.java, pytest.mark.cluster]

IDLE_MS = 4000
SETTINGS = {
    **authenticated.SETTINGS,
    "connections.max.idle.ms": str(IDLE_MS),
    "max.connections.per.ip": "2",
    "max.connections.per.ip.overrides": "localhost:1000,127.0.0.3:1",
}
WAIT_SECONDS = 1.0
"""A connection that is not served after this time waits."""


@pytest.fixture(scope="module", params=["theirs", "ours"])
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    kind = OdradekNode if request.param == "ours" else BriefApacheKafka
    try:
        made = kind(
            directory=tmp_path_factory.mktemp(request.param),
            settings=SETTINGS,
            listeners=[authenticated.listener()],
        )
    except Missing as reason:
        pytest.skip(str(reason))
    with made:
        yield made


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as opened:
        yield opened


def is_served(connection: socket.socket, seconds: float = 30.0) -> bool:
    connection.settimeout(seconds)
    try:
        connection.sendall(frame(header(API_VERSIONS, 0)))
        return bool(connection.recv(1 << 16))
    except OSError:
        return False


def alter(node: Broker, name: str, value: str) -> None:
    changes = {Resource(ResourceType.BROKER, ""): [Change(name, value)]}
    with Cluster(node.bootstrap) as cluster:
        assert set(alter_configs(cluster, changes).values()) == {None}


def test_connections_of_an_address(node: Broker, stack: contextlib.ExitStack) -> None:
    def served(source: str, count: int) -> list[bool]:
        opened = [stack.enter_context(connect(node.port, source)) for _ in range(count)]
        return [is_served(each) for each in opened]

    assert served("127.0.0.2", 4) == [True, True, False, False]
    assert served("127.0.0.3", 2) == [True, False]
    assert served("127.0.0.1", 5) == [True] * 5


def test_idle_connections_are_closed_and_others_are_not(
    node: Broker, stack: contextlib.ExitStack
) -> None:
    silent, half, busy = (stack.enter_context(connect(node.port)) for _ in range(3))
    half.sendall(frame(header(API_VERSIONS, 0))[:9])
    end = time.monotonic() + 1.5 * IDLE_MS / 1000
    while time.monotonic() < end:
        assert is_served(busy)
        time.sleep(IDLE_MS / 30_000)
    assert is_closed(silent)
    assert is_closed(half)


def test_a_request_that_arrives_byte_by_byte(node: Broker, stack: contextlib.ExitStack) -> None:
    """The only difference: in Apache Kafka each byte counts as activity."""
    slow = stack.enter_context(connect(node.port))
    request = frame(header(API_VERSIONS, 0) + bytes(1000))
    slow.settimeout(IDLE_MS / 10_000)
    is_open = True
    for byte in request[:20]:  # twice as long as connections may be idle
        try:
            slow.sendall(bytes([byte]))
            is_open = bool(slow.recv(1))
        except TimeoutError:
            continue
        except OSError:
            is_open = False
        if not is_open:
            break
    assert is_open == isinstance(node, BriefApacheKafka)


def test_long_requests(node: Broker, stack: contextlib.ExitStack) -> None:
    _, _, sasl_port = node.listeners[0].rpartition(":")
    for port, size in ((node.port, 104_857_601), (int(sasl_port), 524_289)):
        for announced in (size, 2**31 - 1, -1):
            opened = stack.enter_context(connect(port))
            opened.sendall(struct.pack(">i", announced) + header(PRODUCE, 9) + bytes(100))
            assert is_closed(opened)


def test_fewer_connections_are_allowed(node: Broker, stack: contextlib.ExitStack) -> None:
    """Connections that are open are closed, the least recently used ones first: not the two of
    `alter`. New connections wait until there is room."""
    opened = []
    for _ in range(6):
        opened.append(stack.enter_context(connect(node.port)))
        assert is_served(opened[-1])
    try:
        alter(node, "max.connections", "2")
        assert all(is_closed(each) for each in opened)
        first, second, third = (stack.enter_context(connect(node.port)) for _ in range(3))
        assert is_served(first)
        assert is_served(second)
        assert not is_served(third, WAIT_SECONDS)
        first.close()
        third.settimeout(30)
        assert third.recv(1)
    finally:
        stack.close()
        alter(node, "max.connections", "1000")
