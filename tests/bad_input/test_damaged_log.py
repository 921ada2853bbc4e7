"""A log that was damaged while the node was stopped. The node starts and serves all other logs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from compat.lab.odradek_node import OdradekNode
from compat.lab.wire_client import WireClient

CORRUPT_MESSAGE = 2
KAFKA_STORAGE_ERROR = 56
SECONDS_MAX = 10.0


def test_a_damaged_batch_in_the_middle(tmp_path: Path) -> None:
    """The node logs its position. Consumers get CORRUPT_MESSAGE, but can read the other batches."""
    node = OdradekNode(directory=tmp_path)
    with node:
        with WireClient(node.port) as wire:
            while not wire.has_leader("rotten") or not wire.serving("rotten", 1):
                time.sleep(0.01)
            for number in range(100):
                assert wire.produce_one("rotten", b"%d" % number * 500) == 0
        assert node.stop() == 0
        path = node.data / "rotten-0" / f"{0:020d}.log"
        content = bytearray(path.read_bytes())
        content[8:12] = b"\x7f\xff\xff\xff"
        path.write_bytes(content)
        node.start()
        with WireClient(node.port) as wire:
            while not wire.serving("rotten", 1):
                time.sleep(0.01)
            with pytest.raises(RuntimeError, match=f"error {CORRUPT_MESSAGE}"):
                wire.batches("rotten", 0)
            assert wire.batches("rotten", 0, 99)[-1].base_offset == 99
            assert wire.produce_one("rotten", b"more") == 0
            assert wire.batches("rotten", 0, 100)[-1].base_offset == 100
        said = node.log.read_text()
        assert f"rotten-0 is damaged: {path}: the batch at byte 0 says that" in said
        assert "Traceback" not in said
        assert node.stop() == 0


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
