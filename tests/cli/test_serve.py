"""`odradek serve` as a process: its output, its options, and failing starts."""

from __future__ import annotations

import re
import resource
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from compat.lab.toolchain import free_port
from tests.support.child import ODRADEK, Child

OF_APACHE_KAFKA = """
# one process for both roles, as Apache Kafka's download has it
process.roles=broker,controller
node.id=1
{quorum}
listeners=PLAINTEXT://:{port},CONTROLLER://:{controller_port}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


@contextmanager
def serving(*words):
    """A node; yields the process and the lines of its banner."""
    with Child([*ODRADEK, *map(str, words)]) as process:
        yield process, process.wait_for("Ctrl-C").splitlines()


def refused(*words):
    """What a node says that does not start, and its exit code."""
    finished = subprocess.run(
        [*ODRADEK, *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.stdout == ""
    assert "Traceback" not in finished.stderr
    return finished.stderr, finished.returncode


def address_of(lines):
    return next(found[1] for line in lines if (found := re.search(r"listening +(\S+)", line)))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the size of a process's table")
def test_there_is_room_for_many_descriptors_from_the_start(tmp_path):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving("--port", 0, "--data", tmp_path) as (process, _):
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    assert int(re.search(r"FDSize:\s+(\d+)", status)[1]) >= min(16_384, most)


def test_the_banner_and_ctrl_c(tmp_path):
    with serving("--port", 0, "--data", tmp_path / "data") as (process, lines):
        address = address_of(lines)
        assert re.fullmatch(r"localhost:\d+", address)
        assert f"  data        {tmp_path}/data" in lines
        assert f"odradek produce -b {address} greetings hello" in "\n".join(lines)
        second, code = refused("--port", 0, "--data", tmp_path / "data")
        assert (code, "another process uses" in second) == (1, True)
        assert "choose another directory with --data" in second
        printed = process.output
        process.signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.output == printed


def test_without_creation_on_demand_the_banner_creates_the_topic(tmp_path):
    off = "auto.create.topics.enable=false"
    with serving("--port", 0, "--data", tmp_path / "data", "--override", off) as (_, lines):
        address = address_of(lines)
        assert f"  say hello   odradek topic create -b {address} greetings" in lines
        assert f"              odradek produce -b {address} greetings hello" in lines


@pytest.mark.parametrize(
    "quorum",
    [
        "controller.quorum.bootstrap.servers=localhost:{controller_port}",
        "controller.quorum.voters=1@localhost:{controller_port}",
    ],
)
def test_a_configuration_of_apache_kafka_as_it_is(tmp_path, quorum):
    port, controller_port = free_port(), free_port()
    file = tmp_path / "server.properties"
    ports = {"port": port, "controller_port": controller_port}
    text = OF_APACHE_KAFKA.format(quorum=quorum.format(**ports), data=tmp_path / "data", **ports)
    file.write_text(text)
    with serving("--config", file) as (process, lines):
        assert address_of(lines) == f"localhost:{port}"
        warnings = [line for line in lines if line.startswith("Warning")]
        assert len(warnings) == 1
        assert "no authentication on PLAINTEXT, CONTROLLER. Listen" in warnings[0]
        with socket.create_connection(("localhost", controller_port)):
            assert process.terminate(30) == 0
    moved = free_port()
    with serving("--config", file, "--port", moved) as (_, lines):
        assert address_of(lines) == f"localhost:{moved}"
        words = [*ODRADEK, "-b", f"localhost:{moved}", "produce", "greetings", "hello"]
        subprocess.run(words, check=True, timeout=60)


def test_a_port_in_use(tmp_path):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        said, code = refused("--port", port, "--data", tmp_path)
        assert (code, f":{port}: Address already in use" in said) == (1, True)
        assert "choose another with --port" in said
        words = ("--port", 0, "--host", "127.0.0.1", "--data", tmp_path, "--metrics-port", port)
        said, code = refused(*words)
        assert (code, "choose another with --metrics-port" in said) == (1, True)


def test_directories_that_cannot_be_used(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis").mkdir()
    said, code = refused("--port", 0, "--data", foreign)
    assert (code, "holds thesis, so it is no node's: choose an empty" in said) == (1, True)
    inner = tmp_path / "output" / "broker" / "data"
    inner.mkdir(parents=True)
    (inner / "meta.properties").write_text("version=1\n")
    for directory in (inner.parent, inner.parent.parent):
        said, code = refused("--port", 0, "--data", directory)
        assert (code, f"a node's data is in {inner}" in said) == (1, True)
    (tmp_path / "file").touch()
    said, code = refused("--port", 0, "--data", tmp_path / "file" / "data")
    assert (code, "choose a directory that can be written with --data" in said) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--override", "listeners=PLAINTEXT://:0", "--port", "1"], "cannot be used with"),
        (
            ["--override", "controller.listener.names=PLAINTEXT", "--port", "1"],
            "listeners are: none",
        ),
        (["--override", "num.partitions"], "write NAME=VALUE"),
        (["--override", "num.partitions=x"], "Invalid value x for configuration num.partitions"),
        (["--config", "/no/such/file"], "cannot read /no/such/file"),
        (["--prot", "1"], "Did you mean"),
    ],
)
def test_wrong_words(tmp_path, words, said):
    text, code = refused("serve", "--data", tmp_path, *words)
    assert (code, said in text) == (2, True), text


def test_the_command_line_goes_before_the_default_of_the_log_level(tmp_path):
    words = ("--port", 0, "--data", tmp_path / "data", "--override", "odradek.log.level=info")
    with serving(*words) as (_, lines):
        assert any(" info " in line for line in lines)


def has_ipv6():
    """Whether this machine has an IPv6 address for itself."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_an_ipv6_address_is_written_as_clients_take_it(tmp_path):
    with serving("--host", "::1", "--port", 0, "--data", tmp_path / "data") as (_, lines):
        address = address_of(lines)
        assert address.startswith("[::1]:")
        words = [*ODRADEK, "-b", address, "topic", "create", "six"]
        subprocess.run(words, check=True, timeout=60, stdout=subprocess.DEVNULL)


