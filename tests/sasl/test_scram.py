"""The server's side of SCRAM, with the examples of RFC 5802 and RFC 7677."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.config.checks import Secret
from odradek.core.metadata.image import ScramCredential
from odradek.core.sasl.delegation_tokens import (
    TokenCredential,
    token_credential,
    token_hmac,
    token_password,
)
from odradek.core.sasl.mechanism import Rejected
from odradek.core.sasl.scram import ScramServer
from odradek.core.sasl.scram_keys import (
    BY_NAME,
    SCRAM_SHA_256,
    ScramMechanism,
    keys_of,
    salted_password,
)

from .client import ScramClient

SHA_1 = ScramMechanism(0, "SCRAM-SHA-1", "sha1")
EXAMPLES = {
    "RFC 5802": (
        SHA_1,
        "QSXCR+Q6sek8bf92",
        "3rfcNHYJY1ZVvWVs7j",
        b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    "RFC 7677": (
        SCRAM_SHA_256,
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}


def credential(mechanism, password, salt=b"salt", iterations=4096):
    salted = salted_password(mechanism, password, salt, iterations)
    return ScramCredential(salt, *keys_of(mechanism, salted), iterations)


def server(mechanism=SCRAM_SHA_256, nonce="1234", **users):
    return ScramServer(mechanism, users.get, nonce)


ALICE = credential(SCRAM_SHA_256, "secret")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples(name):
    mechanism, salt, nonce, first, server_first, final, server_final = EXAMPLES[name]
    user = credential(mechanism, "pencil", base64.b64decode(salt))
    exchange = server(mechanism, nonce, user=user)
    assert exchange.evaluate(first) == server_first
    assert exchange.user is None
    assert exchange.evaluate(final) == server_final
    assert exchange.user == "user"


@pytest.mark.parametrize("name", BY_NAME)
@settings(max_examples=5, deadline=None)
@given(user=st.text("ab=, 7~", min_size=1), right=st.booleans())
def test_any_user_with_the_right_password_and_nobody_with_a_wrong_one(name, user, right):
    mechanism = BY_NAME[name]
    exchange = ScramServer(mechanism, {user: credential(mechanism, "secret")}.get, "1234")
    client = ScramClient(mechanism.hash_name, user, "secret" if right else "Secret")
    final = client.final(exchange.evaluate(client.first()))
    if right:
        client.verify(exchange.evaluate(final))
        assert exchange.user == user
    else:
        with pytest.raises(Rejected):
            exchange.evaluate(final)
        assert exchange.user is None


def test_an_authorization_id_and_extensions():
    exchange = server(alice=ALICE)
    client = ScramClient("sha256", "alice", "secret", header="n,a=alice,", extensions=",x=y,z=1")
    client.verify(exchange.evaluate(client.final(exchange.evaluate(client.first()))))
    assert exchange.user == "alice"


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=ali=ce,r=abc",
        b"n,,r=abc,n=alice",
        b"n,,n=alice,r=a\xc3\xa9",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,m=must,n=alice,r=abc",
        b"n,,n=alice,r=abc,tokenauth=true",
        b"n,,n=bob,r=abc",
        b"n,,n=weak,r=abc",
        b"\xff\xfe",
    ],
)
def test_first_messages_that_are_rejected_without_a_reason(first):
    exchange = server(alice=ALICE, weak=ALICE._replace(iterations=4095))
    with pytest.raises(Rejected) as rejected:
        exchange.evaluate(first)
    assert rejected.value.message is None


@pytest.mark.parametrize("name", BY_NAME)
def test_a_delegation_token(name):
    """The user is the token's owner. The token's id is the name of a user only with `tokenauth`."""
    mechanism = BY_NAME[name]
    mac = token_hmac(Secret("secret"), "the-id")
    token = TokenCredential(token_credential(mechanism, mac, b"salt"), "bob", 77)
    users = {"the-id": credential(mechanism, "password")}

    def log_in(user, password, extensions):
        exchange = ScramServer(mechanism, users.get, "1234", {"the-id": token}.get)
        client = ScramClient(mechanism.hash_name, user, password, extensions=extensions)
        client.verify(exchange.evaluate(client.final(exchange.evaluate(client.first()))))
        return exchange.user, exchange.token_expires_ms

    password = token_password(mac)
    for extensions in (",tokenauth=true", ",a=b,tokenauth=TRUE", ",tokenauth=no,tokenauth=true"):
        assert log_in("the-id", password, extensions) == ("bob", 77)
    for extensions in ("", ",tokenauth=false", ",TOKENAUTH=true"):
        assert log_in("the-id", "password", extensions) == ("the-id", None)
    for user, wrong, extensions in (
        ("the-id", password, ""),
        ("the-id", "password", ",tokenauth=true"),
        ("bob", password, ",tokenauth=true"),
    ):
        with pytest.raises(Rejected) as rejected:
            log_in(user, wrong, extensions)
        assert rejected.value.message is None


def test_another_authorization_id_is_rejected_with_a_reason():
    with pytest.raises(Rejected, match="authorization id that is different"):
        server(alice=ALICE).evaluate(b"n,a=bob,n=alice,r=abc")


@pytest.mark.parametrize(
    "change",
    [
        lambda final: b"",
        lambda final: final.replace(b"r=abcdefgh1234", b"r=abcdefgh1235"),
        lambda final: final.replace(b"p=", b"p=A"),
        lambda final: final[: final.index(b"p=")] + b"p=",
        lambda final: final[: final.index(b"p=")] + b"p=AAAA",
        lambda final: final.replace(b"c=biws", b"c=biw="),
        lambda final: b"c=biws," + final,
    ],
)
def test_final_messages_that_are_rejected(change):
    exchange = server(alice=ALICE)
    client = ScramClient("sha256", "alice", "secret")
    final = client.final(exchange.evaluate(client.first()))
    with pytest.raises(Rejected):
        exchange.evaluate(change(final))
    assert exchange.user is None
