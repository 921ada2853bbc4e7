"""`odradek format` and `odradek demo`: commands that call other packages."""

from __future__ import annotations

import base64
import importlib.util

import pytest
from tests.cli.conftest import invoke

from odradek.broker.raft.snapshots import read_snapshot
from odradek.config.properties import parse_properties
from odradek.core.metadata.record import decode_record
from odradek.core.sasl.scram_keys import SCRAM_SHA_256, SCRAM_SHA_512, keys_of, salted_password
from odradek.env.file_system import OsFileSystem
from odradek.model import uuids
from odradek.testing import Broker
from odradek.wire.generated.user_scram_credential_record import UserScramCredentialRecord

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def properties(directory):
    return parse_properties((directory / "meta.properties").read_bytes())


def test_a_new_directory(tmp_path):
    data = tmp_path / "data"
    outcome = invoke("format", "--data", data, "--cluster-id", CLUSTER_ID, "--node-id", 7)
    assert outcome.code == 0
    assert outcome.lines[-1] == f"Cluster {CLUSTER_ID}, node 7"
    written = properties(data)
    assert (written["cluster.id"], written["node.id"]) == (CLUSTER_ID, "7")
    assert written["directory.id"] in outcome.out
    assert (data / "bootstrap.checkpoint").exists()


def test_a_formatted_directory(tmp_path):
    assert invoke("format", "--data", tmp_path).code == 0
    cluster_id = properties(tmp_path)["cluster.id"]
    again = invoke("format", "--data", tmp_path)
    assert again.code == 1
    assert f"is formatted already, for cluster {cluster_id}" in again.err
    ignored = invoke("format", "--data", tmp_path, "--ignore-formatted")
    assert (ignored.code, ignored.out) == (0, f"Formatted already, for cluster {cluster_id}\n")
    assert properties(tmp_path)["cluster.id"] == cluster_id


def test_a_configuration_file(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=3\nlog.dirs={tmp_path}/a,{tmp_path}/b\nlog.dir.no.such=1\n")
    outcome = invoke("format", "--config", file, "--override", "node.id=4")
    assert outcome.code == 0
    assert "log.dir.no.such has no effect" in outcome.err
    assert properties(tmp_path / "a")["node.id"] == properties(tmp_path / "b")["node.id"] == "4"


def test_credentials_of_scram(tmp_path):
    salted = salted_password(SCRAM_SHA_512, "pass=word", b"salt", 5000)
    outcome = invoke(
        *("format", "--data", tmp_path),
        *("--add-scram", 'SCRAM-SHA-256=[name=alice,password="pass=word"]'),
        *("-S", "SCRAM-SHA-512=[name=bob,iterations=5000,salt=c2FsdA==,"
          f"saltedpassword={base64.b64encode(salted).decode()}]"),
    )  # fmt: skip
    assert outcome.code == 0, outcome
    values = read_snapshot(OsFileSystem(), str(tmp_path / "bootstrap.checkpoint")).values
    records = [decode_record(value) for value in values]
    alice, bob = [each for each in records if isinstance(each, UserScramCredentialRecord)]
    assert (alice.name, alice.mechanism, alice.iterations) == ("alice", 1, 4096)
    again = salted_password(SCRAM_SHA_256, "pass=word", alice.salt, 4096)
    assert (alice.stored_key, alice.server_key) == keys_of(SCRAM_SHA_256, again)
    assert (bob.name, bob.mechanism, bob.iterations, bob.salt) == ("bob", 2, 5000, b"salt")
    assert (bob.stored_key, bob.server_key) == keys_of(SCRAM_SHA_512, salted)
    with Broker(data=str(tmp_path)) as broker:
        image = broker.node.broker.metadata.image
        assert set(image.scram) == {(1, "alice"), (2, "bob")}
        assert image.scram[2, "bob"].server_key == bob.server_key


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--cluster-id", "short"], 1, "is not a cluster id"),
        (["--override", "x"], 2, "write NAME=VALUE"),
        (["--override", "node.id=x"], 2, "node.id"),
        (["--config", "/no/such/file"], 2, "cannot read /no/such/file"),
        (["-S", "PLAIN=[name=a,password=b]"], 1, "must begin with one of SCRAM-SHA-256"),
        (["-S", "SCRAM-SHA-256=name=a"], 1, "must be in brackets"),
        (["-S", "SCRAM-SHA-256=[password=b]"], 1, "needs a name"),
        (["-S", "SCRAM-SHA-256=[name=a]"], 1, "needs a password"),
        (["-S", "SCRAM-SHA-256=[name=a,saltedpassword=eA==]"], 1, "needs the salt"),
        (["-S", "SCRAM-SHA-256=[name=a,password=b,salt=x]"], 1, "salt must be base64"),
        (["-S", "SCRAM-SHA-256=[name=a,password=b,iterations=9]"], 1, "from 4096 to 16384"),
        (["-S", "SCRAM-SHA-256=[name=a,pass=b]"], 1, "each field must be NAME=VALUE"),
    ],
)
def test_refusals(tmp_path, words, code, said):
    outcome = invoke("format", "--data", tmp_path / "data", *words)
    assert outcome.code == code
    assert said in outcome.err
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_the_demo_says_what_it_needs(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else find_spec(name)
    )
    outcome = invoke("demo")
    assert outcome.code == 1
    assert outcome.err == "Error: the demo needs pyspark: pip install 'odradek[demo]'\n"


