"""The messages of OAUTHBEARER, and when the keys of an issuer are fetched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.sasl.authenticator import Authenticator, State
from odradek.core.sasl.key_refresh import KeyRefresh
from odradek.core.sasl.mechanism import Rejected
from odradek.core.sasl.oauth_bearer import OAuthBearerServer, check_extensions, client_message
from odradek.core.sasl.tokens import AccessToken, InvalidToken

INVALID = b'{"status":"invalid_token"}'


def validate(token):
    """Tokens are `USER.EXPIRES_MS`; others are not accepted."""
    user, dot, expires_ms = token.partition(".")
    if user == "scoped":
        raise InvalidToken("a scope is missing", "[a, b]")
    if not dot:
        raise InvalidToken("the reason for the log")
    return AccessToken(user, int(expires_ms))


def message(token, header="n,,", scheme="Bearer ", extensions=""):
    return f"{header}\1auth={scheme}{token}\1{extensions}\1".encode()


def authenticator(lifetime_ms=0):
    return Authenticator(
        {"OAUTHBEARER": lambda: OAuthBearerServer(validate)}, {"OAUTHBEARER": lifetime_ms}
    )


@pytest.mark.parametrize(
    "text",
    [
        message("alice.5000"),
        message("alice.5000", header="n,a=alice,"),
        message("alice.5000", scheme="bearer   "),
        message("alice.5000", extensions="a=b c=\1traceId=x/y\t\r\n\1"),
        b"n,,\1key=value\1auth=BEARER alice.5000\1\1",
        client_message("alice.5000", {"logicalCluster": "lkc-1"}),
    ],
)
def test_a_right_token(text):
    server = OAuthBearerServer(validate)
    assert server.evaluate(text) == b""
    assert (server.user, server.token_expires_ms) == ("alice", 5000)
    assert not server.is_by_delegation_token


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\1",
        b"n,,",
        b"n,,\1\1",
        b"n,,\1auth=Bearer alice.5000\1",
        b"n,,\1auth=Bearer alice.5000\1\1\1",
        b"y,,\1auth=Bearer alice.5000\1\1",
        b"n,a=,\1auth=Bearer alice.5000\1\1",
        b"n,a=a=b,\1auth=Bearer alice.5000\1\1",
        b"n,,\1auth=Basic alice.5000\1\1",
        b"n,,\1auth=Beareralice.5000\1\1",
        b"n,,\1auth=Bearer \1\1",
        b"n,,\1auth=Bearer alice 5000\1\1",
        b"n,,\1AUTH=Bearer alice.5000\1\1",
        b"n,,\1auth=Bearer alice.5000\1host1=x\1\1",
        b"n,,\1auth=Bearer alice.5000\1host=\1\1",
        b"n,,\1auth=Bearer alice.5000\1host=\xc3\xa9\1\1",
        b"\xff" * 100,
    ],
)
def test_malformed_messages_get_no_details(text):
    with pytest.raises(Rejected) as problem:
        OAuthBearerServer(validate).evaluate(text)
    assert problem.value.message is None
    machine = authenticator()
    machine.handshake("OAUTHBEARER", 1, 0)
    with pytest.raises(Rejected, match="invalid credentials with SASL mechanism OAUTHBEARER"):
        machine.authenticate(text, 0)


def test_an_invalid_token_gets_an_error_first_and_fails_then():
    machine = authenticator()
    machine.handshake("OAUTHBEARER", 1, 0)
    assert machine.authenticate(message("wrong"), 0) == (INVALID, 0)
    assert (machine.state, machine.user) == (State.AUTHENTICATE, None)
    with pytest.raises(Rejected) as problem:
        machine.authenticate(b"\1", 0)
    assert problem.value.message == INVALID.decode()
    assert problem.value.reason == "the reason for the log"
    assert machine.state is State.FAILED


def test_after_an_error_another_token_may_follow():
    machine = authenticator()
    machine.handshake("OAUTHBEARER", 1, 0)
    assert machine.authenticate(message("scoped"), 0).token == (
        b'{"status":"insufficient_scope", "scope":"[a, b]"}'
    )
    assert machine.authenticate(message("alice.5000"), 0) == (b"", 5000)
    assert machine.user == "alice"


def test_a_second_error_is_the_last_one():
    machine = authenticator()
    machine.handshake("OAUTHBEARER", 1, 0)
    assert machine.authenticate(message("wrong"), 0).token == INVALID
    with pytest.raises(Rejected) as problem:
        machine.authenticate(message("wrong"), 0)
    assert problem.value.message == INVALID.decode()
    assert machine.state is State.FAILED


def test_the_authorization_id_must_be_the_user():
    with pytest.raises(Rejected) as problem:
        OAuthBearerServer(validate).evaluate(message("alice.5", header="n,a=bob,"))
    assert problem.value.message == (
        "Authentication failed: Client requested an authorization id (bob) that is different from "
        "the token's principal name (alice)"
    )


@pytest.mark.parametrize(
    ("lifetime_ms", "now_ms", "expected_ms"),
    [(0, 1000, 4000), (500, 1000, 500), (9000, 4000, 1000)],
)
def test_a_session_ends_with_the_token_or_earlier(lifetime_ms, now_ms, expected_ms):
    machine = authenticator(lifetime_ms)
    machine.handshake("OAUTHBEARER", 1, now_ms)
    assert machine.authenticate(message("alice.5000"), now_ms).session_lifetime_ms == expected_ms
    assert machine.expires_ms == now_ms + expected_ms
    assert not machine.is_by_token
    assert machine.may_begin_again(now_ms)


def test_a_token_that_has_expired_within_the_clock_skew_lasts_no_time():
    machine = authenticator()
    machine.handshake("OAUTHBEARER", 1, 6000)
    assert machine.authenticate(message("alice.5000"), 6000).session_lifetime_ms == 0
    assert machine.is_expired(6001)


def test_the_user_does_not_change():
    machine = authenticator()
    machine.handshake("OAUTHBEARER", 1, 0)
    machine.authenticate(message("alice.5000"), 0)
    machine.handshake("OAUTHBEARER", 1, 2000)
    assert machine.authenticate(message("alice.9000"), 2000) == (b"", 7000)
    machine.handshake("OAUTHBEARER", 1, 4000)
    with pytest.raises(Rejected, match=r"from User\.alice: User\.bob"):
        machine.authenticate(message("bob.9000"), 4000)


@given(st.binary(max_size=80))
def test_random_messages(text):
    try:
        OAuthBearerServer(validate).evaluate(text)
    except Rejected:
        pass


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": ""}, {"a": "\1"}])
def test_extensions_that_cannot_be_sent(extensions):
    with pytest.raises(ValueError, match="extension"):
        check_extensions(extensions)
    check_extensions({"a": "b c"})


# -- when keys are fetched -----------------------------------------------------------------------


def test_keys_are_fetched_at_the_start_and_regularly():
    refresh = KeyRefresh(10_000, 100, 1000, 50)
    assert refresh.next_ms == 50
    refresh.begin(50)
    assert refresh.next_ms is None
    refresh.succeed(60, [])
    assert refresh.next_ms == 10_060


def test_pauses_after_failures_double_up_to_a_maximum():
    refresh = KeyRefresh(10_000, 100, 1000, 0)
    pauses = []
    for _ in range(40):
        refresh.begin(0)
        refresh.fail(0)
        pauses.append(refresh.next_ms)
    assert pauses[:5] == [100, 200, 400, 800, 1000]
    assert set(pauses[4:]) == {1000}
    refresh.begin(0)
    refresh.succeed(0, [])
    refresh.begin(0)
    refresh.fail(0)
    assert refresh.next_ms == 100


def test_a_missing_key_is_a_reason_to_fetch_once_a_minute():
    refresh = KeyRefresh(10**9, 100, 1000, 0)
    refresh.begin(0)
    assert not refresh.miss("next", 0)  # they are being fetched
    refresh.succeed(0, [])
    assert refresh.miss("next", 10)
    assert refresh.next_ms == 1000  # at most once a second
    assert not refresh.miss("next", 20)
    refresh.begin(1000)
    refresh.succeed(1000, ["other"])
    assert not refresh.miss("next", 60_009)
    assert refresh.miss("next", 60_010)
    refresh.begin(refresh.next_ms)
    refresh.succeed(60_010, ["next"])
    assert refresh.miss("next", 70_000)  # it was there, and is missing again
    assert not refresh.miss("x" * 1001, 10**6)


def test_failures_and_many_missing_keys_do_not_hurry():
    refresh = KeyRefresh(10**9, 5000, 5000, 0)
    refresh.begin(0)
    refresh.fail(0)
    assert not refresh.miss("next", 0)
    assert refresh.next_ms == 5000
    refresh.begin(5000)
    refresh.succeed(5000, [])
    fetches = 0
    for now_ms in range(10_000, 20_000):
        refresh.miss(f"key {now_ms}", now_ms)
        if refresh.next_ms <= now_ms:
            refresh.begin(now_ms)
            refresh.succeed(now_ms, [])
            fetches += 1
    assert fetches == 10
    assert len(refresh._missing) <= 16
