"""GSSAPI with a real key distribution centre and the Kerberos library of the system.

The tests are skipped where the package gssapi is not installed.
"""

import time

import pytest
from compat.lab.kerberos import REALM, SERVICE, Kdc, require_library
from compat.lab.toolchain import Missing
from compat.lab.wire_client import decode_response

from odradek.client import connection as connection_module
from odradek.client.address import Address
from odradek.client.connection import Connection
from odradek.client.errors import SecurityError
from odradek.client.security import parse_security
from odradek.config.kerberos import KerberosLogin
from odradek.env import kerberos
from odradek.model.errors import ErrorCode
from odradek.model.principal import ANONYMOUS
from odradek.network.authentications import Outcome
from odradek.testing import Broker, BrokerError, Cluster
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse

from .test_listener import METADATA, Client

pytestmark = [pytest.mark.cluster, pytest.mark.java]

USERS = ("alice", "carol/admin", "eve")
REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
NAMES = ("PLAINTEXT", "DEFAULTS", "RULES", "LONG", "STALE")
TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def kdc(tmp_path_factory):
    try:
        require_library()
        started = Kdc(tmp_path_factory.mktemp("kdc"), [SERVICE, "kafka/elsewhere", *USERS])
    except Missing as reason:
        pytest.skip(str(reason))
    with started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(started.configuration))
        yield started


def settings(kdc):
    modules = {
        f"listener.name.{name.lower()}.gssapi.sasl.jaas.config": kdc.login_module(SERVICE)
        for name in NAMES[1:]
    }
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in NAMES),
        "listener.security.protocol.map": ",".join(
            f"{name}:{'PLAINTEXT' if name == 'PLAINTEXT' else 'SASL_PLAINTEXT'}" for name in NAMES
        ),
        **modules,
        "sasl.kerberos.service.name": "kafka",
        "connection.failed.authentication.delay.ms": "1",
        "listener.name.rules.sasl.kerberos.principal.to.local.rules": "RULE:[2:$2-$1](.*)s/ol//U",
        "listener.name.long.connections.max.reauth.ms": "600000",
        # The keys of another service: clients have no tickets for it.
        "listener.name.stale.gssapi.sasl.jaas.config": kdc.login_module("kafka/elsewhere"),
    }


@pytest.fixture(scope="module")
def broker(kdc):
    with Broker(topics={"orders": 1}, settings=settings(kdc)) as running:
        yield running


def port_of(broker, listener):
    return {each.name: each.port for each in broker.node.server.endpoints}[listener]


def security(kdc, user, **changes):
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": kdc.login_module(user),
    }
    return parse_security(given | changes)


def connect(broker, listener, given):
    address = Address("localhost", port_of(broker, listener))
    return Connection(address, "test", TIMEOUT_MS, given)


def principal_of(broker, listener):
    """The principal of the only connection to a listener."""
    (found,) = (
        each.peer.principal
        for each in list(broker.node.server.connections)
        if each.peer.listener == listener
    )
    return found


def counted(broker, listener, outcome):
    return dict(broker.node.server.authentications.of(outcome))[listener]


# -- our own client ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listener", "user", "principal"),
    [
        ("DEFAULTS", "alice", "User:alice"),
        ("DEFAULTS", "carol/admin", "User:carol"),
        ("RULES", "carol/admin", "User:ADMIN-CAR"),
    ],
)
def test_a_client_with_keys(kdc, broker, listener, user, principal):
    connection = connect(broker, listener, security(kdc, user))
    assert principal_of(broker, listener) == principal
    connection.close()


def test_settings_of_librdkafka(kdc, broker):
    given = parse_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.keytab": str(kdc.keys("alice")),
            "sasl.kerberos.principal": f"alice@{REALM}",
        }
    )
    connection = connect(broker, "DEFAULTS", given)
    assert principal_of(broker, "DEFAULTS") == "User:alice"
    connection.close()


def test_a_client_with_a_ticket_cache(kdc, broker, tmp_path):
    import gssapi

    cache = f"FILE:{tmp_path}/tickets"
    name = gssapi.Name(f"eve@{REALM}", gssapi.NameType.kerberos_principal)
    store = {"client_keytab": str(kdc.keys("eve")), "ccache": cache}
    gssapi.Credentials(name=name, usage="initiate", store=store).inquire()
    module = kdc.login_module("eve").partition(" required")[0]
    jaas = f'{module} required useTicketCache=true ticketCache="{cache}";'
    connection = connect(broker, "DEFAULTS", security(kdc, "eve", **{"sasl.jaas.config": jaas}))
    assert principal_of(broker, "DEFAULTS") == "User:eve"
    connection.close()


