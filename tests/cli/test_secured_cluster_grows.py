"""A cluster of `odradek secure init` gets another broker with `cluster add-broker --like`."""

import pytest
from compat.lab.toolchain import free_port
from tests.cli.conftest import invoke
from tests.support.child import ODRADEK, Child

from odradek.config.load import load, read_file

pytestmark = pytest.mark.cluster


def serving(settings):
    return Child([*ODRADEK, "serve", "--config", settings], stops=True)


def brokers(client, seconds="5s"):
    """Return the ids of the brokers that serve clients; none if the cluster does not respond."""
    found = invoke("cluster", "describe", "--json", "--timeout", seconds, *client, bootstrap="")
    return (
        [] if found.code else [each["id"] for each in found.json["brokers"] if not each["fenced"]]
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """The directory of a cluster with one node, which runs."""
    directory = tmp_path_factory.mktemp("secured") / "cluster"
    port = free_port()
    made = invoke("secure", "init", directory, "--node", f"1@localhost:{port}")
    assert made.code == 0, made.err
    first = directory / "server-1.properties"
    assert invoke("format", "--config", first, "-t", "MkU3OEVBNTcwNTJENDM2Qg").code == 0
    client = ["--command-config", directory / "client.properties"]
    with serving(first) as node:
        node.until(lambda: brokers(client) == [1])
        yield directory


def test_a_broker_joins_with_the_settings_of_another(secured, tmp_path):
    client = ["--command-config", secured / "client.properties"]
    like = ["--like", secured / "server-1.properties"]
    added = invoke("cluster", "add-broker", "-d", tmp_path / "new", *like, *client, bootstrap="")
    assert added.code == 0, added
    assert f"Wrote {secured / 'node-2.pem'}" in added.err
    new, first = (
        load(read_file(file), {}).config
        for file in (tmp_path / "new" / "server.properties", secured / "server-1.properties")
    )
    (listener,), (other,) = new.listeners, first.broker_listeners
    assert (listener.name, listener.security_protocol) == ("SASL_SSL", "SASL_SSL")
    assert listener.port > other.port
    with serving(tmp_path / "new" / "server.properties") as node:
        node.until(lambda: brokers(client) == [1, 2])
        words = ("topic", "create", "wide", "--partitions", 2, "--replication-factor", 2)
        assert invoke(*words, *client, bootstrap="").code == 0
        (wide,) = invoke("topic", "describe", "wide", "--json", *client, bootstrap="").json
        assert [sorted(each["replicas"]) for each in wide["partitions"]] == [[1, 2], [1, 2]]
        node.until(
            lambda: (
                not invoke("topic", "describe", "wide", "--json", *client, bootstrap="").json[0][
                    "under_replicated"
                ]
            )
        )


def test_a_key_that_odradek_has_not_made_is_reported(secured, tmp_path):
    settings = read_file(secured / "server-1.properties")
    key = tmp_path / "key.pem"
    key.write_bytes((secured / "node-1.pem").read_bytes())
    settings["ssl.keystore.location"] = str(key)
    other = tmp_path / "other.properties"
    other.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    client = ["--command-config", secured / "client.properties"]
    words = ("cluster", "add-broker", "-d", tmp_path / "new", "--node-id", 7, "--like", other)
    added = invoke(*words, *client, bootstrap="")
    assert added.code == 0, added
    assert "Change ssl.keystore.location in " in added.err
    assert "the key is that of broker 1." in added.err
    assert not (secured / "node-7.pem").exists()


def test_the_settings_of_a_controller_are_refused(secured, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://:9093\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@localhost:9093\n"
    )
    added = invoke("cluster", "add-broker", "--like", file, bootstrap="")
    assert added.code == 1
    assert "the node is not a broker" in added.err
