"""A full disk: clear errors, no acknowledged record is lost, and the node continues.

The disk is a small tmpfs in a mount namespace of the node, if users may create namespaces. Other
tests limit the size of the node's files instead, because the tmpfs does not survive a restart.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from compat.lab.odradek_node import OdradekNode
from compat.lab.wire_client import WireClient

from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse

TOPIC = "filling"
VALUE = b"x" * 200_000
DISK = "16m"
BALLAST_BYTES = 2_000_000
"""Size of a file in the data directory. It is deleted to free space."""
MADE_SECONDS_MAX = 20.0
FILE_BYTES_MAX = 6_000_000
KAFKA_STORAGE_ERROR = 56
RECORDS_MAX = 200


def _namespaces() -> bool:
    program = shutil.which("unshare")
    if program is None:
        return False
    words = [program, "--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


class NodeOnSmallDisk(OdradekNode):
    """A node whose data directory is a separate file system of 16 MB."""

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)

    def command(self) -> Sequence[str]:
        mount = f'mount -t tmpfs -o size={DISK} none "$0"'
        ballast = f'head -c {BALLAST_BYTES} /dev/zero > "$0/.ballast"'
        script = f'{mount} && {ballast} && exec "$@"'
        return [
            *("unshare", "--mount", "--map-root-user", "sh", "-c", script, str(self.data)),
            *super().command(),
        ]

    def make_room(self) -> None:
        """Delete the ballast file, through the node's view of the file system."""
        (Path(f"/proc/{self.process.pid}/root") / f"{self.data}/.ballast".lstrip("/")).unlink()


class NodeWithSmallFiles(OdradekNode):
    """A node whose files cannot exceed 6 MB while `limited` is True."""

    limited = True

    def command(self) -> Sequence[str]:
        if not self.limited:
            return super().command()
        blocks = FILE_BYTES_MAX // 512
        return ["sh", "-c", f'ulimit -f {blocks} && exec "$@"', "sh", *super().command()]


def fill(node: OdradekNode) -> tuple[int, int]:
    """Write until the node refuses. Return the number of acknowledged records and the error
    code."""
    with WireClient(node.port) as wire:
        while not wire.has_leader(TOPIC) or not wire.serving(TOPIC, 1):
            pass
        for acknowledged in range(RECORDS_MAX):
            code = wire.produce_one(TOPIC, VALUE)
            if code:
                return acknowledged, code
    raise AssertionError("the disk did not fill up")


def stored(node: OdradekNode) -> int:
    with WireClient(node.port) as wire:
        return len(wire.batches(TOPIC, 0))


def create(wire: WireClient, topic: str) -> int:
    """Create a topic with one partition, and return the error code."""
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    response = wire.call("CreateTopics", 5, request, CreateTopicsResponse)
    code: int = response.topics[0].error_code
    return code


@pytest.mark.skipif(not _namespaces(), reason="users may not make mount namespaces here")
def test_a_full_disk(tmp_path: Path) -> None:
    node = NodeOnSmallDisk(directory=tmp_path)
    with node:
        acknowledged, code = fill(node)
        assert code == KAFKA_STORAGE_ERROR
        assert acknowledged > 50
        with WireClient(node.port) as wire:
            for _ in range(20):
                assert wire.produce_one(TOPIC, VALUE) == KAFKA_STORAGE_ERROR
                assert len(wire.batches(TOPIC, 0)) == acknowledged
            assert wire.metadata().brokers
        assert node.alive(), node.last_words()
        said = node.log.read_text()
        assert said.count("No space left on device") < 5
        assert "has no room, it refuses writes: could not append to filling-0" in said
        assert "Traceback" not in said
        node.make_room()
        with WireClient(node.port) as wire:
            assert wire.produce_one(TOPIC, VALUE) == 0
        assert stored(node) == acknowledged + 1
        assert node.stop() == 0, node.last_words()
        assert "Traceback" not in node.log.read_text()


@pytest.mark.skipif(not _namespaces(), reason="users may not make mount namespaces here")
def test_topics_on_a_full_disk(tmp_path: Path) -> None:
    """Topics are created or refused with an error. Created topics have partitions in the end."""
    node = NodeOnSmallDisk(directory=tmp_path)
    with node:
        acknowledged, _ = fill(node)
        with WireClient(node.port) as wire:
            codes = {f"new-{number}": create(wire, f"new-{number}") for number in range(30)}
            assert set(codes.values()) <= {0, KAFKA_STORAGE_ERROR}
            assert KAFKA_STORAGE_ERROR in {
                *codes.values(),
                *(wire.produce_one(topic, VALUE) for topic, code in codes.items() if not code),
            }
        assert node.alive(), node.last_words()
        assert stored(node) == acknowledged
        node.make_room()
        deadline = time.monotonic() + MADE_SECONDS_MAX
        with WireClient(node.port) as wire:
            for topic in [topic for topic, code in codes.items() if not code]:
                while wire.produce_one(topic, b"x"):
                    assert time.monotonic() < deadline, node.last_words()
                    time.sleep(0.1)
        assert node.stop() == 0, node.last_words()
        assert "Traceback" not in node.log.read_text()


def test_nothing_is_lost_when_writing_fails(tmp_path: Path) -> None:
    node = NodeWithSmallFiles(directory=tmp_path)
    with node:
        acknowledged, code = fill(node)
        assert code
        assert "File too large" in node.log.read_text()
        node.stop()
        assert "Traceback" not in node.log.read_text()
        node.limited = False
        node.start()
        assert stored(node) >= acknowledged
        with WireClient(node.port) as wire:
            assert wire.produce_one(TOPIC, VALUE) == 0