def test_a_session_is_authenticated_again(kdc, broker, monkeypatch):
    monkeypatch.setattr(connection_module, "SESSION_USED", 0)
    connection = connect(broker, "LONG", security(kdc, "alice"))
    monkeypatch.setattr(connection_module, "SESSION_USED", 0.5)
    for _ in range(2):
        assert connection.request(MetadataRequest(), MetadataResponse, TIMEOUT_MS).brokers
    assert counted(broker, "LONG", Outcome.SUCCESSFUL_AGAIN) == 1
    connection.close()


def wrong_module(kdc, kind):
    """A login module with the keys of somebody else, with old keys, or without a valid ticket."""
    module = kdc.login_module("alice")
    keys = {"WRONG": "eve.keytab", "OLD": "alice.old.keytab"}
    if kind in keys:
        return module.replace("alice.keytab", keys[kind])
    tickets = {
        "EXPIRED": "alice.expired.tickets",
        "OUTDATED": "alice.outdated.tickets",
        "MISSING": "missing.tickets",
    }
    return (
        f"{module.partition(' required')[0]} required useTicketCache=true "
        f'ticketCache="FILE:{kdc.directory / tickets[kind]}";'
    )


@pytest.mark.parametrize(
    ("listener", "changes", "problem"),
    [
        ("RULES", {}, REFUSED),  # no rule applies to names with one part
        ("STALE", {}, REFUSED),
        ("DEFAULTS", {"sasl.kerberos.service.name": "http"}, "Kerberos: .*not found"),
        ("DEFAULTS", {"sasl.jaas.config": "WRONG"}, "Kerberos: "),
        ("DEFAULTS", {"sasl.jaas.config": "OLD"}, "Kerberos: "),
        ("DEFAULTS", {"sasl.jaas.config": "EXPIRED"}, "Kerberos: .*expired"),
        ("DEFAULTS", {"sasl.jaas.config": "MISSING"}, "Kerberos: "),
    ],
)
def test_refused_logins(kdc, broker, listener, changes, problem, caplog):
    if "sasl.jaas.config" in changes:
        changes = {"sasl.jaas.config": wrong_module(kdc, changes["sasl.jaas.config"])}
    with pytest.raises(SecurityError, match=problem):
        connect(broker, listener, security(kdc, "alice", **changes))


def test_the_broker_refuses_an_expired_ticket(kdc, broker, caplog):
    caplog.set_level("INFO")
    changes = {"sasl.jaas.config": wrong_module(kdc, "OUTDATED")}
    with pytest.raises(SecurityError, match=REFUSED):
        connect(broker, "DEFAULTS", security(kdc, "alice", **changes))
    assert "Ticket expired" in caplog.text


# -- tokens -----------------------------------------------------------------------------------


class Tokens:
    """The client's side of the mechanism, token by token."""

    def __init__(self, kdc, broker, listener="DEFAULTS"):
        login = KerberosLogin("kafka", f"alice@{REALM}", str(kdc.keys("alice")))
        self.context = kerberos.initiate(login, "localhost")
        self.client = Client(port_of(broker, listener))
        assert self.client.handshake("GSSAPI").error_code == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.socket.close()

    def offered(self):
        answer = self.client.authenticate(self.context.step(b""))
        assert self.context.step(answer.auth_bytes) == b""
        assert self.context.is_complete
        return self.context.unwrap(self.client.authenticate(b"").auth_bytes)

    def refused(self, token):
        answer = self.client.authenticate(token)
        found = (answer.error_code, answer.error_message, self.client.is_closed())
        return found == (ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED, True)


def test_only_no_protection_is_offered(kdc, broker):
    with Tokens(kdc, broker) as tokens:
        assert tokens.offered() == b"\1\0\0\0"
        answer = tokens.client.authenticate(tokens.context.wrap(b"\1\0\0\0"))
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert principal_of(broker, "DEFAULTS") == "User:alice"
        assert tokens.client.describe().brokers


def test_the_authorization_id_has_no_effect(kdc, broker):
    with Tokens(kdc, broker) as tokens:
        tokens.offered()
        answer = tokens.client.authenticate(tokens.context.wrap(b"\1\0\0\0eve@" + REALM.encode()))
        assert answer.error_code == 0
        assert principal_of(broker, "DEFAULTS") == "User:alice"


