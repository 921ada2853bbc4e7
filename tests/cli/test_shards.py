"""`odradek serve --shards`: settings of shards, and processes that are killed and stopped."""

from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from compat.lab.toolchain import free_port
from confluent_kafka.admin import AdminClient
from tests.cli.conftest import invoke
from tests.cli.test_cluster_start import brokers, free_base
from tests.support.child import ODRADEK, Child

from odradek.cli.shards import _greet, shard_settings
from odradek.cli.supervisor import (
    PAUSE_SECONDS,
    PAUSE_SECONDS_MAX,
    STEADY_SECONDS,
    Backoff,
    NodeProcess,
    Supervisor,
)
from odradek.config.load import load
from odradek.config.properties import format_properties, parse_properties

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def shards(count, voters=None, **settings):
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return shard_settings(count, given, load(given, {}, "/data").config, voters or {})


def test_the_settings_of_shards():
    first, second = shards(2, log_dirs="/a,/b", odradek_metrics_port="9404").values()
    assert first["process.roles"] == "broker,controller"
    assert first["listeners"] == "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9192"
    assert second["process.roles"] == "broker"
    assert second["node.id"] == "2"
    assert second["listeners"] == "PLAINTEXT://:9093"
    assert second["log.dirs"] == "/a/2,/b/2"
    assert second["odradek.metrics.port"] == "9405"
    for each in (first, second):
        assert each["controller.quorum.voters"] == "1@127.0.0.1:9192"
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            assert each[f"{topic}.replication.factor"] == "2"
        load(each, {})


def test_settings_that_are_kept():
    made = shards(
        3,
        node_id="10",
        listeners="PLAINTEXT://127.0.0.1:9000,OTHER://127.0.0.1:9500",
        advertised_listeners="PLAINTEXT://host:9000,OTHER://host:9500",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        broker_rack="r",
        offsets_topic_replication_factor="1",
    )
    assert list(made) == [10, 11, 12]
    last = made[12]
    assert last["listeners"] == "PLAINTEXT://127.0.0.1:9002,OTHER://127.0.0.1:9502"
    assert last["advertised.listeners"] == "PLAINTEXT://host:9002,OTHER://host:9502"
    assert (last["broker.rack"], last["offsets.topic.replication.factor"]) == ("r", "1")


def test_shards_on_several_machines():
    """The voters of this machine are controllers. The other machine has the voter 30."""
    voters = {10: ("a", 9500), 11: ("a", 9501), 30: ("b", 9500)}
    made = shards(3, voters, node_id="10")
    assert [made[each]["process.roles"] for each in (10, 11, 12)] == [
        "broker,controller",
        "broker,controller",
        "broker",
    ]
    assert made[11]["listeners"] == "PLAINTEXT://:9093,CONTROLLER://a:9501"
    assert made[12]["listeners"] == "PLAINTEXT://:9094"
    for each in made.values():
        assert each["controller.quorum.voters"] == "10@a:9500,11@a:9501,30@b:9500"
        assert each["offsets.topic.replication.factor"] == "3"
        load(each, {})


def test_the_cluster_id_of_several_machines(tmp_path):
    words = ["serve", "--shards", 2, "--data", tmp_path]
    words += ["--override", "controller.quorum.voters=1@a:9192,11@b:9192"]
    outcome = invoke(*words)
    assert outcome.code == 2
    assert "need the same --cluster-id on each of them, for example --cluster-id" in outcome.err
    for each in (1, 2):
        words_of_one = ["--data", tmp_path / str(each), "--node-id", each, "-t", CLUSTER_ID]
        assert invoke("format", *words_of_one).code == 0
    outcome = invoke(*words, "--cluster-id", "x" * 22)
    assert f"has data of the cluster {CLUSTER_ID}" in outcome.err
    outcome = invoke("serve", "--data", tmp_path / "other", "--cluster-id", CLUSTER_ID)
    assert "--cluster-id needs --shards" in outcome.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--override", "controller.quorum.voters=1:a"], "id@host:port"),
        (["--port", 0], "--shards needs fixed ports"),
        (["--override", "process.roles=broker"], "--shards sets process.roles itself"),
        (["--shards", 0], "0 is not in the range"),
    ],
)
def test_what_does_not_fit(tmp_path, words, problem):
    outcome = invoke("serve", "--shards", 2, "--data", tmp_path, *words)
    assert outcome.code == 2
    assert problem in outcome.err


