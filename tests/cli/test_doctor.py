"""`odradek doctor`: problems of a configuration, and brokers that cannot be reached."""

from __future__ import annotations

import socket

import pytest
from tests.cli.conftest import invoke

from odradek.cli.certificate_check import CertificateFacts
from odradek.cli.certificates import Authority
from odradek.operations.listener_health import ListenerFacts, diagnose
from odradek.operations.problems import Severity
from odradek.testing import Broker


@pytest.fixture(scope="module")
def trusted(tmp_path_factory):
    """The directory of an authority, and the authority."""
    directory = tmp_path_factory.mktemp("authority")
    return directory, Authority.create(directory, "test", days=100)


def checked(*settings, code):
    words = [word for each in settings for word in ("--override", each)]
    outcome = invoke("doctor", "--json", *words)
    assert outcome.code == code, outcome
    return outcome.json


def whats(document):
    return [each["what"] for each in document["problems"]]


def test_nothing_is_wrong_with_a_node_for_this_machine():
    found = checked("listeners=PLAINTEXT://localhost:0", code=0)
    assert found == {
        "broken": False,
        "problems": [],
        "checked": [
            {
                "listener": "PLAINTEXT",
                "listens_on": "localhost:0",
                "protocol": "PLAINTEXT",
                "clients_are_told": "localhost:0",
            }
        ],
    }


def test_a_port_that_is_in_use():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = checked(f"listeners=PLAINTEXT://127.0.0.1:{port}", code=1)
    assert whats(found) == [f"PLAINTEXT cannot listen on 127.0.0.1:{port}: Address already in use"]


def test_clients_elsewhere_are_told_to_connect_to_themselves():
    settings = ["listeners=PLAINTEXT://:0"]
    (open_to_all,) = whats(checked(*settings, code=0))
    assert "no authentication" in open_to_all
    found = checked(*settings, "advertised.listeners=PLAINTEXT://localhost:9092", code=1)
    assert "is their own machine" in whats(found)[0]
    assert "the address that it has dialled" in found["problems"][0]["to_do"]


def test_a_host_that_nobody_knows():
    settings = ["listeners=PLAINTEXT://127.0.0.1:0"]
    found = checked(*settings, "advertised.listeners=PLAINTEXT://no.such.invalid:1", code=1)
    assert "no.such.invalid:1, but this name is unknown here" in whats(found)[0]


@pytest.mark.parametrize(
    ("host", "days", "problem"),
    [
        ("localhost", 100, None),
        ("127.0.0.2", 100, "clients of SSL are told to connect to 127.0.0.2:9, but they will not"),
        ("localhost", 20, "the certificate of SSL expires in "),
    ],
)
@pytest.mark.parametrize("extra", [(), ("ssl.client.auth=required", "TLSv1.2")])
def test_the_certificate(trusted, tmp_path, host, days, problem, extra):
    directory, authority = trusted
    key = tmp_path / "node.pem"
    key.write_bytes(authority.issue("node", ["localhost", "127.0.0.1"], days=days))
    settings = [
        "listeners=SSL://127.0.0.1:0",
        f"advertised.listeners=SSL://{host}:9",
        "inter.broker.listener.name=SSL",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={key}",
    ]
    if extra:
        settings += [
            extra[0],
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={directory / 'ca.pem'}",
            f"ssl.enabled.protocols={extra[1]}",
        ]
    found = checked(*settings, code=1 if problem and "told" in problem else 0)
    if problem is None:
        assert whats(found) == []
    else:
        assert whats(found)[0].startswith(problem)


def test_a_key_that_cannot_be_read(tmp_path):
    key = tmp_path / "node.pem"
    key.write_text("nothing")
    found = checked(
        "listeners=SSL://127.0.0.1:0",
        "inter.broker.listener.name=SSL",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={key}",
        code=1,
    )
    assert str(key) in whats(found)[0]


def test_a_wrong_setting_and_a_warning():
    found = checked("listeners=nonsense", code=1)
    assert "expected NAME://host:port" in whats(found)[0]
    found = checked("listeners=PLAINTEXT://127.0.0.1:0", "retention=1", code=0)
    (problem,) = found["problems"]
    assert (problem["severity"], "retention has no effect" in problem["what"]) == ("note", True)


@pytest.mark.parametrize(
    ("changes", "severity", "text"),
    [
        ({"advertised_host": "proxy", "advertised_port": 7}, Severity.NOTE, "port mapping"),
        ({"host_for_nodes": "localhost"}, Severity.NOTE, "set `advertised.listeners`"),
        ({"protocol": "SASL_PLAINTEXT"}, Severity.DEGRADED, "SASL_SSL"),
        ({"certificate": CertificateFacts(-1)}, Severity.BROKEN, "Make a new one"),
        (
            {"certificate": CertificateFacts(90, name_problem="Mismatch")},
            Severity.BROKEN,
            "certificate with this name",
        ),
    ],
)
def test_what_to_do(changes, severity, text):
    facts = {"protocol": "SASL_SSL", "is_authenticated": True, **changes}
    (problem,) = diagnose([ListenerFacts("A", "", 9, **facts)])
    assert problem.severity is severity
    assert text in problem.advice


def test_a_cluster_as_clients_see_it():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody listens there
        port = silent.getsockname()[1]
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with Broker(settings=advertised) as broker:
            outcome = invoke("doctor", "-b", f"127.0.0.1:{broker.port}")
    assert outcome.code == 1
    assert f"broker 1 advertises 127.0.0.1:{port}" in outcome.out
    assert "advertised.listeners of the broker must name" in outcome.out
    with Broker() as broker:
        outcome = invoke("doctor", "-b", f"127.0.0.1:{broker.port}")
        assert outcome.code == 0
        assert outcome.lines[0] == "No problem was found."
        assert outcome.lines[-1].split() == ["1", f"127.0.0.1:{broker.port}", "answers"]


def test_a_node_that_is_silent_may_wait_for_the_others():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    outcome = invoke("doctor", "-b", f"127.0.0.1:{port}")
    assert outcome.code == 1
    assert "odradek doctor --config FILE" in outcome.err
