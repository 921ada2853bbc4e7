"""Connections to other nodes over TLS and SASL."""

import asyncio

import pytest

from odradek.broker.peers.network import AuthenticationFailed, PeerNetwork
from odradek.broker.peers.tokens import PeerTokens
from odradek.config.checks import Secret
from odradek.config.peers import PeerSettings
from odradek.config.tls import PeerTlsSettings, Store
from odradek.core.sasl.client import Credential, authenticate
from odradek.env.clock import SystemClock
from odradek.env.executor import InlineExecutor
from odradek.env.network import SocketNetwork
from odradek.env.randomness import system_random_bytes
from odradek.env.tls_files import TlsError
from odradek.model import api_keys
from odradek.network.client import NodeClient
from odradek.wire.api import BY_KEY

MISSING = Store("/no/such", "PEM", Secret(""))


def peer_tokens():
    return PeerTokens(InlineExecutor(), SystemClock(), system_random_bytes)


@pytest.fixture
def attempt(ports, pki):
    """Connect to a listener with these settings, and ask for ApiVersions."""

    def attempt(listener, mechanism="PLAIN", password="alice-secret", host="127.0.0.1", **tls):
        settings = PeerSettings(
            listener,
            PeerTlsSettings(
                **{
                    "key": None,
                    "trust": Store(pki.ca, "PEM", Secret("")),
                    "verifies_host": True,
                    "versions": ("TLSv1.2", "TLSv1.3"),
                    **tls,
                }
            ),
            mechanism,
            "alice",
            Secret(password),
        )

        async def run():
            network = PeerNetwork(
                SocketNetwork(), lambda: settings, system_random_bytes, peer_tokens()
            )
            for _ in range(2):
                transport = await network.connect(host, ports[listener], 20_000)
                transport.close()
            client = NodeClient(network, host, ports[listener], system_random_bytes)
            answer = await client.call(18, 0, [b"\xff\xff"], 20_000)
            client.close()
            return BY_KEY[api_keys.API_VERSIONS].response_class().decode(answer, 0)

        return asyncio.run(run())

    return attempt


def test_requests_of_nodes(attempt, pki):
    assert attempt("BOTH").error_code == 0
    assert attempt("SSL", mechanism=None).error_code == 0
    locked = Store(pki.locked, "PEM", Secret("key-secret"))
    assert attempt("ASK", mechanism=None, key=locked).error_code == 0
    assert attempt("AWAY", mechanism=None, verifies_host=False).error_code == 0


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        ({"listener": "BOTH", "password": "x"}, AuthenticationFailed, "SASL PLAIN as alice: Auth"),
        ({"listener": "BOTH", "mechanism": "SCRAM-SHA-256"}, AuthenticationFailed, "not enabled"),
        ({"listener": "SSL"}, AuthenticationFailed, "does not use SASL"),
        ({"listener": "BOTH", "trust": None}, TlsError, "certificate is not accepted"),
        ({"listener": "AWAY", "mechanism": None}, TlsError, "certificate is not accepted: IP addr"),
        ({"listener": "BOTH", "trust": MISSING}, TlsError, "cannot use the certificates"),
        ({"listener": "PLAINTEXT"}, TlsError, "handshake failed"),
    ],
)
def test_a_node_that_is_not_accepted(attempt, caplog, arguments, error, problem):
    with pytest.raises(error, match=problem) as failure:
        attempt(**arguments)
    assert "alice-secret" not in str(failure.value)
    (record,) = [each for each in caplog.records if "cannot connect to" in each.getMessage()]
    assert record.levelname == "WARNING"
    assert problem in record.getMessage()


def test_a_problem_is_logged_once(ports, pki, caplog):
    settings = PeerSettings("PLAINTEXT", None, "PLAIN", "alice", Secret("x"))

    async def run():
        network = PeerNetwork(SocketNetwork(), lambda: settings, system_random_bytes, peer_tokens())
        for _ in range(3):
            with pytest.raises(AuthenticationFailed):
                await network.connect("127.0.0.1", ports["PLAINTEXT"], 20_000)

    asyncio.run(run())
    said = [each for each in caplog.records if "cannot connect to" in each.getMessage()]
    assert len(said) == 1


def test_a_node_that_does_not_answer_as_a_kafka_node_does():
    async def run(answer):
        async def serve(reader, writer):
            await reader.read(100)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        settings = PeerSettings("X", None, "PLAIN", "alice", Secret("x"))
        network = PeerNetwork(SocketNetwork(), lambda: settings, system_random_bytes, peer_tokens())
        with pytest.raises(AuthenticationFailed) as failure:
            await network.connect(*server.sockets[0].getsockname(), 20_000)
        server.close()
        return str(failure.value)

    assert "closed the connection" in asyncio.run(run(b""))
    assert "does not answer as" in asyncio.run(run(b"HTTP/1.1 400 Bad Request"))
    assert "malformed" in asyncio.run(run(b"\0\0\0\x06\0\0\0\0\0\0"))


def test_requests_of_sasl_have_no_secret_in_their_text():
    steps = authenticate(Credential("PLAIN", "alice", "alice-secret"), "nonce")
    assert "alice-secret" not in repr(next(steps))
