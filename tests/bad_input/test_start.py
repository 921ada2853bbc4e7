"""Starts that must fail: a clear message, an exit code, no traceback, and unchanged data."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat.lab.wire_client import WireClient
from tests.bad_input.target import TOPIC, Target, running_target
from tests.support.child import Child

ODRADEK = str(Path(sys.executable).with_name("odradek"))
PATIENCE_SECONDS = 30


def start(*words: str, cwd: Path | None = None) -> str:
    """Start a node, which must fail to start. Return its output."""
    try:
        done = subprocess.run(
            [ODRADEK, "serve", "--host", "127.0.0.1", *words],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as running:
        pytest.fail(f"it started: {running.stdout!r} {running.stderr!r}")
    assert done.returncode in (1, 2), f"exit code {done.returncode}"
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    return said


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield str(other.getsockname()[1])


def test_port_in_use(tmp_path: Path, taken_port: str) -> None:
    said = start("--port", taken_port, "--data", str(tmp_path / "data"))
    assert taken_port in said
    assert "in use" in said


def test_address_that_is_not_ours(tmp_path: Path) -> None:
    said = start("--host", "192.0.2.1", "--port", "0", "--data", str(tmp_path / "data"))
    assert "192.0.2.1" in said


@pytest.mark.parametrize(
    "words",
    [
        ("--override", "log.retention.hours=long"),
        ("--override", "num.partitions=0"),
        ("--override", "listeners=nonsense"),
        ("--override", "no equals sign"),
        ("--override", "process.roles=kitchen"),
        ("--port", "99999"),
        ("--port", "x"),
        ("--config", "/no/such/file.properties"),
    ],
    ids=lambda words: words[-1],
)
def test_invalid_settings(tmp_path: Path, words: tuple[str, str]) -> None:
    said = start("--data", str(tmp_path / "data"), *words)
    assert "Error" in said


def test_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("important")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        assert "file" in start("--port", "0", "--data", str(path))
    assert (tmp_path / "file").read_text() == "important"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_data_directory_without_permission(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert str(closed) in start("--port", "0", "--data", str(closed / "data"))


def test_data_directory_where_nothing_can_be_made() -> None:
    assert "/proc/odradek" in start("--port", "0", "--data", "/proc/odradek")


def test_data_directory_of_another_node(tmp_path: Path) -> None:
    mine = "version=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\nnode.id=77\ndirectory.id="
    (tmp_path / "meta.properties").write_text(mine + "q_-c0dVZTzyLAgAbnzPcqA\n")
    said = start("--port", "0", "--data", str(tmp_path))
    assert "77" in said
    assert "node.id" in said


@pytest.mark.parametrize("content", ["", "garbage", "version=9\n", "version=1\nnode.id=x\n"])
def test_damaged_identity(tmp_path: Path, content: str) -> None:
    (tmp_path / "meta.properties").write_text(content)
    assert "meta.properties" in start("--port", "0", "--data", str(tmp_path))
    assert (tmp_path / "meta.properties").read_text() == content


def test_data_directory_that_another_node_holds(tmp_path: Path) -> None:
    with running_target(tmp_path) as one:
        said = start("--port", "0", "--data", str(one.node.data))
        assert str(one.node.data) in said
        one.check()


def test_a_relative_data_directory(tmp_path: Path) -> None:
    """A relative path names a directory below the working directory."""
    words = [ODRADEK, "serve", "--host", "127.0.0.1", "--port", "0", "--data", "below"]
    with Child(words, directory=tmp_path, stops=True) as process:
        process.wait_for("listening")
        assert (tmp_path / "below" / "meta.properties").exists()


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "notes.txt").write_text("mine")
    photos = data / "photos"
    with running_target(tmp_path) as one:
        one.check()
        photos.mkdir()
        (photos / "cat.jpg").write_bytes(b"meow")
        one.node.stop()
        one.node.start()
        one.check()
    assert (photos / "cat.jpg").read_bytes() == b"meow"
    assert (data / "notes.txt").read_text() == "mine"


def test_a_directory_of_other_things_is_not_taken(tmp_path: Path) -> None:
    photos = tmp_path / "data" / "photos"
    photos.mkdir(parents=True)
    assert "holds photos" in start("--port", "0", "--data", str(tmp_path / "data"))
    assert {each.name for each in (tmp_path / "data").iterdir()} <= {"photos", ".lock"}


@pytest.mark.parametrize(
    "damage",
    ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", f"{TOPIC}-0/*.index",
     f"{TOPIC}-0/*.timeindex", f"{TOPIC}-0/leader-epoch-checkpoint"],
)  # fmt: skip
def test_damaged_derived_files_are_rebuilt(tmp_path: Path, damage: str) -> None:
    """Damaged files that can be rebuilt from the log do not cause a loss of records."""
    one = Target(tmp_path)
    try:
        one.start()
        one.node.stop()
        damaged = list(one.node.data.glob(damage))
        assert damaged
        for path in damaged:
            path.write_bytes(b"\xff\x00damaged")
        one.node.start()
        with WireClient(one.node.port) as wire:
            assert len(wire.batches(TOPIC, 0)) == 20
    finally:
        one.node.close()


def test_a_torn_tail_is_cut(tmp_path: Path) -> None:
    """Recovery removes an incomplete batch at the end of the log."""
    one = Target(tmp_path)
    try:
        one.start()
        one.node.kill()
        (log,) = one.node.data.glob(f"{TOPIC}-0/*.log")
        whole = log.read_bytes()
        log.write_bytes(whole + whole[:50])
        one.node.start()
        with WireClient(one.node.port) as wire:
            assert len(wire.batches(TOPIC, 0)) == 20
            assert wire.produce_one(TOPIC, b"goes on") == 0
    finally:
        one.node.close()
