"""A node of Odradek and a node of Apache Kafka in one cluster, with TLS or SASL between them."""

import contextlib
import time

import pytest
from compat.lab.cluster import MIXED_RELEASE, QUICK_SETTINGS, ApacheMember, OdradekMember
from compat.lab.kerberos import SERVICE, Kdc, require_library
from compat.lab.toolchain import Missing, free_port
from confluent_kafka import Consumer, Producer
from tests.cli.conftest import invoke
from tests.sasl import issuer

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.config.jaas import OAUTH_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from odradek.config.oauth import SIGNED_HANDLERS
from odradek.config.oauth_login import LOGIN_HANDLERS
from odradek.config.properties import parse_properties

FACTORS = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}


def properties(file):
    return parse_properties(file.read_bytes())


def nodes_known(client_settings, address):
    security = parse_security(client_settings)
    try:
        with Cluster(address, security=security, timeout_ms=5_000) as cluster:
            return sorted(cluster.refresh([]).nodes)
    except ClientError:
        return []


def member(kind, client_settings):
    """A node that is ready when it says to a client with SASL_SSL that it is a broker."""

    class Member(kind):
        release = MIXED_RELEASE

        def _serves(self):
            return self.node_id in nodes_known(client_settings, self.bootstrap)

    return Member


@pytest.mark.cluster
@pytest.mark.java
def test_replication_over_sasl_ssl(tmp_path):
    """Both nodes read the files that `odradek secure init` wrote. There are ACLs."""
    files = tmp_path / "secured"
    # `odradek secure init` wants the port after each for its controller.
    first, controller_port, second = (free_port() for _ in range(3))
    ports = {1: first, 2: second}
    options = (w for each, port in ports.items() for w in ("--node", f"{each}@127.0.0.1:{port}"))
    assert invoke("secure", "init", files, *options).code == 0
    clients = properties(files / "librdkafka.properties")
    running = []
    try:
        for node_id, kind, roles in (
            (1, OdradekMember, "broker,controller"),
            (2, ApacheMember, "broker"),
        ):
            listeners = [f"SASL_SSL://127.0.0.1:{ports[node_id]}"]
            if "controller" in roles:
                listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
            settings = {
                **properties(files / f"server-{node_id}.properties"),
                **QUICK_SETTINGS,
                **FACTORS,
                "process.roles": roles,
                "listeners": ",".join(listeners),
                "advertised.listeners": listeners[0],
                "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
                "listener.name.controller.ssl.client.auth": "required",
            }
            made = member(kind, clients)(node_id, settings, tmp_path / str(node_id), ports[node_id])
            running.append(made)
            made.start()
        replicate(clients, clients)
    except Missing as reason:
        pytest.skip(str(reason))
    finally:
        for each in reversed(running):
            each.close()


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.java
def test_replication_with_access_tokens(tmp_path):
    """All connections, also those to the controller, use OAUTHBEARER."""
    key = issuer.ec_key(kid="first")
    now_s = int(time.time())
    claims = {"sub": "node", "iat": now_s, "exp": now_s + 3600}
    token = issuer.signed(key, {"alg": "ES256", "kid": "first"}, claims)
    (tmp_path / "keys").write_text(issuer.key_set(key))
    (tmp_path / "token").write_text(token)
    url = (tmp_path / "token").as_uri()
    ports, controller_port = {1: free_port(), 2: free_port()}, free_port()
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
    own = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    others = {name: own[name] for name in list(own)[:3]}
    others["oauth_cb"] = lambda config: (token, time.time() + 3600)
    common = {
        "listener.security.protocol.map": "IN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys").as_uri(),
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
        **QUICK_SETTINGS,
        **FACTORS,
    }
    for listener in ("in", "controller"):
        prefix = f"listener.name.{listener}.oauthbearer.sasl"
        common[f"{prefix}.jaas.config"] = f"{OAUTH_LOGIN_MODULE} required;"
        common[f"{prefix}.server.callback.handler.class"] = SIGNED_HANDLERS[0]
        common[f"{prefix}.login.callback.handler.class"] = LOGIN_HANDLERS[0]
    running = []
    try:
        for node_id, kind, roles in (
            (1, OdradekMember, "broker,controller"),
            (2, ApacheMember, "broker"),
        ):
            listeners = [f"IN://127.0.0.1:{ports[node_id]}"]
            if "controller" in roles:
                listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
            settings = {
                **common,
                "node.id": str(node_id),
                "process.roles": roles,
                "listeners": ",".join(listeners),
                "advertised.listeners": listeners[0],
            }
            made = member(kind, own)(node_id, settings, tmp_path / str(node_id), ports[node_id])
            running.append(made)
            made.start()
        replicate(own, others)
    except Missing as reason:
        pytest.skip(str(reason))
    finally:
        for each in reversed(running):
            each.close()


