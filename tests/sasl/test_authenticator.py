"""The state machine of a connection's authentication, and the mechanism PLAIN."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.sasl.authenticator import Authenticator, State, UnexpectedRequest
from odradek.core.sasl.mechanism import Rejected
from odradek.core.sasl.plain import PlainServer
from odradek.model.errors import ErrorCode

from .client import plain

PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
RIGHT = plain("alice", "alice-secret")


class Other(PlainServer):
    name = "OTHER"


class Vague(PlainServer):
    """Does not tell the client why an empty token is wrong."""

    def evaluate(self, token):
        if not token:
            raise Rejected
        return super().evaluate(token)


class ByToken(PlainServer):
    """Authenticates by a token that expires at 5000 ms."""

    token_expires_ms = 5000
    is_by_delegation_token = True


def authenticator(lifetime_ms=0):
    return Authenticator(
        {"PLAIN": lambda: PlainServer(PASSWORDS), "OTHER": lambda: Other(PASSWORDS)},
        {"PLAIN": lifetime_ms, "OTHER": lifetime_ms},
    )


def authenticated(lifetime_ms=0, now_ms=0):
    machine = authenticator(lifetime_ms)
    machine.handshake("PLAIN", 1, now_ms)
    machine.authenticate(RIGHT, now_ms)
    return machine


def test_versions_handshake_token():
    machine = authenticator()
    machine.request_versions()  # this one has an unsupported version
    machine.request_versions()
    machine.versions_answered()
    assert machine.handshake("PLAIN", 1, 0) is ErrorCode.NONE
    assert machine.authenticate(RIGHT, 0) == (b"", 0)
    assert (machine.state, machine.user) == (State.COMPLETE, "alice")
    assert not machine.is_expired(10**12)
    assert not machine.may_begin_again(10**12)


def test_versions_are_requested_once():
    machine = authenticator()
    machine.request_versions()
    machine.versions_answered()
    with pytest.raises(UnexpectedRequest, match="ApiVersions is not expected in the state hand"):
        machine.request_versions()
    assert machine.state is State.FAILED


def test_a_mechanism_that_is_not_enabled():
    machine = authenticator()
    assert machine.handshake("GSSAPI", 1, 0) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert machine.mechanisms == ["PLAIN", "OTHER"]
    with pytest.raises(UnexpectedRequest):
        machine.handshake("PLAIN", 1, 0)


def test_a_token_before_the_handshake_and_a_second_handshake():
    with pytest.raises(UnexpectedRequest, match="SaslAuthenticate is not expected"):
        authenticator().authenticate(RIGHT, 0)
    machine = authenticator()
    machine.handshake("PLAIN", 0, 0)
    assert machine.are_tokens_raw
    with pytest.raises(UnexpectedRequest, match="SaslHandshake is not expected"):
        machine.handshake("PLAIN", 1, 0)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (plain("alice", "bob-secret"), "Authentication failed: Invalid username or password"),
        (plain("carol", "x"), "Authentication failed: Invalid username or password"),
        (plain("alice", "alice-secret", "bob"), "Authentication failed: Client requested an auth"),
        (plain("alice", ""), "Authentication failed: password not specified"),
        (plain("", "x"), "Authentication failed: username not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (RIGHT + b"\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (RIGHT + b"\0more\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\xff\xfe\0\xfd\0", "Authentication failed: password not specified"),
    ],
)
def test_wrong_tokens(token, message):
    machine = authenticator()
    machine.handshake("PLAIN", 1, 0)
    with pytest.raises(Rejected) as rejected:
        machine.authenticate(token, 0)
    assert rejected.value.message.startswith(message)
    assert (machine.state, machine.user) == (State.FAILED, None)
    with pytest.raises(UnexpectedRequest):
        machine.authenticate(RIGHT, 0)


def test_the_user_may_be_its_own_authorization_id():
    machine = authenticator()
    machine.handshake("PLAIN", 1, 0)
    machine.authenticate(plain("alice", "alice-secret", "alice"), 0)
    assert machine.user == "alice"


# -- authentication again -------------------------------------------------------------------------


def test_a_session_expires_unless_the_client_authenticates_again():
    machine = authenticated(5000)
    assert not machine.is_expired(4999)
    assert machine.is_expired(5000)
    assert machine.may_begin_again(4000)
    assert machine.handshake("PLAIN", 1, 4000) is ErrorCode.NONE
    assert machine.authenticate(RIGHT, 4100) == (b"", 5000)
    assert not machine.is_expired(9099)
    assert machine.is_expired(9100)


def test_once_a_second():
    machine = authenticated(5000)
    machine.handshake("PLAIN", 1, 10)
    machine.authenticate(RIGHT, 20)
    assert not machine.may_begin_again(1009)
    assert machine.may_begin_again(1010)


def test_the_user_and_the_mechanism_must_not_change():
    machine = authenticated(5000)
    machine.handshake("PLAIN", 1, 10)
    with pytest.raises(Rejected, match=r"from User\.alice: User\.bob"):
        machine.authenticate(plain("bob", "bob-secret"), 20)
    assert machine.state is State.FAILED
    machine = authenticated(5000)
    assert machine.handshake("OTHER", 1, 10) is ErrorCode.NONE
    with pytest.raises(Rejected) as rejected:
        machine.authenticate(RIGHT, 20)
    assert rejected.value.message is None


def test_a_failure_without_a_message_of_the_mechanism():
    machine = Authenticator({"PLAIN": lambda: Vague(PASSWORDS)}, {"PLAIN": 5000})
    machine.handshake("PLAIN", 1, 0)
    machine.authenticate(RIGHT, 0)
    machine.handshake("PLAIN", 1, 10)
    message = "Authentication failed during {} due to invalid credentials with SASL mechanism PLAIN"
    with pytest.raises(Rejected, match=message.format("re-authentication")):
        machine.authenticate(b"", 20)
    first = Authenticator({"PLAIN": lambda: Vague(PASSWORDS)}, {})
    first.handshake("PLAIN", 1, 0)
    with pytest.raises(Rejected, match=message.format("authentication")):
        first.authenticate(b"", 0)


# -- any order ------------------------------------------------------------------------------------

STEPS = {
    "versions": lambda machine, now_ms: machine.request_versions(),
    "PLAIN": lambda machine, now_ms: machine.handshake("PLAIN", 1, now_ms),
    "OTHER": lambda machine, now_ms: machine.handshake("OTHER", 0, now_ms),
    "GSSAPI": lambda machine, now_ms: machine.handshake("GSSAPI", 1, now_ms),
    "wrong": lambda machine, now_ms: machine.authenticate(plain("alice", "x"), now_ms),
    "right": lambda machine, now_ms: machine.authenticate(RIGHT, now_ms),
    "bob": lambda machine, now_ms: machine.authenticate(plain("bob", "bob-secret"), now_ms),
}


@given(st.lists(st.sampled_from(sorted(STEPS))), st.sampled_from([0, 60_000]))
def test_only_a_right_token_completes_and_the_user_never_changes(steps, lifetime_ms):
    machine = authenticator(lifetime_ms)
    users = set()
    for count, step in enumerate(steps):
        now_ms = count * 1000
        was = machine.state
        if was is State.COMPLETE and not machine.may_begin_again(now_ms):
            break  # the gate passes further requests to the dispatcher
        try:
            STEPS[step](machine, now_ms)
        except (Rejected, UnexpectedRequest):
            assert machine.state is State.FAILED
        if machine.state is State.COMPLETE and was is not State.COMPLETE:
            assert (was, step) in {(State.AUTHENTICATE, "right"), (State.AUTHENTICATE, "bob")}
            users.add(machine.user)
        if was is State.FAILED:
            assert machine.state is State.FAILED
    assert len(users) <= 1


@pytest.mark.parametrize(
    ("lifetime_ms", "now_ms", "expected_ms"), [(0, 0, 5000), (10_000, 0, 5000), (900, 4000, 900)]
)
def test_the_session_of_a_token_ends_with_the_token(lifetime_ms, now_ms, expected_ms):
    machine = Authenticator({"PLAIN": lambda: ByToken(PASSWORDS)}, {"PLAIN": lifetime_ms})
    machine.handshake("PLAIN", 1, now_ms)
    assert not machine.is_by_token
    assert machine.authenticate(RIGHT, now_ms).session_lifetime_ms == expected_ms
    assert machine.is_by_token
    assert not machine.is_expired(now_ms + expected_ms - 1)
    assert machine.is_expired(now_ms + expected_ms)
    assert machine.may_begin_again(now_ms)


def test_the_session_of_an_expired_token_ends_at_once():
    machine = Authenticator({"PLAIN": lambda: ByToken(PASSWORDS)}, {})
    machine.handshake("PLAIN", 1, 6000)
    assert machine.authenticate(RIGHT, 6000).session_lifetime_ms == 0
    assert machine.is_expired(6000), "requests that came with the last token are not served"