def test_a_controller_without_a_protocol(tmp_path):
    assert invoke("secure", "init", tmp_path / "secured", "--shards").code == 0
    file = tmp_path / "secured" / "server.properties"
    settings = parse_properties(file.read_bytes())
    del settings["listener.security.protocol.map"]
    file.write_bytes(format_properties(settings))
    outcome = invoke("serve", "--shards", 2, "--data", tmp_path / "data", "--config", file)
    assert outcome.code == 2
    assert "add CONTROLLER:PROTOCOL to listener.security.protocol.map" in outcome.err


def test_overlapping_ports(tmp_path):
    listeners = "listeners=A://:9000,B://:9001"
    protocols = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    words = ["--override", listeners, "--override", protocols]
    words += ["--override", "inter.broker.listener.name=A"]
    outcome = invoke("serve", "--shards", 2, "--data", tmp_path, *words)
    assert "the ports of the shards overlap: 2 shards use the ports 9000 to 9001" in outcome.err


def test_directories_of_others(tmp_path):
    assert invoke("format", "--data", tmp_path / "alone").code == 0
    outcome = invoke("serve", "--shards", 2, "--data", tmp_path / "alone")
    assert "has the data of a node without shards" in outcome.err
    for each in (1, 2, 3):
        (tmp_path / "many" / "shards" / str(each)).mkdir(parents=True)
    outcome = invoke("serve", "--shards", 2, "--data", tmp_path / "many")
    assert "has the data of 3 shards. Run all of them with --shards 3" in outcome.err


def test_pauses_before_a_process_is_started_again():
    backoff, now, pauses = Backoff(), 0.0, []
    for _ in range(9):
        backoff.on_start(now)
        now += 1
        pauses.append(backoff.pause(now))
        now += pauses[-1]
    assert pauses[:4] == [0.0, PAUSE_SECONDS, 2 * PAUSE_SECONDS, 4 * PAUSE_SECONDS]
    assert pauses[-1] == PAUSE_SECONDS_MAX
    backoff.on_start(now)
    assert backoff.pause(now + STEADY_SECONDS) == 0.0


def test_what_shards_suggest(capsys):
    nodes = [SimpleNamespace(node_id=1, address=("::1", 9092), pid=7, directory="/data/1")]
    _greet(nodes, " --command-config secured/client.properties")
    option = "--command-config secured/client.properties"
    assert f"odradek cluster status -b [::1]:9092 {option}\n" in capsys.readouterr().err
    _greet(nodes, None)
    said = capsys.readouterr().err
    assert "odradek cluster status" not in said
    assert "odradek secure --help" in said


