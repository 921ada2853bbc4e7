"""Listeners with OAUTHBEARER: keys in a file and at a URL, tokens without signatures, clients."""

import asyncio
import logging
import os
import threading
import time

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Producer

from odradek.model.errors import ErrorCode
from odradek.testing import Broker, BrokerError

from . import issuer
from .test_listener import METADATA, Client, principal

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
INVALID = '{"status":"invalid_token"}'
NAMES = ("PLAINTEXT", "FILE", "WEB", "OPEN")
FIRST, SECOND = issuer.ec_key(kid="first"), issuer.ec_key(kid="second")


def settings(file, url):
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in NAMES),
        "listener.security.protocol.map": ",".join(
            f"{name}:{'PLAINTEXT' if name == 'PLAINTEXT' else 'SASL_PLAINTEXT'}" for name in NAMES
        ),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "listener.name.file.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{file}",
        "listener.name.web.sasl.oauthbearer.jwks.endpoint.url": url,
        "listener.name.web.oauthbearer.connections.max.reauth.ms": "60000",
        "listener.name.open.oauthbearer.sasl.jaas.config": (
            f'{MODULE} required unsecuredLoginStringClaim_sub="node" '
            'unsecuredValidatorRequiredScope="a b";'
        ),
        "connection.failed.authentication.delay.ms": "1",
    }


@pytest.fixture(scope="module")
def endpoint():
    with issuer.Endpoint() as running:
        running.documents["/keys"] = issuer.key_set(FIRST)
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("oauth") / "keys.json"
    path.write_text(issuer.key_set(FIRST))
    return path


@pytest.fixture(scope="module")
def broker(file, endpoint):
    with Broker(topics={"orders": 1}, settings=settings(file, f"{endpoint.url}/keys")) as running:
        yield running


def token(key=FIRST, expires_s=600, **claims):
    now_s = int(time.time())
    facts = {
        "iss": "https://issuer",
        "aud": ["kafka"],
        "sub": "alice",
        "iat": now_s - 1000,
        "exp": now_s + expires_s,
    }
    return issuer.signed(key, {"alg": "ES256", "kid": key.jwk["kid"]}, {**facts, **claims})


def message(text, extensions=""):
    return f"n,,\1auth=Bearer {text}\1{extensions}\1".encode()


def log_in(client, text):
    """Return the response to a token."""
    assert client.handshake("OAUTHBEARER").error_code == 0
    return client.authenticate(message(text))


def check_refused(client, text):
    answer = log_in(client, text)
    assert (answer.error_code, answer.auth_bytes) == (0, INVALID.encode())
    failed = client.authenticate(b"\1")
    assert failed.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert failed.error_message == INVALID
    assert client.is_closed()


@pytest.mark.parametrize("listener", ["FILE", "WEB"])
def test_a_right_token(broker, ports, listener):
    with Client(ports[listener]) as client:
        answer = log_in(client, token())
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        # The smaller one of the token's time and connections.max.reauth.ms.
        lifetime_ms = answer.session_lifetime_ms
        assert lifetime_ms == 60_000 if listener == "WEB" else 500_000 < lifetime_ms <= 600_000
        assert principal(broker, client) == "User:alice"
        assert client.describe().brokers


@pytest.mark.parametrize("listener", ["FILE", "WEB", "OPEN"])
def test_wrong_tokens(ports, listener, caplog):
    wrong = {
        "expired": token(expires_s=-60),
        "another key": token(SECOND),
        "forged": issuer.signed(SECOND, {"alg": "ES256", "kid": "first"}, {"sub": "alice"}),
        "no signature": issuer.unsecured({"sub": "alice", "iat": 1, "exp": 10**10}) + "AAAA",
        "malformed": "x.y.z",
    }
    if listener != "OPEN":
        wrong["issuer"] = token(iss="https://other")
        wrong["audience"] = token(aud="somebody")
        wrong["unsecured"] = issuer.unsecured({"sub": "alice", "iat": 1, "exp": 10**10})
    with caplog.at_level(logging.DEBUG):
        for text in wrong.values():
            with Client(ports[listener]) as client:
                check_refused(client, text)
    assert not any(each in caplog.text for each in wrong.values())
    if listener == "FILE":
        assert "the token has expired" in caplog.text


def test_malformed_messages(ports):
    for text in (b"", b"\1", message("")):
        with Client(ports["FILE"]) as client:
            client.handshake("OAUTHBEARER")
            failed = client.authenticate(text)
            assert failed.error_message == (
                "Authentication failed during authentication due to invalid credentials with SASL "
                "mechanism OAUTHBEARER"
            )
            assert client.is_closed()


def test_tokens_without_signatures_only_where_they_are_asked_for(ports):
    now_s = int(time.time())
    claims = {"sub": "alice", "exp": now_s + 60, "scope": ["a", "b"]}
    with Client(ports["OPEN"]) as client:
        answer = log_in(client, issuer.unsecured(claims))
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert client.describe().brokers
    with Client(ports["OPEN"]) as client:
        answer = log_in(client, issuer.unsecured({**claims, "scope": "a"}))
        assert answer.auth_bytes == b'{"status":"insufficient_scope", "scope":"[a, b]"}'
    with Client(ports["FILE"]) as client:
        check_refused(client, issuer.unsecured(claims))


