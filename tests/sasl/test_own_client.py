"""Our own client and the commands on listeners with SASL."""

import asyncio

import pytest
from tests.cli.conftest import invoke

from odradek.client import Consumer, aio
from odradek.client import connection as connection_module
from odradek.client.address import Address
from odradek.client.admin.users import NewCredential, set_credential
from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.errors import SecurityError
from odradek.client.producer import Producer
from odradek.client.security import parse_security
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse

SETTINGS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "alice-secret",
}


@pytest.fixture
def properties(tmp_path, ports):
    file = tmp_path / "client.properties"
    lines = {**SETTINGS, "bootstrap.servers": f"127.0.0.1:{ports['CLIENT']}"}
    file.write_text("\n".join(f"{name}={value}" for name, value in lines.items()))
    return file


@pytest.mark.parametrize("listener", ["CLIENT", "LONG"])
def test_each_listener(ports, listener):
    with Cluster(f"127.0.0.1:{ports[listener]}", security=parse_security(SETTINGS)) as cluster:
        assert "orders" in cluster.refresh().topics


def test_a_session_that_is_about_to_expire_is_renewed(ports, monkeypatch):
    monkeypatch.setattr(connection_module, "SESSION_USED", 0)
    address = Address("127.0.0.1", ports["LONG"])
    connection = Connection(address, "test", 10_000, parse_security(SETTINGS))
    monkeypatch.setattr(connection_module, "SESSION_USED", 0.5)
    began = []
    real = connection_module.authenticate
    monkeypatch.setattr(
        connection_module, "authenticate", lambda *args: began.append(args) or real(*args)
    )
    pending = connection.send(MetadataRequest(), MetadataResponse)
    for _ in range(2):
        connection.request(MetadataRequest(), MetadataResponse, 10_000)
    assert connection.receive(pending, 10_000).brokers
    assert len(began) == 1
    connection.close()


def test_a_file_for_the_commands(properties, ports):
    listed = invoke("topic", "list", "--command-config", properties, bootstrap="")
    assert (listed.code, listed.lines[-1].split()[0]) == (0, "orders"), listed.err
    first = invoke("--command-config", properties, "topic", "list", bootstrap="")
    assert first.out == listed.out


def test_a_setting_on_the_command_line_has_precedence(properties, monkeypatch):
    words = ("topic", "list", "--command-config", properties)
    refused = invoke(*words, "-X", "sasl.password=wrong", bootstrap="")
    assert refused.code == 1
    assert "does not let alice in: Authentication failed: Invalid username" in refused.err
    assert "Hint:  Check the user, the password" in refused.err
    monkeypatch.setenv("ODRADEK_CLIENT_SASL_PASSWORD", "also-wrong")
    assert invoke(*words, bootstrap="").code == 1
    assert invoke(*words, "-X", "sasl.password=alice-secret", bootstrap="").code == 0
    monkeypatch.delenv("ODRADEK_CLIENT_SASL_PASSWORD")
    monkeypatch.setenv("ODRADEK_COMMAND_CONFIG", str(properties))
    assert invoke("topic", "list", bootstrap="").code == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("-X", "sasl.passwort=x"), "Did you mean sasl.password?"),
        (("-X", "sasl.password"), "write NAME=VALUE"),
        (("-X", "security.protocol=TLS"), "must be one of"),
        (("-X", "security.protocol=SASL_SSL"), "sasl.mechanism is missing"),
    ],
)
def test_settings_that_cannot_be_used(words, problem):
    refused = invoke("topic", "list", *words)
    assert refused.code == 2
    assert problem in " ".join(refused.err.split())


def test_a_misspelt_variable(monkeypatch):
    monkeypatch.setenv("ODRADEK_CLIENT_SASL_PASSWORT", "x")
    refused = invoke("topic", "list")
    assert refused.code == 2
    said = " ".join(refused.err.split())
    assert (
        "ODRADEK_CLIENT_SASL_PASSWORT: there is no such setting. Did you mean sasl.password?"
        in said
    )


def test_a_client_without_sasl(ports):
    refused = invoke("topic", "list", bootstrap=f"127.0.0.1:{ports['CLIENT']}")
    assert refused.code == 1
    assert "may need another security.protocol than PLAINTEXT" in refused.err