CONTROLLER = """
node.id=1
process.roles=controller
listeners=CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093,127.0.0.1:9094
"""
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
FIRST, SECOND = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
BOTH = f"1@127.0.0.1:9093:{FIRST},2@[::1]:9094:{SECOND}"


def format_controller(path, *words, text=CONTROLLER):
    file = path / "controller.properties"
    file.write_text(f"{text}log.dirs={path}/data,{path}/more\n")
    return invoke("format", "--config", file, "-t", CLUSTER_ID, *words)


def first_voters(path):
    return read_snapshot(OsFileSystem(), str(path / "data" / CHECKPOINT)).settings


@pytest.mark.parametrize("option", ["--initial-controllers", "-I"])
def test_the_first_controllers_of_a_quorum(tmp_path, option):
    assert format_controller(tmp_path, option, BOTH).code == 0
    assert properties(tmp_path / "data")["directory.id"] == FIRST
    assert properties(tmp_path / "more")["directory.id"] not in (FIRST, SECOND)
    settings = first_voters(tmp_path)
    assert settings.kraft_version == 1
    assert settings.voters.destination(2) == (2, "::1", 9094)
    assert uuids.to_text(settings.voters.voters[2].key.directory_id) == SECOND
    assert settings.voters.voters[1].endpoints[0].name == "CONTROLLER"
    assert not (tmp_path / "more" / CHECKPOINT).exists()


def test_a_controller_that_is_the_first_one_or_joins(tmp_path):
    for name, option in (("first", "--standalone"), ("later", "--no-initial-controllers")):
        (tmp_path / name).mkdir()
        assert format_controller(tmp_path / name, option).code == 0
    assert list(first_voters(tmp_path / "first").voters.voters) == [1]
    assert not (tmp_path / "later" / "data" / CHECKPOINT).exists()


STATIC = CONTROLLER.replace("bootstrap.servers=127.0.0.1:9093,", "voters=1@127.0.0.1:9093,2@")
ALONE = CONTROLLER.replace(",127.0.0.1:9094", "")
BROKER = CONTROLLER.replace("roles=controller", "roles=broker").replace(
    "CONTROLLER://", "PLAINTEXT://"
)


@pytest.mark.parametrize(
    ("text", "words", "voters"),
    [(STATIC, [], []), (STATIC, ["-N"], []), (ALONE, [], [1]), (BROKER, [], None)],
)
def test_the_voters_without_an_option(tmp_path, text, words, voters):
    outcome = format_controller(tmp_path, *words, text=text)
    assert outcome.code == 0, outcome.err
    if voters is None:
        assert not (tmp_path / "data" / CHECKPOINT).exists()
    else:
        assert list(first_voters(tmp_path).voters.voters) == voters


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (CONTROLLER, [], "choose one of --standalone"),
        (CONTROLLER, ["-s", "-N"], "choose one of --standalone and --no-initial-controllers"),
        (STATIC, ["-s"], "controller.quorum.voters already has the voters"),
        (STATIC, ["-I", BOTH], "controller.quorum.voters already has the voters"),
        (BROKER, ["-s"], "for nodes with the role controller"),
        (CONTROLLER, ["-I", "1@127.0.0.1:9093"], "id@host:port:directory"),
        (CONTROLLER, ["-I", f"1@127.0.0.1:93939:{FIRST}"], "id@host:port:directory"),
        (CONTROLLER, ["-I", f"1@a:1:{FIRST},1@b:1:{SECOND}"], "listed twice"),
        (CONTROLLER, ["-I", "1@a:1:AAAAAAAAAAAAAAAAAAAAAA"], "is not a directory id"),
        (CONTROLLER, ["-I", ","], "no controllers"),
    ],
)
def test_options_that_do_not_fit(tmp_path, text, words, said):
    outcome = format_controller(tmp_path, *words, text=text)
    assert outcome.code == 2
    assert said in outcome.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("protocol", "missing"),
    [("SASL_PLAINTEXT", "GSSAPI needs the keys"), ("SSL", "needs a key")],
)
def test_keys_and_logins_may_be_missing(tmp_path, protocol, missing):
    """As with Apache Kafka, a directory can be formatted before the node has its keys."""
    file = tmp_path / "server.properties"
    file.write_text(
        f"log.dirs={tmp_path / 'data'}\n"
        f"listeners={protocol}://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
        f"security.inter.broker.protocol={protocol}\n"
        f"listener.security.protocol.map=CONTROLLER:{protocol},{protocol}:{protocol}\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@127.0.0.1:9093\n"
    )
    outcome = invoke("format", "-c", file, "-t", CLUSTER_ID)
    assert outcome.code == 0
    assert "the node will not start: " in outcome.err
    assert missing in outcome.err
    assert (tmp_path / "data" / "bootstrap.checkpoint").exists()
    text = file.read_text()
    for right, wrong in (
        ("listeners=", "listeners=no address,"),
        (f"CONTROLLER:{protocol},", ""),
        (f"CONTROLLER:{protocol}", "CONTROLLER:NONE"),
    ):
        file.write_text(text.replace(right, wrong, 1))
        assert invoke("format", "-c", file).code == 2