def test_the_user_stays_the_same_when_a_client_authenticates_again(broker, ports):
    with Client(ports["WEB"]) as client:
        log_in(client, token())
        assert log_in(client, token(expires_s=30)).session_lifetime_ms <= 30_000
        assert principal(broker, client) == "User:alice"
        assert client.describe().brokers
    with Client(ports["WEB"]) as client:
        log_in(client, token())
        refused = log_in(client, token(sub="bob"))
        assert refused.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert client.is_closed()


def test_a_session_ends_with_the_token(ports):
    with Client(ports["FILE"]) as client:
        # The token has expired, but not for longer than the clocks may differ.
        assert log_in(client, token(expires_s=-1)).session_lifetime_ms == 0
        time.sleep(0.005)  # the clock is read in milliseconds
        client.send(client.frame("Metadata", 9, METADATA))
        assert client.is_closed()


def until_accepted(port, text):
    """Log in until the token is accepted, because the keys are fetched again in the background."""
    while True:
        with Client(port) as client:
            if not log_in(client, text).auth_bytes:
                return
        time.sleep(0.05)


def test_new_keys_are_used(ports, file, endpoint):
    other = file.with_suffix(".new")
    other.write_text(issuer.key_set(SECOND, FIRST))
    os.replace(other, file)
    endpoint.documents["/keys"] = issuer.key_set(SECOND, FIRST)
    until_accepted(ports["FILE"], token(SECOND))
    until_accepted(ports["WEB"], token(SECOND))
    # A file that is not complete does no harm.
    file.write_text("{")
    with Client(ports["FILE"]) as client:
        assert log_in(client, token(SECOND)).auth_bytes == b""


# -- other clients ---------------------------------------------------------------------------------


def librdkafka(port, text, **more):
    return Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda config: (text, time.time() + 300),
            "log_level": 0,
            **more,
        }
    )


def test_librdkafka(ports):
    producer = librdkafka(ports["FILE"], token())
    reports = []
    producer.produce("orders", b"librdkafka", on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(20) == 0
    assert reports == [None]


def test_librdkafka_with_a_wrong_token(ports):
    errors = []
    producer = librdkafka(ports["FILE"], token(expires_s=-60), error_cb=errors.append)
    while not errors:
        producer.poll(0.1)
    assert INVALID in errors[0].str()


def test_aiokafka(ports):
    class Provider(AbstractTokenProvider):
        async def token(self):
            return token()

    async def produce():
        producer = AIOKafkaProducer(
            bootstrap_servers=f"127.0.0.1:{ports['WEB']}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        )
        await producer.start()
        try:
            return await producer.send_and_wait("orders", b"aiokafka")
        finally:
            await producer.stop()

    assert asyncio.run(produce()).partition == 0


# -- the start -------------------------------------------------------------------------------------


def test_a_start_without_the_file_of_the_keys(tmp_path, endpoint):
    for text, problem in ((None, "cannot read .*No such file"), ("[]", "no list of keys")):
        file = tmp_path / "keys.json"
        if text is not None:
            file.write_text(text)
        with pytest.raises(BrokerError, match=problem):
            Broker(settings=settings(file, endpoint.url)).start()


def test_a_start_without_the_issuer(file, caplog):
    """The node starts, and accepts tokens when the issuer answers."""
    file.write_text(issuer.key_set(FIRST))
    with issuer.Endpoint() as late:
        late.documents["/keys"] = (503, "later")
        with Broker(settings=settings(file, f"{late.url}/keys")) as broker:
            assert "listener OPEN accepts access tokens without signatures" in caplog.text
            assert "keys are not read: " in caplog.text.replace(f"of {late.url}/keys are", "are")
            (port,) = (each.port for each in broker.node.server.endpoints if each.name == "WEB")
            with Client(port) as client:
                check_refused(client, token())
            late.documents["/keys"] = issuer.key_set(FIRST)
            until_accepted(port, token())


def test_an_issuer_that_hangs_does_not_stop_the_node(file):
    file.write_text(issuer.key_set(FIRST))
    begun, released = threading.Event(), threading.Event()

    def answer(headers, body):
        if begun.is_set():
            released.wait()
        begun.set()
        return 200, issuer.key_set(FIRST)

    with issuer.Endpoint() as slow:
        slow.documents["/keys"] = answer
        changes = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "1"}
        with Broker(settings={**settings(file, f"{slow.url}/keys"), **changes}) as broker:
            ports = {each.name: each.port for each in broker.node.server.endpoints}
            while len(slow.requests) < 2:
                time.sleep(0.01)
            for _ in range(3):
                with Client(ports["WEB"]) as client:
                    assert log_in(client, token()).auth_bytes == b""
                    assert client.describe().brokers
            released.set()
