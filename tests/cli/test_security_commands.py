"""`odradek secure`, `odradek user` and `odradek acl`, with the files that `odradek secure` writes."""

import io
import pathlib
import shlex
import ssl
from types import SimpleNamespace

import confluent_kafka
import pytest
from compat.lab.toolchain import free_port
from tests.cli.conftest import invoke

from odradek.cli.client_settings import beside
from odradek.cli.secure import python_example
from odradek.cli.serve import _open_listeners, _suggest
from odradek.config.load import load
from odradek.config.properties import parse_properties
from odradek.testing import Broker


def properties(file):
    return parse_properties(file.read_bytes())


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """The directory of a secured node, which runs. Its name is not ASCII."""
    directory = tmp_path_factory.mktemp("security") / "sécurisé"
    made = invoke("secure", "init", directory, "--port", free_port())
    assert made.code == 0, made.err
    settings = properties(directory / "server.properties")
    with Broker(settings=settings, data=settings.pop("log.dirs")):
        yield directory


@pytest.fixture
def odradek(secured):
    """Runs a command as the super user; with `user=(NAME, PASSWORD)` as another user."""

    def odradek(*words, code=0, user=None):
        options = ["--command-config", secured / "client.properties"]
        if user is not None:
            options += ["-X", "sasl.mechanism=SCRAM-SHA-512"]
            options += ["-X", f"sasl.username={user[0]}", "-X", f"sasl.password={user[1]}"]
        outcome = invoke(*options, *words, bootstrap="")
        assert outcome.code == code, outcome
        return outcome

    return odradek


def test_a_secured_node_in_two_commands(secured, odradek):
    odradek("topic", "create", "first")
    assert odradek("topic", "list", "--quiet").lines == ["first"]
    secret = ("ca.key", "node-1.pem", "client.properties", "server.properties")
    for name in (*secret, "librdkafka.properties"):
        assert (secured / name).stat().st_mode & 0o777 == 0o600
    assert secured.stat().st_mode & 0o777 == 0o700


def test_librdkafka_with_its_file(secured, odradek):
    odradek("topic", "create", "from-librdkafka")
    example = python_example(secured / "librdkafka.properties")
    producer = eval(example, {"confluent_kafka": confluent_kafka, "pathlib": pathlib})
    producer.produce("from-librdkafka", b"hello")
    assert producer.flush(30) == 0
    assert odradek("consume", "from-librdkafka").lines == ["hello"]


def suggested(secured, capsys, file):
    """What a node prints if its file is this one."""
    config, _ = load(properties(secured / "server.properties"), {})
    port = int(properties(secured / "client.properties")["bootstrap.servers"].rpartition(":")[2])
    endpoint = SimpleNamespace(host="", port=port, name="SASL_SSL")
    node = SimpleNamespace(config=config, server=SimpleNamespace(endpoints=[endpoint]))
    _suggest(node, beside(file))
    return capsys.readouterr().err.splitlines()


def test_what_a_node_suggests_can_be_copied(secured, capsys):
    words = shlex.split(suggested(secured, capsys, secured / "server.properties")[0])[2:]
    assert words[:2] == ["odradek", "produce"]
    assert invoke(*words[1:], bootstrap="").code == 0


def test_a_node_without_a_file_for_clients_suggests_no_command(secured, tmp_path, capsys):
    for file in (tmp_path / "server.properties", None):
        (line,) = suggested(secured, capsys, file)
        assert "clients need a file with security settings" in line
        assert "odradek secure --help" in line


def test_files_are_not_overwritten(secured):
    refused = invoke("secure", "init", secured)
    assert (refused.code, "is not empty" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("init", "{new}", "--node", "1@localhost"), "write ID@HOST:PORT"),
        (("init", "{new}", "--node", "1@a:1", "--node", "1@b:1"), "each --node needs its own id"),
        (("init", "{new}", "--node", "1@a:1", "--node", "2@a:2"), "would have the address a:2"),
        (("init", "{new}", "--host", "a/b"), "use at most 64 letters"),
        (("user", "{new}", "alice"), "cannot use ca.pem and ca.key"),
        (("user", "{new}", "../alice"), "use at most 64 letters"),
    ],
)
def test_what_secure_refuses(tmp_path, words, problem):
    refused = invoke("secure", *(each.format(new=tmp_path / "new") for each in words))
    assert refused.code in (1, 2)
    assert problem in " ".join(refused.err.split())
    assert not (tmp_path / "new").exists()


def test_the_files_of_a_cluster_can_be_loaded(tmp_path):
    nodes = ("--node", "1@a:9092", "--node", "2@b:9092", "--node", "3@[::1]:9092")
    made = invoke("secure", "init", tmp_path / "c", *nodes)
    assert made.err.count("odradek format") == 3
    for each in (1, 2, 3):
        config, warnings = load(properties(tmp_path / "c" / f"server-{each}.properties"), {})
        assert warnings == ()
        assert set(config.quorum_voters) == {1, 2, 3}
        assert config.quorum_voters[3] == ("::1", 9093)
        assert config.broker_peers.user == config.controller_peers.user == "node"
        assert config.super_users == {"User:admin", "User:node"}
        assert config.layers.effective["default.replication.factor"] == "3"
        assert {node.host for node in config.listeners} == {"::1" if each == 3 else ""}


