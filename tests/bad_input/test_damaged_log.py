"""A log that was damaged while the node was down: the node starts, and serves the others."""

from __future__ import annotations

import time
from pathlib import Path

from compat.lab.odradek_node import OdradekNode
from compat.lab.wire_client import WireClient

KAFKA_STORAGE_ERROR = 56
SECONDS_MAX = 10.0


def test_a_log_whose_end_cannot_be_found(tmp_path: Path) -> None:
    node = OdradekNode(directory=tmp_path)
    with node:
        with WireClient(node.port) as wire:
            for topic in ("rotten", "sound"):
                while not wire.has_leader(topic) or not wire.serving(topic, 1):
                    time.sleep(0.01)
                for number in range(3):
                    assert wire.produce_one(topic, b"value %d" % number) == 0
        assert node.stop() == 0
        path = node.data / "rotten-0" / f"{0:020d}.log"
        content = path.read_bytes()
        path.write_bytes(content[:-40] + b"\xff" * 10 + content[-30:-20])
        node.start()
        with WireClient(node.port) as wire:
            deadline = time.monotonic() + SECONDS_MAX
            while not wire.serving("sound", 1):
                assert time.monotonic() < deadline, node.last_words()
            assert len(wire.batches("sound", 0)) == 3
            assert wire.produce_one("sound", b"more") == 0
            assert wire.produce_one("rotten", b"more") == KAFKA_STORAGE_ERROR
        said = node.log.read_text()
        assert f"rotten-0 is damaged and stays offline: {path}" in said
        assert "Traceback" not in said
        assert node.stop() == 0
