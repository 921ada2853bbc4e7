"""More connections than allowed open files: some wait, and no log directory goes offline."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from compat.lab.odradek_node import OdradekNode
from compat.lab.wire_client import WireClient

FILES_MAX = 100
CONNECTIONS = 150
TOPICS = 12


class NodeWithFewFiles(OdradekNode):
    def command(self) -> Sequence[str]:
        limit = f'ulimit -n {FILES_MAX} && exec "$@"'
        return ["sh", "-c", limit, "sh", *super().command()]


def test_more_connections_than_files(tmp_path: Path) -> None:
    node = NodeWithFewFiles(directory=tmp_path)
    topics = [f"topic-{number}" for number in range(TOPICS)]
    with node:
        with WireClient(node.port) as wire, contextlib.ExitStack() as stack:
            for topic in topics:
                while not wire.has_leader(topic) or not wire.serving(topic, 1):
                    time.sleep(0.01)
            for _ in range(CONNECTIONS):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", node.port))
            time.sleep(0.2)
            codes = {wire.produce_one(topic, b"value") for topic in topics}
            assert codes <= {0, 56}
            assert node.alive(), node.last_words()
        with WireClient(node.port) as wire:
            for topic in topics:
                assert wire.produce_one(topic, b"value") == 0
                assert len(wire.batches(topic, 0)) in (1, 2)
        said = node.log.read_text()
        assert "goes offline" not in said
        assert "Traceback" not in said
        assert node.stop() == 0