@pytest.fixture
def handlers():
    """Keep the signal handlers, which the supervisor replaces."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_if_a_process_cannot_be_started_the_others_are_stopped(tmp_path, handlers):
    (tmp_path / "1").mkdir()
    nodes = [
        NodeProcess(each, tmp_path / str(each), ("127.0.0.1", free_port()), is_controller=True)
        for each in (1, 2)
    ]
    with pytest.raises(FileNotFoundError):  # the directory of the second one is missing
        Supervisor(nodes, lambda: None).run()
    assert nodes[0].exit_code() is not None


@pytest.mark.cluster
@pytest.mark.timeout(180)
@pytest.mark.slow("two machines with several processes each")
def test_two_machines(tmp_path):
    """Each command runs the shards of one machine. Two of the three voters run there."""
    base = free_base()
    voters = ",".join(
        f"{each}@127.0.0.1:{port}"
        for each, port in ((1, base + 100), (2, base + 101), (11, base + 102))
    )
    common = [*ODRADEK, "serve", "--host", "127.0.0.1"]
    common += ["--override", f"controller.quorum.voters={voters}", "--cluster-id", CLUSTER_ID]
    with ExitStack() as stack:
        machines = []
        for node_id, count, port in ((1, 2, base), (11, 1, base + 2)):
            words = [
                "--shards",
                str(count),
                "--port",
                str(port),
                "--data",
                str(tmp_path / str(node_id)),
            ]
            words += ["--override", f"node.id={node_id}", "--override", f"broker.rack={node_id}"]
            machines.append(stack.enter_context(Child([*common, *words], stops=True)))
        machines[0].until(lambda: brokers(base) == brokers(base + 2) == [1, 2, 11])
        created = invoke(
            "topic", "create", "orders", "--replication-factor", 2, bootstrap=f"127.0.0.1:{base}"
        )
        assert created.code == 0, created.err
        assert invoke("produce", "orders", "hello", bootstrap=f"127.0.0.1:{base + 2}").code == 0
        assert machines[1].terminate() == 0
        machines[0].until(lambda: brokers(base) == [1, 2])
        assert invoke("consume", "orders", bootstrap=f"127.0.0.1:{base}").out == "hello\n"


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_two_shards_of_which_one_is_killed(tmp_path):
    """They listen on all addresses, as by default."""
    base = free_base()
    words = [*ODRADEK, "serve", "--shards", "2"]
    words += ["--data", str(tmp_path / "data"), "--port", str(base)]
    with Child(words, stops=True) as process:
        printed = process.wait_for("Ctrl-C")
        pids = [int(each) for each in re.findall(r"process (\d+)", printed)]
        assert len(pids) == 2, printed
        process.until(lambda: brokers(base) == [1, 2])
        address = f"127.0.0.1:{base}"
        found = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).brokers
        told = {f"{each.host}:{each.port}" for each in found.values()}
        assert told == {address, f"127.0.0.1:{base + 1}"}
        for each in ("create", "describe"):
            assert invoke("topic", each, "orders", bootstrap=address).code == 0
        assert invoke("produce", "orders", "hello", bootstrap=address).code == 0
        os.kill(pids[0], signal.SIGKILL)
        process.wait_for("node 1 ended (signal 9); started again")
        process.until(lambda: brokers(base) == [1, 2])
        read = invoke("consume", "orders", bootstrap=address)
        assert read.out == "hello\n"
    assert brokers(base) == []


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_shards_with_tls_and_sasl(tmp_path):
    base = free_base()
    files = tmp_path / "secured"
    made = invoke("secure", "init", files, "--shards", "--port", base)
    assert made.code == 0, made.err
    assert f"odradek serve --shards 2 --config {files}/server.properties" in made.err
    words = [*ODRADEK, "serve", "--shards", "2", "--config"]
    words += [str(files / "server.properties")]
    client = ["--command-config", files / "client.properties"]
    with Child(words, stops=True) as process:
        printed = process.wait_for("Ctrl-C").splitlines()
        (status,) = [line for line in printed if "odradek cluster status" in line]
        assert f"-b 127.0.0.1:{base} --command-config {files}/client.properties" in status
        words = status.split()
        process.until(lambda: not invoke(*words[words.index("cluster") :], bootstrap="").code)
        create = ("topic", "create", "orders", "--partitions", 2, "--replication-factor", 2)
        process.until(lambda: not invoke(*client, *create, "--if-not-exists", bootstrap="").code)
        for partition in (0, 1):
            written = invoke(
                *client, "produce", "orders", "hello", "--partition", partition, bootstrap=""
            )
            assert written.code == 0, written.err
        read = invoke(*client, "consume", "orders", bootstrap="")
        assert read.out == "hello\nhello\n"
