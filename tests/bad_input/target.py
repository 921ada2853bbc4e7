"""The node that receives invalid input, and the checks afterwards.

With ODRADEK_VICTIM=apache, Apache Kafka receives the input, and its outcomes are stored (see
`recorded.py`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.wire_client import WireClient
from tests.bad_input.recorded import AGAINST_APACHE, ANSWERED, CLOSED, WAITS

from odradek.wire.generated.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.generated.create_topics_response import CreateTopicsResponse

TOPIC = "precious"
RECORDS = 20
GROWTH_MAX = 40 << 20
"""Maximum growth of the node's resident memory in one test."""
ANSWER_SECONDS = 10.0
WAIT_SECONDS = 0.7
"""If there is no response after this time, the outcome is `WAITS`."""


class Target:
    """A node with a topic whose records must not be lost."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        kind = ApacheKafka if AGAINST_APACHE else OdradekNode
        self.node: Broker = kind(directory=directory, settings=settings)

    def start(self) -> None:
        self.node.start()
        with WireClient(self.node.port) as wire:
            while not wire.has_leader(TOPIC) or not wire.serving(TOPIC, 1):
                time.sleep(0.01)
            for number in range(RECORDS):
                assert wire.produce_one(TOPIC, str(number).encode()) == 0
        self._rss = self.node.rss_bytes()

    def check(self) -> None:
        """Check that the node runs and has all records, that its log has no traceback, and its
        memory."""
        assert self.node.alive(), self.node.last_words()
        with WireClient(self.node.port, timeout=ANSWER_SECONDS) as wire:
            batches = wire.batches(TOPIC, 0)
        assert [batch.base_offset for batch in batches][:RECORDS] == list(range(RECORDS))
        if AGAINST_APACHE:
            return
        said = self.node.log.read_text(encoding="utf-8")
        assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:4000]
        grown = self.node.rss_bytes() - self._rss
        assert grown < GROWTH_MAX, f"the node grew by {grown >> 20} MB"

    def outcome(self, data: bytes) -> str:
        """Send bytes on a new connection, which stays open. Return the outcome."""
        with socket.create_connection(("127.0.0.1", self.node.port), WAIT_SECONDS) as connection:
            try:
                connection.sendall(data)
                return ANSWERED if connection.recv(1 << 16) else CLOSED
            except TimeoutError:
                return WAITS
            except ConnectionError:
                return CLOSED

    def send(self, data: bytes) -> bytes:
        """Send bytes on a new connection. Return all bytes received until the node closes it.

        Return no bytes if the connection is reset.
        """
        with (
            socket.create_connection(("127.0.0.1", self.node.port), ANSWER_SECONDS) as connection,
            contextlib.suppress(ConnectionError),
        ):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
        return b""


@contextlib.contextmanager
def running_target(directory: Path, settings: dict[str, str] | None = None) -> Iterator[Target]:
    """Yield a running node, and stop it at the end."""
    one = Target(directory, settings)
    try:
        one.start()
        yield one
    finally:
        one.node.close()


def frame(body: bytes) -> bytes:
    """Return a body preceded by its length."""
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, correlation_id: int = 7) -> bytes:
    """Return a request header of version 1 with a null client id."""
    return struct.pack(">hhih", key, version, correlation_id, -1)


def create_topic(port: int, name: str, configs: dict[str, str]) -> None:
    """Create a topic with one partition, and wait until it is served."""
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=settings)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    with WireClient(port) as wire:
        (result,) = wire.call("CreateTopics", 5, request, CreateTopicsResponse).topics
        assert result.error_code == 0, result.error_message
        while not wire.serving(name, 1):
            time.sleep(0.01)
