"""A node in this process closes connections that demand too much."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

from tests.attacks.attack import connect, frame, header, is_closed, send_quietly
from tests.attacks.connections import API_VERSIONS, LIST_OFFSETS

from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.cluster import Cluster
from odradek.model.config_resource import ResourceType
from odradek.testing import Broker
from odradek.wire.large_requests import ELEMENTS_MAX


def test_a_request_with_too_many_elements(caplog) -> None:
    partitions = struct.pack(">hi", 0, 1000) + bytes(12) * 1000
    topics = ELEMENTS_MAX // 1000
    body = header(LIST_OFFSETS, 1) + struct.pack(">ii", -1, topics) + partitions * topics
    with Broker() as broker, connect(broker.port) as connection:
        connection.sendall(frame(body))
        assert is_closed(connection)
    assert f"more than {ELEMENTS_MAX} elements in all arrays" in caplog.text


def set_limit(broker: Broker, name: str, field: str, value: int) -> None:
    """Change a setting for all brokers, and wait until it has arrived in a field of the limits."""
    changes = {Resource(ResourceType.BROKER, ""): [Change(name, str(value))]}
    with Cluster(broker.bootstrap_servers) as cluster:
        assert set(alter_configs(cluster, changes).values()) == {None}
    while getattr(broker.node.server.limits, field) != value:
        time.sleep(0.005)


def is_served(connection: socket.socket) -> bool:
    connection.settimeout(30)
    try:
        connection.sendall(frame(header(API_VERSIONS, 0)))
        return bool(connection.recv(1))
    except OSError:
        return False


def test_connections_of_an_address() -> None:
    """As in Apache Kafka, a connection above the limit is closed at once, others stay open, and a
    host name in the exceptions stands for its address."""
    limits = {"max.connections.per.ip": 1, "max.connections.per.ip.overrides": "localhost:3"}
    with Broker(settings=limits) as broker, contextlib.ExitStack() as stack:

        def served(count: int, source: str = "") -> list[bool]:
            opened = [stack.enter_context(connect(broker.port, source)) for _ in range(count)]
            return [is_served(each) for each in opened]

        assert served(2, "127.0.0.2") == [True, False]
        set_limit(broker, "max.connections.per.ip", "connections_per_ip_max", 2)
        assert served(2, "127.0.0.2") == [True, False]
        of_cluster = broker.node.server._by_ip["127.0.0.1"]
        assert served(4) == [True] * (3 - of_cluster) + [False] * (1 + of_cluster)


def test_fewer_connections_are_allowed_than_there_are() -> None:
    """As in Apache Kafka, connections are closed."""
    with Broker() as broker, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connect(broker.port)) for _ in range(6)]
        assert all(is_served(each) for each in opened)
        set_limit(broker, "max.connections", "connections_max", 2)
        for each in opened[:4]:
            assert is_closed(each)
        assert len(broker.node.server.connections) <= 2


def test_idle_connections_are_closed_whatever_they_began() -> None:
    """One says nothing, one began a request, one began a long request, and one reads no response."""
    begun = (b"", b"\0", struct.pack(">i", 1 << 20) + header(0, 9) + bytes(3000))
    with Broker(settings={"connections.max.idle.ms": 400}) as broker:
        connections = [connect(broker.port) for _ in begun]
        for each, data in zip(connections, begun, strict=True):
            each.sendall(data)
        for each in connections:
            with each:
                assert is_closed(each)
        with connect(broker.port) as slow:
            slow.settimeout(0.05)
            for byte in frame(header(3, 4) + bytes(900)):  # takes a minute
                if not send_quietly(slow, bytes([byte])) or is_closed(slow):
                    return
            raise AssertionError("the request was awaited to its end")
