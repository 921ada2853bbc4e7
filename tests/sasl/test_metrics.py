"""The metrics of authentications, by listener and outcome."""

import time

import pytest

from odradek.network.authentications import Outcome
from odradek.node.metrics.network import SOCKETS

from .client import plain
from .test_listener import Client

OUTCOMES = {each.value for each in Outcome}


@pytest.fixture
def counted(broker):
    """Returns the outcomes on a listener since the beginning of the test."""

    def counts(listener):
        found = {}
        for each in broker.node.metrics.values(SOCKETS):
            name = each.attribute.replace("-", "_")
            if f"listener={listener}," in each.object_name and name in OUTCOMES:
                found[Outcome(name)] = each.value
        return found

    before = {listener: counts(listener) for listener in ("CLIENT", "LONG", "SHORT")}

    def since(listener):
        now = counts(listener)
        assert set(now) == set(Outcome)
        return {
            each: now[each] - before[listener][each]
            for each in Outcome
            if now[each] != before[listener][each]
        }

    return since


def test_right_and_wrong_passwords(ports, counted):
    with Client(ports["CLIENT"]) as client:
        client.handshake()
        assert client.authenticate().error_code == 0
    assert counted("CLIENT") == {Outcome.SUCCESSFUL: 1}
    with Client(ports["CLIENT"]) as client:
        client.handshake()
        assert client.authenticate(plain("alice", "wrong")).error_code == 58
    with Client(ports["CLIENT"]) as client:
        assert client.handshake("GSSAPI").error_code == 33
    assert counted("CLIENT") == {Outcome.SUCCESSFUL: 1, Outcome.FAILED: 2}
    assert counted("LONG") == {}


def test_again(ports, counted):
    for token, code in ((plain("alice", "alice-secret"), 0), (plain("bob", "bob-secret"), 58)):
        with Client(ports["LONG"]) as client:
            client.handshake()
            assert client.authenticate().error_code == 0
            client.handshake()
            assert client.authenticate(token).error_code == code
    assert counted("LONG") == {
        Outcome.SUCCESSFUL: 2,
        Outcome.SUCCESSFUL_AGAIN: 1,
        Outcome.FAILED_AGAIN: 1,
    }


def test_a_session_that_has_expired(ports, counted):
    with Client(ports["SHORT"]) as client:
        client.handshake()
        lifetime_ms = client.authenticate().session_lifetime_ms
        time.sleep(lifetime_ms / 1000 + 0.01)
        with pytest.raises(ConnectionError):
            client.describe()
    assert counted("SHORT") == {Outcome.SUCCESSFUL: 1, Outcome.EXPIRED: 1}
