"""Clients of listeners with TLS."""

import contextlib
import logging
import socket
import ssl
import struct
import time
from pathlib import Path

import pytest
from compat.lab.wire_client import WireClient
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from tests.tls.conftest import Authority

from odradek.network.authentications import Outcome
from odradek.wire.generated.metadata_request import MetadataRequest


class TlsClient(WireClient):
    def __init__(self, port, pki, certificate=None, version=None):
        super().__init__(port)
        context = ssl.create_default_context(cafile=pki.ca)
        if certificate is not None:
            context.load_cert_chain(certificate)
        if version is not None:
            context.maximum_version = version
        self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")


def principals(broker, listener):
    return {
        each.peer.principal
        for each in list(broker.node.server.connections)
        if each.peer.listener == listener
    }


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_records_that_do_not_fit_into_one_piece_of_tls(ports, pki, version):
    value = bytes(range(256)) * 3000
    with TlsClient(ports["SSL"], pki, version=version) as client:
        assert client.produce_one("orders", value) == 0
        assert client.batches("orders", 0)[-1].records == 1
        client.socket.sendall(
            b"".join(client.frame("Metadata", 4, MetadataRequest(topics=[])) for _ in range(500))
        )
        for _ in range(500):
            assert client.receive()


def test_a_listener_offers_only_the_cipher_suites_that_are_set(ports, pki):
    with TlsClient(ports["OLD"], pki) as client:
        assert client.metadata().brokers
        assert client.socket.cipher()[:2] == ("ECDHE-ECDSA-AES128-SHA256", "TLSv1.2")
    context = ssl.create_default_context(cafile=pki.ca)
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    with (
        socket.create_connection(("127.0.0.1", ports["OLD"])) as plain,
        pytest.raises(ssl.SSLError, match="handshake failure"),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_client_that_speaks_no_tls(ports, broker, caplog):
    caplog.set_level(logging.INFO, "odradek.request")
    with WireClient(ports["SSL"]) as client:
        client.send(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        received = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := client.socket.recv(1000):
                received += piece
    assert len(received) < 100  # an alert of TLS
    wanted = " on SSL: the TLS handshake failed: "
    while wanted not in caplog.text:  # the test's time limit ends this
        time.sleep(0.01)


def test_a_handshake_that_is_never_finished_delays_nobody(ports, pki):
    with socket.create_connection(("127.0.0.1", ports["SSL"])) as silent:
        silent.sendall(b"\x16\x03\x01\x02\x00\x01")
        with TlsClient(ports["SSL"], pki) as client:
            assert client.metadata().brokers


def test_the_principal_is_mapped_from_the_certificate(ports, pki, broker):
    with TlsClient(ports["MUTUAL"], pki, pki.alice) as client:
        assert client.metadata().brokers
        assert principals(broker, "MUTUAL") == {"User:ALICE@SALES"}


def test_a_certificate_that_no_rule_matches(ports, pki):
    with TlsClient(ports["MUTUAL"], pki, pki.server) as client, pytest.raises(ConnectionError):
        client.metadata()


def test_a_requested_certificate(ports, pki, broker):
    with TlsClient(ports["ASK"], pki) as client:
        assert client.metadata().brokers
        assert principals(broker, "ASK") == {"User:ANONYMOUS"}
    with TlsClient(ports["ASK"], pki, pki.alice) as client:
        assert client.metadata().brokers
        assert "User:CN=alice,OU=sales,O=example" in principals(broker, "ASK")


@pytest.mark.parametrize("certificate", [None, "stranger"])
def test_a_missing_or_unknown_certificate(ports, pki, certificate):
    certificate = certificate and getattr(pki, certificate)
    with pytest.raises(OSError), TlsClient(ports["MUTUAL"], pki, certificate) as client:  # noqa: PT011
        client.metadata()


def options(port, pki, **more):
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SSL",
        "ssl.ca.location": pki.ca,
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@pytest.mark.parametrize("listener", ["SSL", "MUTUAL", "BOTH"])
def test_librdkafka(ports, pki, listener):
    more = {
        "SSL": {},
        "MUTUAL": {"ssl_certificate_location": pki.alice, "ssl_key_location": pki.alice},
        "BOTH": {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "alice",
            "sasl_password": "alice-secret",
        },
    }[listener]
    settings = options(ports[listener], pki, **more)
    producer = Producer(settings)
    values = [f"{listener}-{number}".encode() * 1000 for number in range(300)]
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(20) == 0
    consumer = Consumer(
        {**settings, "group.id": f"group-{listener}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    received = []
    while len(received) < len(values):
        found = [each.value() for each in consumer.consume(500, 0.2)]
        received += [each for each in found if each.startswith(listener.encode())]
    consumer.close()
    assert received == values


def test_librdkafka_does_not_trust_an_unknown_server(ports, pki):
    errors = []
    settings = {**options(ports["SSL"], pki), "error_cb": errors.append}
    del settings["ssl.ca.location"]
    producer = Producer(settings)
    while not errors:
        producer.poll(0.1)
    assert "certificate verify failed" in errors[0].str()


def test_connections_are_closed_with_their_client(ports, pki, broker):
    for _ in range(3):
        with TlsClient(ports["SSL"], pki) as client:
            client.metadata()
    deadline = time.monotonic() + 20
    while principals(broker, "SSL"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def server_names(port, pki):
    with TlsClient(port, pki) as client:
        return str(client.socket.getpeercert()["subject"])


def alter(broker, name, value, *, keeps_others=True):
    """Change a setting of the broker, with IncrementalAlterConfigs or with AlterConfigs."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    if keeps_others:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("broker", "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(20)
    else:
        resource = ConfigResource("broker", "1", set_config={name: value})
        admin.alter_configs([resource])[resource].result(20)


KEY = "listener.name.ssl.ssl.keystore.location"
"""The broker allows other names in the certificate of this listener."""


def test_another_key_while_the_node_runs(ports, pki, broker, caplog, tmp_path):
    file = tmp_path / "key.pem"
    file.write_text(Path(pki.alice).read_text())
    assert "'server'" in server_names(ports["SSL"], pki)
    alter(broker, KEY, str(file))
    assert "'alice'" in server_names(ports["SSL"], pki)
    file.write_text("no key")
    alter(broker, "log.cleaner.threads", "1")  # all keys are read again
    assert "'alice'" in server_names(ports["SSL"], pki)
    assert "listener SSL keeps its key and certificates: cannot use the key" in caplog.text
    alter(broker, KEY, pki.server)
    assert "'server'" in server_names(ports["SSL"], pki)


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
@pytest.mark.parametrize("keeps_others", [True, False])
def test_a_key_that_cannot_be_used_is_refused(ports, pki, broker, keeps_others):
    for file in ("/no/such/file", pki.ca):
        with pytest.raises(KafkaException, match="cannot use the key") as refused:
            alter(broker, KEY, file, keeps_others=keeps_others)
        assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    name = KEY.replace("keystore", "truststore")
    with pytest.raises(KafkaException, match="cannot use the certificates"):
        alter(broker, name, "/no/such/file", keeps_others=keeps_others)
    assert "'server'" in server_names(ports["SSL"], pki)


def test_a_new_certificate_keeps_the_names(pki, broker, caplog, tmp_path):
    setting = "listener.name.kept.ssl.keystore.location"
    authority = Authority(tmp_path)

    def made(subject, names, file="made.pem"):
        authority.issue(f"/O=Example/CN={subject}", names=names).rename(tmp_path / file)
        return str(tmp_path / file)

    file = made("elsewhere", "DNS:elsewhere.example,DNS:more.example", "key.pem")
    alter(broker, setting, file)
    for subject, names, missing in (
        ("other", "DNS:elsewhere.example,DNS:more.example", "the distinguished name CN=other"),
        ("elsewhere", "DNS:more.example", "DNSName elsewhere.example is missing"),
    ):
        with pytest.raises(KafkaException, match=missing) as refused:
            alter(broker, setting, made(subject, names))
        assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    made("other", "DNS:elsewhere.example,DNS:more.example", "key.pem")
    with pytest.raises(KafkaException, match="the distinguished name CN=other"):
        alter(broker, setting, file)  # another file under the same name
    alter(broker, "log.cleaner.threads", "1")  # all keys are read again
    assert "listener KEPT keeps its key and certificates: the certificate in" in caplog.text


def test_handshakes_are_counted(ports, pki, broker):
    def counts(outcome):
        return dict(broker.node.server.authentications.of(outcome))["MUTUAL"]

    failed, successful = counts(Outcome.FAILED), counts(Outcome.SUCCESSFUL)
    with TlsClient(ports["MUTUAL"], pki, pki.alice) as client:
        client.metadata()
        client.metadata()
    assert counts(Outcome.SUCCESSFUL) == successful + 1
    with pytest.raises(OSError), TlsClient(ports["MUTUAL"], pki) as client:  # noqa: PT011
        client.metadata()
    while counts(Outcome.FAILED) == failed:  # counted when the connection ends
        time.sleep(0.01)
    assert counts(Outcome.FAILED) == failed + 1
