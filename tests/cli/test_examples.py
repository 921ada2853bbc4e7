"""The examples of all help texts, as far as they can be run in this process."""

from __future__ import annotations

import io
import json
import re
import shlex

import click
import pytest
from confluent_kafka import Producer
from tests.cli.conftest import invoke
from tests.connect.lab import Lab

from odradek.cli import main
from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.config.jaas import PLAIN_LOGIN_MODULE
from odradek.operations import cluster_health
from odradek.testing import Broker

EXAMPLE = re.compile(r"^ *(odradek\b[^|#<>\n]*)(.*)$", re.MULTILINE)
NOT_HERE = (
    "--port", "serve", "demo", "pipeline", "streams", "format", "completion", "bench",  # have tests of their own
    "--command-config", "$PWD",
    "--follow", "transaction abort", " log ", "cluster start",
    "simulate", "cluster add-broker", "cluster drain", "cluster remove",
    "queue work", "doctor --config", "adopt-checkpoint", "unregister-controller", "connect",
)  # fmt: skip
TOPICS = ("flights", "orders", "users", "greetings", "a", "b")
RECORDS = 1300


def examples(command=main.root):
    """The examples of a command and those below it, up to a pipe."""
    for text in (command.help, command.epilog):
        for words, rest in EXAMPLE.findall(text or ""):
            if not rest.startswith("<"):
                yield words.strip()
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from examples(command.get_command(context, name))


EXAMPLES = list(dict.fromkeys(examples()))


@pytest.fixture(scope="module")
def broker():
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:admin",
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'{PLAIN_LOGIN_MODULE} required user_admin="admin-secret";'
        ),
        "delegation.token.secret.key": "secret",
    }
    with Broker(settings=settings) as broker:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "transactional.id": "orders-job-1",
                "log_level": 0,
            }
        )
        producer.init_transactions(20)
        yield broker


@pytest.fixture
def run(broker, tmp_path, monkeypatch):
    """Runs a command that has to succeed, where there is what the examples name."""

    def run(*words):
        outcome = invoke(*words, bootstrap=broker.bootstrap_servers)
        assert outcome.code == 0, outcome
        return outcome

    monkeypatch.chdir(tmp_path)
    # The disk of the machine may be nearly full.
    monkeypatch.setattr(cluster_health, "FREE_SHARE_NOTED", 0.0)
    (tmp_path / "plan.json").write_text("flights,0,3\n")
    created = run("topic", "create", *TOPICS, "-p", 6, "--if-not-exists").out
    if "flights" in created:
        run("produce", "flights", *range(RECORDS), "-p", 0)
    run("queue", "reset", "workers", "--topic", "orders", "--to", "end", "--execute")
    present = run("queue", "reset", "workers", "--topic", "orders", "--to-current", "--json").out
    (tmp_path / "starts.json").write_text(present)
    run("config", "set", "group", "workers", "errors.deadletterqueue.topic.name=dlq.orders")
    run("group", "reset-offsets", "reports", "--topic", "flights", "--to", "end", "--execute")
    return run


@pytest.fixture
def run_as_admin(broker, monkeypatch):
    """Runs a command that needs a client that is authenticated."""
    (port,) = [each.port for each in broker.node.server.endpoints if each.name == "SASL"]
    settings = {
        "SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "SASL_MECHANISM": "PLAIN",
        "SASL_USERNAME": "admin",
        "SASL_PASSWORD": "admin-secret",
    }

    def run_as_admin(*words):
        for name, value in settings.items():
            monkeypatch.setenv(f"ODRADEK_CLIENT_{name}", value)
        outcome = invoke(*words, bootstrap=f"127.0.0.1:{port}")
        assert outcome.code == 0, outcome
        return outcome

    return run_as_admin


def can_be_run(example):
    if example == "odradek" or example.startswith(OF_TOKENS):
        return False
    return not any(word in example for word in NOT_HERE)


OF_TOKENS = "odradek token"


@pytest.mark.parametrize("example", [each for each in EXAMPLES if each.startswith(OF_TOKENS)])
def test_it_works_with_tokens(run_as_admin, example):
    token = run_as_admin("token", "create", "--json").json["id"]
    run_as_admin(*shlex.split(example.replace("TOKEN", token))[1:])


@pytest.mark.parametrize("example", [each for each in EXAMPLES if can_be_run(each)])
def test_it_works(run, example, monkeypatch):
    if example.startswith("odradek topic create flights"):
        run("topic", "delete", "flights", "--yes")
    if example.startswith("odradek user"):
        monkeypatch.setattr("sys.stdin", io.StringIO("alice-secret\n"))
        run("user", "add", "alice", "--generate")
    if example.startswith("odradek acl remove"):
        run("acl", "add", "alice", "read", "topic:flights")
    if example.startswith(("odradek secure user", "odradek secure node")):
        run("secure", "init", "secured")
    run(*shlex.split(example)[1:])


OF_WORKERS = "odradek connect"
NO_VERBS = ("standalone", "distributed", "mirror", "new")


@pytest.mark.parametrize(
    "example",
    [each for each in EXAMPLES if each.startswith(OF_WORKERS) and each.split()[2] not in NO_VERBS],
)
def test_it_works_with_a_worker(broker, tmp_path, monkeypatch, example):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "a"}
    for name in ("lines", "sink"):
        text = json.dumps({"name": name, "config": {**config, "name": name}})
        (tmp_path / f"{name}.json").write_text(text)
    with Lab(broker.bootstrap_servers, tmp_path) as lab:
        monkeypatch.setenv("ODRADEK_CONNECT_URL", f"http://127.0.0.1:{lab.worker.port}")
        lab.create("lines", config)
        lab.until(lambda: lab.states("lines") == ("RUNNING", ["RUNNING"]))
        outcome = invoke(*shlex.split(example)[1:])
        assert outcome.code == 0, outcome


def test_a_controller_that_is_not_registered(broker):
    outcome = invoke("cluster", "unregister-controller", "3", bootstrap=broker.bootstrap_servers)
    assert outcome.code == 1
    assert "Controller ID 3 is not currently registered" in outcome.err


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """The directory in which `data` is that of a node that has stopped."""
    parent = tmp_path_factory.mktemp("examples")
    settings = {"offsets.topic.num.partitions": 8}
    with Broker(topics={"flights": 1}, data=str(parent / "data"), settings=settings) as broker:
        for words in ("produce flights hello", "consume flights --group reports"):
            assert invoke(*words.split(), bootstrap=broker.bootstrap_servers).code == 0
    return parent


@pytest.mark.parametrize("example", [each for each in EXAMPLES if " log " in each])
def test_it_works_on_files(parent, example, monkeypatch):
    monkeypatch.chdir(parent)
    outcome = invoke(*shlex.split(example)[1:])
    assert outcome.code == 0, outcome