def test_a_producer_authenticates_again_while_it_writes(ports, monkeypatch):
    began = []
    real = connection_module.authenticate

    def authenticate(*args):
        if began:  # only the first session is at its end at once
            monkeypatch.setattr(connection_module, "SESSION_USED", 0.5)
        began.append(args)
        return real(*args)

    monkeypatch.setattr(connection_module, "authenticate", authenticate)
    monkeypatch.setattr(connection_module, "SESSION_USED", 0)
    servers = f"127.0.0.1:{ports['LONG']}"
    with Producer({**SETTINGS, "bootstrap.servers": servers}, batch_size=100) as producer:
        sent = [producer.send("orders", b"%d" % n) for n in range(100)]
    assert all(each.offset >= 0 for each in sent)
    assert len(began) == 2


def test_a_connection_is_authenticated_again_beside_the_others(ports, monkeypatch):
    """It is the same connection, and no thread that sends waits for it."""
    began = []
    real = connection_module.authenticate
    monkeypatch.setattr(
        connection_module, "authenticate", lambda *args: began.append(args) or real(*args)
    )
    with Producer({**SETTINGS, "bootstrap.servers": f"127.0.0.1:{ports['LONG']}"}) as producer:
        producer.send("orders", b"0").wait()
        (connection,) = producer._driver._connections.values()
        connection._again_ms = 0
        producer.send("orders", b"1").wait()
        assert list(producer._driver._connections.values()) == [connection]
    assert len(began) == 2


def add_alice(ports):
    with Cluster(f"127.0.0.1:{ports['PLAINTEXT']}") as cluster:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            new = NewCredential(mechanism, "alice-secret", b"salt", 4096)
            set_credential(cluster, "alice", new)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_asyncio_with_sasl(ports, mechanism):
    add_alice(ports)
    servers = f"127.0.0.1:{ports['LONG' if mechanism == 'PLAIN' else 'CLIENT']}"

    async def run():
        given = {**SETTINGS, "bootstrap.servers": servers, "sasl.mechanism": mechanism}
        async with aio.Producer(given) as producer:
            await (await producer.send("orders", b"0"))
            (connection,) = producer._driver._connections.values()
            connection._again_ms = 0 if mechanism == "PLAIN" else None
            sent = [await producer.send("orders", b"%d" % number) for number in range(100)]
            await producer.flush()
            assert list(producer._driver._connections.values()) == [connection]
            assert all(each.offset >= 0 for each in sent)
        async with aio.Producer({**given, "sasl.password": "wrong"}) as producer:
            with pytest.raises(SecurityError, match="does not let alice in"):
                await producer.send("orders", b"x")

    asyncio.run(run())


def test_a_wrong_password(ports):
    given = {**SETTINGS, "sasl.password": "guess"}
    with (
        Producer({**given, "bootstrap.servers": f"127.0.0.1:{ports['CLIENT']}"}) as producer,
        pytest.raises(SecurityError, match="does not let alice in") as raised,
    ):
        producer.send("orders", b"x")
    assert "Check the user, the password" in raised.value.advice


@pytest.fixture
def refused_from_now_on(monkeypatch):
    """A function after which sessions end, and the password is another one."""
    wrong = parse_security({**SETTINGS, "sasl.password": "wrong"}).credential
    real = connection_module.authenticate

    def refuse():
        monkeypatch.setattr(connection_module, "authenticate", lambda _, nonce: real(wrong, nonce))
        monkeypatch.setattr(Connection, "must_authenticate", True)

    return refuse


def test_a_consumer_is_told_that_its_password_was_changed(ports, refused_from_now_on):
    settings = {**SETTINGS, "bootstrap.servers": f"127.0.0.1:{ports['LONG']}"}
    with Producer(settings) as producer:
        offset = producer.send("orders", b"x", partition=0).wait().offset
    with Consumer(settings) as consumer:
        consumer.assign([("orders", 0, offset)])
        assert next(consumer.batches()).values() == [b"x"]
        refused_from_now_on()
        with pytest.raises(SecurityError, match="does not let alice in"):
            next(consumer.batches())


def test_a_consumer_of_asyncio_is_told_that_its_password_was_changed(ports, refused_from_now_on):
    settings = {**SETTINGS, "bootstrap.servers": f"127.0.0.1:{ports['LONG']}"}

    async def main():
        async with aio.Producer(settings) as producer:
            offset = (await (await producer.send("orders", b"x", partition=0))).offset
        async with aio.Consumer(settings) as consumer:
            consumer.assign([("orders", 0, offset)])
            assert (await anext(consumer.batches())).values() == [b"x"]
            refused_from_now_on()
            with pytest.raises(SecurityError, match="does not let alice in"):
                await anext(consumer.batches())

    asyncio.run(main())