CONTROLLER_ONLY = """
process.roles=controller
node.id=1
listeners=CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={data}
"""
BROKER_ONLY = """
process.roles=broker
node.id=2
listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
offsets.topic.replication.factor=1
log.dirs={data}
"""


@pytest.mark.cluster
@pytest.mark.slow("processes start, stop and take over")
def test_a_controller_and_a_broker_are_processes(tmp_path):
    ports = {"port": free_port(), "controller_port": free_port()}
    files = []
    for name, text in (("controller", CONTROLLER_ONLY), ("broker", BROKER_ONLY)):
        files.append(tmp_path / f"{name}.properties")
        files[-1].write_text(text.format(data=tmp_path / name, **ports))
    controller, broker = files
    said, code = refused("--config", broker)
    assert (code, "run `odradek format`" in said) == (1, True)
    for file in files:
        words = [*ODRADEK, "format", "--config", file, "-t", "4L6g3nShT-eMCtK--X86sw"]
        subprocess.run(words, check=True, timeout=60)
    with serving("--config", controller) as (first, lines):
        assert any(line.endswith("node 1, cluster 4L6g3nShT-eMCtK--X86sw") for line in lines)
        assert not [line for line in lines if "say hello" in line]
        with serving("--config", broker) as (second, lines):
            assert address_of(lines) == f"127.0.0.1:{ports['port']}"
            server = f"127.0.0.1:{ports['port']}"
            words = [*ODRADEK, "-b", server, "produce", "greetings", "hello"]
            subprocess.run(words, check=True, timeout=60)
            assert second.terminate(30) == 0
        with serving("--config", broker):
            pass
        assert first.terminate(30) == 0