@pytest.mark.parametrize("chosen", [b"", b"\1", b"\0\0\0\0", b"\2\0\xff\xff", b"\4\0\xff\xff"])
def test_a_protection_that_is_not_offered(kdc, broker, chosen):
    with Tokens(kdc, broker) as tokens:
        tokens.offered()
        assert tokens.refused(tokens.context.wrap(chosen))


def test_a_message_without_a_checksum(kdc, broker):
    with Tokens(kdc, broker) as tokens:
        tokens.offered()
        assert tokens.refused(b"\1\0\0\0")


def test_a_token_instead_of_an_empty_one(kdc, broker):
    with Tokens(kdc, broker) as tokens:
        tokens.client.authenticate(tokens.context.step(b""))
        assert tokens.refused(b"x")


@pytest.mark.parametrize("token", [b"", b"x", bytes(range(256)), b"\x60\x82\xff\xff" + bytes(90)])
def test_tokens_that_are_malformed(kdc, broker, token):
    with Tokens(kdc, broker) as tokens:
        assert tokens.refused(token)


def test_a_replayed_token_closes_the_connection(kdc, broker):
    """The client may try again: Apache Kafka does not count this as a failed authentication."""
    with Tokens(kdc, broker) as tokens, Tokens(kdc, broker) as other:
        token = tokens.context.step(b"")
        assert tokens.client.authenticate(token).error_code == 0
        before = counted(broker, "DEFAULTS", Outcome.FAILED)
        with pytest.raises(ConnectionError):
            other.client.authenticate(token)
        assert counted(broker, "DEFAULTS", Outcome.FAILED) == before


def test_clients_that_leave_after_a_token(kdc, broker, caplog):
    for _ in range(5):
        with Tokens(kdc, broker) as tokens:
            request = SaslAuthenticateRequest(auth_bytes=tokens.context.step(b""))
            tokens.client.send(tokens.client.frame("SaslAuthenticate", 2, request))
    connect(broker, "DEFAULTS", security(kdc, "alice")).close()
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


def test_requests_that_follow_a_token_at_once_are_processed_after_it(kdc, broker):
    with Tokens(kdc, broker) as tokens:
        tokens.offered()
        client, last = tokens.client, tokens.context.wrap(b"\1\0\0\0")
        request = SaslAuthenticateRequest(auth_bytes=last)
        metadata = client.frame("Metadata", 9, METADATA)
        client.send(client.frame("SaslAuthenticate", 2, request) + metadata + metadata)
        answers = [client.receive() for _ in range(3)]
        answer = decode_response("SaslAuthenticate", 2, answers[0], SaslAuthenticateResponse)
        assert answer.error_code == 0
        for each in answers[1:]:
            assert decode_response("Metadata", 9, each, MetadataResponse).brokers


# -- nodes ------------------------------------------------------------------------------------


def test_a_node_does_not_start_without_its_keys(kdc, tmp_path):
    given = settings(kdc)
    name = "listener.name.rules.gssapi.sasl.jaas.config"
    for changed, problem in (
        (given[name].replace(SERVICE.replace("/", "_"), "missing"), "missing.keytab"),
        (given[name].replace(f"{SERVICE}@", "kafka/other@"), "No key table entry"),
    ):
        with (
            pytest.raises(BrokerError, match=f"listener RULES: GSSAPI .*{problem}"),
            Broker(settings=given | {name: changed}),
        ):
            pass


def test_nodes_log_in_to_each_other(kdc):
    module = kdc.login_module(SERVICE)
    given = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.plaintext.gssapi.sasl.jaas.config": module,
        "listener.name.controller.gssapi.sasl.jaas.config": module,
        "listener.name.plaintext.gssapi.connections.max.reauth.ms": "1500",
    }  # GSSAPI is the default of all mechanisms
    with Cluster(settings=given, topics={"orders": 3}) as cluster:
        host, port = cluster.bootstrap_servers.split(",")[0].rsplit(":", 1)
        connection = Connection(
            Address(host, int(port)), "test", TIMEOUT_MS, security(kdc, "alice")
        )
        principals = set()
        while not principals >= {"User:kafka", "User:alice"}:  # the followers have connected
            principals |= {
                each.peer.principal
                for node in cluster.nodes.values()
                for each in list(node.node.server.connections)
            }
            time.sleep(0.01)
        connection.close()
        while (
            sum(
                counted(node, "PLAINTEXT", Outcome.SUCCESSFUL_AGAIN)
                for node in cluster.nodes.values()
            )
            < 3
        ):
            time.sleep(0.01)  # the nodes renew their sessions
    assert principals - {ANONYMOUS} == {"User:kafka", "User:alice"}
