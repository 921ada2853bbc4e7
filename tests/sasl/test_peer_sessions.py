"""Sessions between nodes are renewed before they expire (KIP-368)."""

import asyncio
import time

import pytest
from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.toolchain import Missing, free_port

from odradek.broker.peers import network as peer_network
from odradek.broker.peers.network import PeerNetwork
from odradek.broker.peers.tokens import PeerTokens
from odradek.config.checks import Secret
from odradek.config.jaas import PLAIN_LOGIN_MODULE
from odradek.config.peers import PeerSettings
from odradek.env.clock import SystemClock
from odradek.env.executor import InlineExecutor
from odradek.env.network import DEFAULT_OPTIONS, SocketNetwork
from odradek.env.randomness import system_random_bytes
from odradek.network.authentications import Outcome
from odradek.network.client import NodeClient
from odradek.testing import Cluster

from .conftest import JAAS

TIMEOUT_MS = 20_000
RIGHT, WRONG = (
    PeerSettings("LONG", None, "PLAIN", "alice", Secret(password))
    for password in ("alice-secret", "wrong")
)


def tokens():
    return PeerTokens(InlineExecutor(), SystemClock(), system_random_bytes)


def network(find):
    return PeerNetwork(SocketNetwork(), find, system_random_bytes, tokens())


def client(ports, listener, find):
    return NodeClient(network(find), "127.0.0.1", ports[listener], system_random_bytes)


async def ask(client):
    return await client.call(3, 0, [b"\xff\xff\0\0\0\0"], TIMEOUT_MS)  # Metadata


def counted(broker, outcome):
    return dict(broker.node.server.authentications.of(outcome))


@pytest.fixture
def at_once(monkeypatch):
    """Sessions are renewed at once."""
    monkeypatch.setattr(peer_network, "SESSION_USED", 0)
    monkeypatch.setattr(peer_network, "SESSION_JITTER", 0)


def test_a_session_is_renewed_on_its_connection(broker, ports, at_once):
    again, first = counted(broker, Outcome.SUCCESSFUL_AGAIN), counted(broker, Outcome.SUCCESSFUL)

    async def run():
        node = client(ports, "LONG", lambda: RIGHT)
        for _ in range(2):
            assert await ask(node)
        node.close()

    asyncio.run(run())
    assert counted(broker, Outcome.SUCCESSFUL_AGAIN)["LONG"] == again["LONG"] + 1
    assert counted(broker, Outcome.SUCCESSFUL)["LONG"] == first["LONG"] + 1


def test_a_renewal_that_is_refused_closes_the_connection(broker, ports, at_once, caplog):
    held = [RIGHT]
    failed = counted(broker, Outcome.FAILED_AGAIN)["LONG"]

    async def run():
        node = client(ports, "LONG", lambda: held[0])
        assert await ask(node)
        held[0] = WRONG
        call = asyncio.ensure_future(ask(node))
        while "cannot connect to the node" not in caplog.text:
            await asyncio.sleep(0.01)
        held[0] = RIGHT
        assert await call
        node.close()

    asyncio.run(run())
    assert counted(broker, Outcome.FAILED_AGAIN)["LONG"] == failed + 1


class Counting(PeerNetwork):
    """Counts connections and renewals."""

    connected = renewed = 0

    async def connect_session(self, *arguments):
        self.connected += 1
        return await super().connect_session(*arguments)

    async def _renew(self, *arguments):
        self.renewed += 1
        return await super()._renew(*arguments)


@pytest.mark.cluster
@pytest.mark.java
def test_apache_kafka_renews_the_session(at_once):
    settings = {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LONG:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.long.plain.sasl.jaas.config": JAAS,
        "listener.name.long.plain.connections.max.reauth.ms": "600000",
    }
    port = free_port()
    listener = f"LONG://127.0.0.1:{port}"
    made = Counting(SocketNetwork(), lambda: RIGHT, system_random_bytes, tokens())

    async def run():
        node = NodeClient(made, "127.0.0.1", port, system_random_bytes)
        for _ in range(2):
            assert await ask(node)
        node.close()

    try:
        with BriefApacheKafka(settings=settings, listeners=[listener]):
            asyncio.run(run())
    except Missing as reason:
        pytest.skip(str(reason))
    assert (made.connected, made.renewed) == (1, 1)


@pytest.mark.parametrize("chance", [b"\0\0\0\0", b"\xff\xff\xff\xff"])
def test_a_session_is_renewed_in_the_last_part_of_its_lifetime(broker, ports, chance):
    def random_bytes(count):
        return chance if count == 4 else system_random_bytes(count)

    async def run(listener):
        loop = asyncio.get_running_loop()
        made = PeerNetwork(SocketNetwork(), lambda: RIGHT, random_bytes, tokens())
        begun = loop.time()
        transport, session = await made.connect_session(
            "127.0.0.1", ports[listener], TIMEOUT_MS, DEFAULT_OPTIONS
        )
        transport.close()
        return session, begun * 1000, loop.time() * 1000

    session, least, most = asyncio.run(run("LONG"))
    part = 600_000 * (0.85 if chance == b"\0\0\0\0" else 0.95)
    assert int(least + part) - 1 <= session.renew_at_ms <= most + part
    session, _, _ = asyncio.run(run("CLIENT"))
    assert session is None, "it does not expire"


def credentials(listener, mechanism, module):
    name = f"listener.name.{listener}.{mechanism.lower()}"
    users = ' user_node="node-secret"' if mechanism == "PLAIN" else ""
    return {
        f"{name}.sasl.jaas.config": f'{module} required username="node" password="node-secret"{users};',
        f"{name}.connections.max.reauth.ms": "1500",
    }


@pytest.mark.cluster
def test_nodes_of_a_cluster_renew_their_sessions():
    given = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **credentials("plaintext", "PLAIN", PLAIN_LOGIN_MODULE),
        **credentials("controller", "PLAIN", PLAIN_LOGIN_MODULE),
    }
    with Cluster(settings=given, topics={"orders": 3}) as cluster:
        while not all(renewed(cluster, listener) > 3 for listener in ("PLAINTEXT", "CONTROLLER")):
            time.sleep(0.05)
        for node in cluster.nodes.values():
            for server in servers(node.node):
                for outcome in (Outcome.EXPIRED, Outcome.FAILED, Outcome.FAILED_AGAIN):
                    assert set(dict(server.authentications.of(outcome)).values()) == {0}


def servers(node):
    return (node.server, node._controller.service.server)


def renewed(cluster, listener):
    """How often sessions with a listener were renewed."""
    return sum(
        dict(server.authentications.of(Outcome.SUCCESSFUL_AGAIN)).get(listener, 0)
        for node in cluster.nodes.values()
        for server in servers(node.node)
    )
