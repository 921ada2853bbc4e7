"""Our own client over TLS, and what it says when TLS or SASL does not work."""

import asyncio
import os

import pytest

from odradek.client import aio
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.errors import ClientError, ClosedAtOnceError, SecurityError
from odradek.client.producer import Producer
from odradek.client.security import parse_security
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse


@pytest.fixture
def connect(ports, pki):
    """Connect to a listener as a client that trusts the authority, and ask for metadata."""

    def connect(listener, protocol="SSL", **settings):
        given = {
            "security.protocol": protocol,
            "ssl.ca.location": pki.ca,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        address = Address("127.0.0.1", ports[listener])
        connection = Connection(address, "test", 10_000, parse_security(given))
        try:
            connection.request(MetadataRequest(), MetadataResponse, 10_000)
        finally:
            connection.close()

    return connect


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
def test_records_over_tls(ports, pki, versions):
    security = parse_security(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
            "ssl.truststore.location": pki.ca,
            "ssl.enabled.protocols": versions,
        }
    )
    partition = TopicPartition("orders", 0)
    values = [os.urandom(70_000) for _ in range(20)]
    with Cluster(f"127.0.0.1:{ports['BOTH']}", security=security) as cluster:
        with Producer(cluster) as producer:
            for value in values:
                producer.send("orders", value)
        batches = read_to_ends(cluster, {partition: 0})
        found = [each for batch in batches for each in batch.values()]
    assert found[-20:] == values


def test_each_listener(connect, pki):
    connect("SSL")
    connect("MUTUAL", ssl_keystore_location=pki.alice)
    connect("ASK", ssl_keystore_location=pki.locked, ssl_key_password="key-secret")
    connect("ASK")
    connect("BOTH", "SASL_SSL")
    connect("AWAY", ssl_endpoint_identification_algorithm="")
    connect("SSL", ssl_ca_location="", enable_ssl_certificate_verification="false")


@pytest.mark.parametrize(
    ("listener", "protocol", "settings", "problem", "advice"),
    [
        ("SSL", "SSL", {"ssl_ca_location": ""}, "is not trusted", "ssl.truststore.location"),
        ("AWAY", "SSL", {}, "is for another host", "ssl.endpoint.identification.algorithm"),
        ("SSL", "SASL_SSL", {}, "does not use SASL", "security.protocol"),
        ("BOTH", "SASL_SSL", {"sasl_password": "x"}, "does not let alice in", "password"),
        ("BOTH", "SASL_SSL", {"sasl_mechanism": "SCRAM-SHA-256"}, "enabled: PLAIN", "mechanism"),
    ],
)
def test_what_is_wrong_and_what_to_do(connect, listener, protocol, settings, problem, advice):
    with pytest.raises(SecurityError, match=problem) as failure:
        connect(listener, protocol, **settings)
    assert advice in failure.value.advice
    assert "alice-secret" not in str(failure.value)


def test_a_listener_without_tls(connect):
    with pytest.raises(ClosedAtOnceError, match="closed the connection during the TLS") as failure:
        connect("PLAINTEXT", "SSL")
    assert "set security.protocol to PLAINTEXT" in failure.value.advice


# The server sends a reason and closes the connection, before it has read the client's request. So
# the reason may get lost in these tests.


def test_a_client_without_tls(connect):
    with pytest.raises((SecurityError, ClosedAtOnceError)) as failure:
        connect("SSL", "PLAINTEXT")
    assert "SASL_SSL" in failure.value.advice


@pytest.mark.parametrize("certificate", ["", "stranger"])
def test_a_missing_or_unknown_certificate(connect, pki, certificate):
    file = str(getattr(pki, certificate)) if certificate else ""
    with pytest.raises((SecurityError, ClosedAtOnceError)) as failure:
        connect("MUTUAL", ssl_keystore_location=file)
    if not certificate:
        assert "ssl.keystore.location" in failure.value.advice
    if isinstance(failure.value, SecurityError):
        assert "does not accept this client's certificate" in str(failure.value)


def test_a_key_whose_password_is_missing(connect, pki):
    with pytest.raises(SecurityError, match="cannot use the key"):
        connect("MUTUAL", ssl_keystore_location=pki.locked)


def test_a_client_that_does_not_authenticate(connect, ports, pki):
    with pytest.raises(ClosedAtOnceError) as failure:
        connect("BOTH", "SSL")
    assert "SASL_SSL" in failure.value.advice
    security = parse_security({"security.protocol": "SSL", "ssl.ca.location": pki.ca})
    with (
        Cluster(f"127.0.0.1:{ports['BOTH']}", security=security) as cluster,
        pytest.raises(ClosedAtOnceError),
    ):
        cluster.refresh()


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
def test_asyncio_over_tls(ports, pki, versions):
    settings = {
        "bootstrap.servers": f"127.0.0.1:{ports['BOTH']}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
        "ssl.ca.location": pki.ca,
        "ssl.enabled.protocols": versions,
    }

    async def run():
        async with aio.Producer(settings) as producer:
            sent = [await producer.send("orders", os.urandom(70_000)) for _ in range(50)]
            for each in sent:
                assert (await each).offset >= 0

    asyncio.run(run())


def test_wrong_protocols_of_producers(ports, pki):
    """A TLS port spoken to in plain text and the reverse, and an unknown authority, with both shells."""
    cases = [
        ("SSL", {}, SecurityError, "uses TLS, but this client does not"),
        ("PLAINTEXT", {"security.protocol": "SSL"}, ClientError, "TLS handshake"),
        ("SSL", {"security.protocol": "SSL"}, SecurityError, "is not trusted"),
    ]

    async def send(settings):
        async with aio.Producer(settings) as producer:
            await producer.send("orders", b"x")

    for listener, more, kind, message in cases:
        settings = {"bootstrap.servers": f"127.0.0.1:{ports[listener]}", **more}
        with Producer(settings) as producer, pytest.raises(kind, match=message):
            producer.send("orders", b"x")
        with pytest.raises(kind, match=message):
            asyncio.run(send(settings))