def test_nodes_on_this_machine_listen_only_there(tmp_path):
    made = invoke(
        "secure", "init", tmp_path / "c", "--node", "1@localhost:9", "--node", "2@localhost:11"
    )
    assert made.code == 0
    assert invoke("secure", "init", tmp_path / "s", "--shards").code == 0
    for file in ("c/server-1.properties", "c/server-2.properties", "s/server.properties"):
        assert {each.host for each in load(properties(tmp_path / file), {}).config.listeners} == {
            "127.0.0.1"
        }


def test_certificates_of_users_and_new_ones_of_nodes(tmp_path):
    directory = tmp_path / "s"
    invoke("secure", "init", directory, "--host", "kafka.example", "--host", "10.1.2.3")
    assert invoke("secure", "user", directory, "alice").code == 0
    before = (directory / "node-1.pem").read_bytes()
    assert invoke("secure", "node", directory, "1", "--host", "other.example").code == 0
    assert (directory / "node-1.pem").read_bytes() != before
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "node-1.pem")
    server.load_verify_locations(directory / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    for host in ("kafka.example", "10.1.2.3", "other.example", "localhost"):
        client = ssl.create_default_context(cafile=str(directory / "ca.pem"))
        client.load_cert_chain(directory / "user-alice.pem")
        subject = handshake(server, client, host)
        assert dict(pair for part in subject for pair in part) == {"commonName": "alice"}


def handshake(server, client, host):
    """The subject of the client's certificate, after a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    waiting = set(ends)
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
                waiting.discard(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return ends[1].getpeercert()["subject"]


def test_users(odradek, monkeypatch):
    assert "There are no users" in odradek("user", "list").err
    password = odradek("user", "add", "carol", "--generate").lines[0]
    monkeypatch.setattr("sys.stdin", io.StringIO("carol-secret\n"))
    odradek("user", "add", "carol", "-m", "SCRAM-SHA-256", "--iterations", 5000)
    assert odradek("user", "list", "--json").json == [
        {"user": "carol", "mechanism": "SCRAM-SHA-256", "iterations": 5000},
        {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert "carol" in odradek("user", "describe", "carol").out
    assert "no such credential" in odradek("user", "describe", "nobody", code=1).err
    odradek("topic", "list", user=("carol", password))
    odradek("user", "remove", "carol", "-m", "SCRAM-SHA-256", "--yes")
    odradek("user", "remove", "carol", "--yes")
    assert "no such credential" in odradek("user", "remove", "carol", "--yes", code=1).err
    refused = odradek("topic", "list", user=("carol", password), code=1)
    assert "does not let carol in" in refused.err
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "the password is empty" in odradek("user", "add", "carol", code=2).err


def test_acls_and_their_reasons(odradek):
    odradek("topic", "create", "flights-1")
    password = odradek("user", "add", "alice", "--generate").lines[0]
    refused = odradek("produce", "flights-1", "x", user=("alice", password), code=1)
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.err
    reason = odradek("acl", "explain", "alice", "write", "topic:flights-1").out
    assert "User:alice at 127.0.0.1 may not write topic:flights-1" in reason
    assert "No ACL applies to the resource, and allow.everyone.if.no.acl.found is false." in reason

    odradek("acl", "add", "alice", "read,write", "topic:flights-*")
    odradek("acl", "add", "alice", "read", "group:jobs")
    odradek("produce", "flights-1", "x", user=("alice", password))
    reason = odradek("acl", "explain", "alice", "describe", "topic:flights-1").out
    assert (
        "allows User:alice read on topic:flights-* from any address, which implies describ"
        in reason
    )

    odradek("acl", "add", "User:*", "write", "topic:flights-1", "--deny", "--host", "127.0.0.1")
    odradek("produce", "flights-1", "x", user=("alice", password), code=1)
    found = odradek("acl", "explain", "alice", "write", "topic:flights-1", "--json").json
    assert (found["allowed"], found["rule"], len(found["applying"])) == (False, "MatchingAcl", 3)
    assert found["acl"]["permission"] == "deny"
    elsewhere = odradek(
        "acl", "explain", "alice", "write", "topic:flights-1", "--host", "10.0.0.1", "--json"
    )
    assert elsewhere.json["allowed"]
    assert "super.users" in odradek("acl", "explain", "admin", "alter", "cluster").out
    assert "none allows this" in odradek("acl", "explain", "bob", "read", "topic:flights-1").out

    assert len(odradek("acl", "list", "--applying-to", "topic:flights-1", "--json").json) == 3
    assert len(odradek("acl", "list", "--resource", "topic:flights-1", "--json").json) == 1
    assert len(odradek("acl", "list", "--principal", "alice").lines) == 4
    odradek("acl", "remove", "any", "any", "topic:flights-1", "--yes")
    odradek("produce", "flights-1", "x", user=("alice", password))
    assert "No ACL is selected" in odradek("acl", "remove", "bob", "any", "any", code=1).err
    assert "Removed 3 ACLs" in odradek("acl", "remove", "alice", "any", "any", "--yes").err
    assert "There are no ACLs" in odradek("acl", "list").err


def test_a_user_who_sees_nothing(odradek):
    user = ("dora", odradek("user", "add", "dora", "--generate").lines[0])
    odradek("topic", "create", "secret")
    assert "or none that this user may see" in odradek("topic", "list", user=user).err


def test_the_hint_about_a_group_can_be_copied(odradek):
    user = ("gina", odradek("user", "add", "gina", "--generate").lines[0])
    odradek("topic", "create", "jobs")
    odradek("acl", "add", "gina", "read", "topic:jobs")
    refused = odradek("consume", "jobs", "--group", "my jobs", user=user, code=1)
    odradek("acl", "remove", "gina", "any", "any", "--yes")
    assert "group my jobs: Group authorization failed" in refused.err
    assert "odradek acl list --applying-to group:'my jobs'\n" in refused.err


@pytest.mark.parametrize(
    ("host", "is_warned"),
    [("10.0.0.0/8", False), ("300.1.1.1", True), ("localhost", True), ("10.0.0.1", False),
     ("::1", False), ("*", False)],
)  # fmt: skip
def test_an_acl_that_no_client_matches(odradek, host, is_warned):
    added = odradek("acl", "add", "hugo", "read", "topic:a", "--host", host)
    assert (f"Warning: {host} is not the address of a client" in added.err) == is_warned
    (entry,) = odradek("acl", "list", "--principal", "hugo", "--json").json
    assert entry["host"] == host
    odradek("acl", "remove", "hugo", "any", "any", "--yes")


def test_a_user_who_may_not_see_the_settings_of_new_topics(odradek):
    user = ("erik", odradek("user", "add", "erik", "--generate").lines[0])
    odradek("acl", "add", "erik", "create", "topic:erik-*")
    assert odradek("topic", "create", "erik-1", user=user).out == "Created erik-1\n"
    odradek("acl", "add", "erik", "describe", "topic:erik-*")
    (created,) = odradek("topic", "create", "erik-2", "--json", user=user).json
    assert sorted(created) == ["id", "name"]
    odradek("acl", "add", "erik", "describe-configs", "topic:erik-*")
    created = odradek("topic", "create", "erik-3", user=user)
    assert created.out == "Created erik-3 (1 partition, 1 replica)\n"
    odradek("acl", "remove", "erik", "any", "any", "--yes")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "alice", "fly", "topic:a"), "there is no operation 'fly'"),
        (("add", "alice", "read", "plane:a"), "write TYPE:NAME with one of topic, group"),
        (("add", "alice", "read", "topic"), "has no name"),
        (("add", "alice", "read", "cluster:x"), "write cluster, without a name"),
        (("explain", "alice", "read", "topic:a*"), "write the name of one resource"),
        (("explain", "alice", "all", "topic:a"), "write one operation"),
        (("list", "--applying-to", "topic:a*"), "not a prefix"),
        (("list", "--applying-to", "topic:a", "--resource", "topic:a"), "together"),
    ],
)
def test_words_that_acl_refuses(words, problem):
    refused = invoke("acl", *words)
    assert refused.code == 2
    assert problem in " ".join(refused.err.split())


def test_a_cluster_without_an_authorizer():
    with Broker() as broker:
        refused = invoke("acl", "list", bootstrap=broker.bootstrap_servers)
        assert "authorizer.class.name" in refused.err
        words = ("acl", "explain", "alice", "read", "topic:a")
        explained = invoke(*words, bootstrap=broker.bootstrap_servers)
        assert "everyone may do everything" in explained.out


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, "PLAINTEXT"),
        ({"listeners": "PLAINTEXT://localhost:9092"}, None),
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, None),
        ({"listeners": "PLAINTEXT://10.0.0.1:9092"}, "PLAINTEXT"),
        (
            {"listeners": "A://:9092,B://:9093,C://:9094,PLAINTEXT://localhost:1", "sasl.enabled.mechanisms": "SCRAM-SHA-256",
             "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SSL,C:SSL,PLAINTEXT:PLAINTEXT", "ssl.keystore.type": "PEM",
             "ssl.keystore.location": "/key.pem", "ssl.truststore.type": "PEM",
             "ssl.truststore.location": "/ca.pem", "listener.name.b.ssl.client.auth": "required"},
            "C",
        ),
    ],
)  # fmt: skip
def test_the_warning_about_open_listeners(settings, names):
    warnings = list(_open_listeners(load({}, settings).config))
    assert len(warnings) == bool(names)
    assert all(f"no authentication on {names}. " in each for each in warnings)