HOST = "localhost"


@contextlib.contextmanager
def mixed_cluster(tmp_path, common, controller, *, credentials=(), kdc=None):
    """A controller, and brokers 1 (Odradek) and 2 (Apache Kafka). `common` are settings of the listeners
    IN and CONTROLLER. Clients use a listener without TLS and SASL, whose address is the value."""
    ports, controller_port = {1: free_port(), 2: free_port()}, free_port()
    bootstrap = ",".join(f"{HOST}:{port}" for port in ports.values())
    running = []
    try:
        for node_id, kind in ((3, controller), (1, OdradekMember), (2, ApacheMember)):
            port = ports.get(node_id, controller_port)
            listeners = f"OUT://{HOST}:{port},IN://{HOST}:{free_port()}"
            settings = {
                "listener.security.protocol.map": (
                    "OUT:PLAINTEXT,IN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
                ),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"3@{HOST}:{controller_port}",
                "process.roles": "controller" if node_id == 3 else "broker",
                "node.id": str(node_id),
                "listeners": f"CONTROLLER://{HOST}:{port}" if node_id == 3 else listeners,
                **({} if node_id == 3 else {"inter.broker.listener.name": "IN"}),
                **common,
                **QUICK_SETTINGS,
                **FACTORS,
            }
            made = member(kind, {"security.protocol": "PLAINTEXT"})(
                node_id, settings, tmp_path / str(node_id), port
            )
            made.credentials = credentials
            if kdc is not None:
                kdc.serve(made)
            running.append(made)
            made.launch()
        for made in running[1:]:
            made.wait_until_ready()
        yield {"bootstrap.servers": bootstrap}
    except Missing as reason:
        pytest.skip(str(reason))
    finally:
        for made in reversed(running):
            made.close()


@pytest.mark.cluster
@pytest.mark.java
@pytest.mark.parametrize("controller", [OdradekMember, ApacheMember])
@pytest.mark.slow("a node of Apache Kafka joins a cluster and leads")
def test_replication_with_scram(tmp_path, controller):
    """All connections, also those to the only controller, use SCRAM. Their sessions are brief."""
    common = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    for listener, peers in (("in", "inter.broker"), ("controller", "controller")):
        prefix = f"listener.name.{listener}.scram-sha-256"
        common[f"sasl.mechanism.{peers}.protocol"] = "SCRAM-SHA-256"
        common[f"{prefix}.connections.max.reauth.ms"] = "1500"
        common[f"{prefix}.sasl.jaas.config"] = (
            f'{SCRAM_LOGIN_MODULE} required username="node" password="node-secret";'
        )
    credentials = ["SCRAM-SHA-256=[name=node,password=node-secret]"]
    with mixed_cluster(tmp_path, common, controller, credentials=credentials) as own:
        replicate(own, own)


@pytest.mark.cluster
@pytest.mark.java
@pytest.mark.parametrize("controller", [OdradekMember, ApacheMember])
def test_replication_with_kerberos(tmp_path, controller):
    """All connections between nodes use GSSAPI, which is the default of the mechanisms."""
    try:
        require_library()
        started = Kdc(tmp_path / "kdc", [SERVICE])
    except Missing as reason:
        pytest.skip(str(reason))
    with started as kdc:
        common = {
            "sasl.kerberos.service.name": "kafka",
            "listener.name.in.gssapi.sasl.jaas.config": kdc.login_module(SERVICE),
            "listener.name.controller.gssapi.sasl.jaas.config": kdc.login_module(SERVICE),
        }
        with mixed_cluster(tmp_path, common, controller, kdc=kdc) as own:
            replicate(own, own)


def replicate(own, clients):
    """Write to partitions that each node leads, until both replicas have all; then read.

    `own` are the settings of our client, `clients` those of librdkafka.
    """
    with Cluster(own["bootstrap.servers"], security=parse_security(own)) as cluster:
        topic = NewTopic("a", assignments=[[1, 2], [2, 1]])
        assert not isinstance(create_topics(cluster, [topic])["a"], ClientError)
        errors = []
        producer = Producer({**clients, "acks": "all", "log_level": 0})
        for number in range(100):
            producer.produce(
                "a", b"%d" % number, partition=number % 2,
                on_delivery=lambda error, _: errors.append(error),
            )  # fmt: skip
        assert producer.flush(60) == 0
        assert errors == [None] * 100
        partitions = cluster.refresh(["a"]).topics["a"].partitions.values()
        assert [sorted(each.in_sync) for each in partitions] == [[1, 2], [1, 2]]
    consumer = Consumer(
        {**clients, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe(["a"])
    read = set()
    while len(read) < 100:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            read.add(int(record.value()))
    consumer.close()
