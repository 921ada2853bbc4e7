"""Our client's side of SASL, against the server's side, and against servers that cheat."""

import base64
import random

import pytest

from odradek.core.metadata.image import ScramCredential
from odradek.core.sasl.authenticator import Authenticator
from odradek.core.sasl.client import (
    Credential,
    CredentialRefused,
    MechanismNotEnabled,
    SaslFailure,
    SaslNotExpected,
    ServerNotAuthentic,
    authenticate,
)
from odradek.core.sasl.mechanism import Rejected
from odradek.core.sasl.plain import PlainServer
from odradek.core.sasl.scram import ScramServer
from odradek.core.sasl.scram_keys import BY_NAME, keys_of, salted_password
from odradek.model.errors import ErrorCode
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.generated.sasl_handshake_response import SaslHandshakeResponse

LIFETIME_MS = 5000


def server(name, user, password, salt=b"salt" * 4):
    """The server's state machine, which knows one user."""
    if name == "PLAIN":
        make = lambda: PlainServer({user: password})  # noqa: E731
    else:
        mechanism = BY_NAME[name]
        keys = keys_of(mechanism, salted_password(mechanism, password, salt, 4096))
        known = ScramCredential(salt, keys.stored_key, keys.server_key, 4096)
        make = lambda: ScramServer(mechanism, {user: known}.get, "servers-part")  # noqa: E731
    return Authenticator({name: make}, {name: LIFETIME_MS})


def converse(credential, machine, tamper=lambda token: token):
    steps = authenticate(credential, "clients-part")
    request = next(steps)
    try:
        while True:
            if isinstance(request, SaslHandshakeRequest):
                error = machine.handshake(request.mechanism, 1, 0)
                answer = SaslHandshakeResponse(error_code=error, mechanisms=machine.mechanisms)
            else:
                try:
                    found = machine.authenticate(request.auth_bytes, 0)
                    answer = SaslAuthenticateResponse(
                        auth_bytes=tamper(found.token),
                        session_lifetime_ms=found.session_lifetime_ms,
                    )
                except Rejected as rejected:
                    answer = SaslAuthenticateResponse(
                        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                        error_message=rejected.message,
                    )
            request = steps.send(answer)
    except StopIteration as done:
        return done.value


@pytest.mark.parametrize("mechanism", ["PLAIN", *BY_NAME])
@pytest.mark.parametrize("seed", range(5))
def test_any_user_and_password(mechanism, seed):
    chosen = random.Random(seed)
    user, password = ("".join(chosen.choices("az=,09 \"'ü→😀", k=12)) + "x" for _ in range(2))
    if mechanism != "PLAIN":
        user = user.encode("ascii", "ignore").decode()
    machine = server(mechanism, user, password)
    assert converse(Credential(mechanism, user, password), machine) == LIFETIME_MS
    assert machine.user == user
    with pytest.raises(CredentialRefused):
        converse(Credential(mechanism, user, password + "!"), server(mechanism, user, password))
    with pytest.raises(CredentialRefused):
        converse(Credential(mechanism, "a" + user, password), server(mechanism, user, password))


def test_the_password_is_not_shown():
    credential = Credential("PLAIN", "alice", "alice-secret")
    assert "alice-secret" not in repr(credential)
    with pytest.raises(SaslFailure) as failure:
        converse(credential, server("PLAIN", "alice", "other"))
    assert "alice-secret" not in str(failure.value)


def test_a_mechanism_that_is_not_enabled():
    with pytest.raises(MechanismNotEnabled, match="SCRAM-SHA-256 is not enabled; enabled: PLAIN"):
        converse(Credential("SCRAM-SHA-256", "alice", "x"), server("PLAIN", "alice", "x"))


def test_a_listener_without_sasl():
    steps = authenticate(Credential("PLAIN", "alice", "x"), "nonce")
    next(steps)
    with pytest.raises(SaslNotExpected):
        steps.send(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


@pytest.mark.parametrize(
    "tamper",
    [
        lambda token: b"v=" + base64.b64encode(bytes(32)) if token[:2] == b"v=" else token,
        lambda token: b"e=other-error" if token[:2] == b"v=" else token,
        lambda token: b"v=%%%" if token[:2] == b"v=" else token,
        lambda token: token.replace(b"r=clients-part", b"r=another-part"),
        lambda token: token.replace(b"servers-part", b""),
        lambda token: token.replace(b"i=4096", b"i=4095"),
        lambda token: token.replace(b"i=4096", b"i=99999999"),
        lambda token: token.replace(b",s=", b",s=%"),
        lambda token: b"\xff" + token,
    ],
)
def test_a_server_that_does_not_know_the_credential(tamper):
    with pytest.raises(ServerNotAuthentic):
        converse(
            Credential("SCRAM-SHA-256", "alice", "x"),
            server("SCRAM-SHA-256", "alice", "x"),
            tamper,
        )
