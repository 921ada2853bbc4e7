"""Our server side of OAUTHBEARER accepts and rejects the tokens that Apache Kafka's does."""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import tokens
from tests.sasl import issuer
from tests.support.run_seed import seeds

from odradek.config.oauth import KeyLocation, SignedTokenSettings, Trust, UnsecuredTokenSettings
from odradek.core.sasl.jwks import parse_keys
from odradek.core.sasl.jwt import SignedTokens
from odradek.core.sasl.mechanism import Rejected
from odradek.core.sasl.oauth_bearer import OAuthBearerServer, Validate
from odradek.core.sasl.unsecured_jwt import UnsecuredTokens

pytestmark = [pytest.mark.cluster, pytest.mark.java]

MARGIN_S = 300
"""The times of tokens are so far from the present, because the program takes a while."""
ABSENT = object()


class Case(NamedTuple):
    """Settings, messages for the server, and what validates tokens on our side."""

    command: tuple[str, ...]
    messages: list[bytes]
    validate: Validate


def answer(validate: Validate, message: bytes) -> str:
    """Return the answer of our server, in the form of Tokens.java."""
    server = OAuthBearerServer(validate)
    try:
        challenge = server.evaluate(message)
    except Rejected as rejected:
        return "invalid" if rejected.message is None else f"rejected {rejected.message}"
    if server.user is None:
        return f"challenge {base64.b64encode(challenge).decode()}"
    return f"user {server.user} {server.token_expires_ms}"


def compare(*cases: Case) -> None:
    commands: list[tuple[str, ...]] = []
    for case in cases:
        commands.append(case.command)
        commands += [("message", base64.b64encode(each).decode()) for each in case.messages]
    try:
        theirs = iter(tokens(commands))
    except Missing as reason:
        pytest.skip(str(reason))
    differences = []
    for case in cases:
        for message in case.messages:
            expected, found = next(theirs), answer(case.validate, message)
            # Java closes the connection after an exception that it does not expect.
            differs = found != expected and not (
                expected.startswith("failed") and not found.startswith("user")
            )
            if differs:
                differences.append(f"{message!r}\n  Java: {expected}\n  ours: {found}")
    assert not differences, "\n".join(differences)


def message(token: str) -> bytes:
    return f"n,,\1auth=Bearer {token}\1\1".encode()


def signed_case(file: Path, keys: str, made: list[str], **changes: Any) -> Case:
    file.write_text(keys)
    location = KeyLocation(f"file://{file}", 1, 1, 1, Trust())
    settings = SignedTokenSettings(location, frozenset(), None, "scope", "sub", 30)
    settings = settings._replace(**changes)
    parsed = SimpleNamespace(keys=parse_keys(keys.encode()), miss=lambda key_id: None)
    validator = SignedTokens(settings, parsed)
    command = (
        "signed",
        location.url,
        ",".join(sorted(settings.audiences)),
        settings.issuer or "-",
        settings.scope_claim,
        settings.subject_claim,
        str(settings.clock_skew_seconds),
    )
    now_ms = int(time.time() * 1000)
    return Case(
        command, [message(each) for each in made], lambda text: validator.validate(text, now_ms)
    )


def random_claims(pick: random.Random, now_s: int, is_signed: bool = True) -> dict[str, Any]:
    """Claims that are mostly right, with some wrong ones.

    In tokens without signatures, Java reads null, booleans and objects as texts; we do not.
    """
    times = [now_s + sign * MARGIN_S * pick.randint(1, 9) for sign in (1, -1)]
    odd: list[Any] = [ABSENT, "", "x", 5, 1.5, [], ["a"], -5, 0, 10**11, "1900000000"]
    if is_signed:
        odd += [None, True, {}]

    def one(usual: Any, rarity: int = 6) -> Any:
        return pick.choice([*odd, *times]) if pick.randrange(rarity) == 0 else usual

    claims = {
        "exp": one(times[0]),
        "iat": one(times[1]),
        "nbf": one(pick.choice([ABSENT, times[1]]), 8),
        "sub": one(pick.choice(["alice", " alice ", "é"])),
        "iss": one(pick.choice(["https://issuer", "other", ABSENT])),
        "aud": one(
            pick.choice(["kafka", ["x", "kafka"], ABSENT, ["other"], "other", ["kafka", 5]])
        ),
        "scope": one(pick.choice(["a b", ["a", "b"], ["a", "a"], ["a", ""], ABSENT])),
        "jti": one(ABSENT, 10),
        "more": pick.choice([ABSENT, {"a": [1, None]}]),
    }
    return {name: value for name, value in claims.items() if value is not ABSENT}


def random_tokens(pick: random.Random, keys: dict[str, issuer.Key]) -> Iterator[str]:
    now_s = int(time.time())
    algorithms = {
        "rsa": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
        "ec": ["ES256"],
        "ec-384": ["ES384"],
        "ec-521": ["ES512"],
        "ed": ["EdDSA"],
        "secret": ["HS256", "HS384", "HS512"],
    }
    for _ in range(300):
        name = pick.choice(list(keys))
        algorithm = pick.choice(algorithms[name])
        header: dict[str, Any] = {"alg": algorithm, "kid": name}
        if pick.randrange(8) == 0:
            header |= pick.choice(
                [
                    {"kid": "rsa"},
                    {"kid": "none"},
                    {"crit": ["x"], "x": 1},
                    {"cty": "JWT"},
                    {"typ": "at+jwt", "nonce": "x", "jku": 5},
                    {"x5t": "abc"},
                    {"kid": ABSENT},
                ]
            )
        header = {each: value for each, value in header.items() if value is not ABSENT}
        made = issuer.signed(keys[name], header, random_claims(pick, now_s))
        kind = pick.randrange(12)
        if kind == 0:
            head, claims, signature = made.split(".")
            made = f"{head}.{issuer.part(random_claims(pick, now_s))}.{signature}"
        if kind == 1:
            made = made.rpartition(".")[0] + pick.choice(["", ".", ".AAAA", ".AAAA.AAAA"])
        if kind == 2:
            other = pick.choice(["none", "HS256", "RS256", "ES256", "ES384", "XX", ABSENT])
            head = {"alg": other, "kid": name} if other is not ABSENT else {"kid": name}
            made = f"{issuer.part(head)}.{made.partition('.')[2]}"
        yield made


@pytest.fixture(scope="module")
def keys() -> dict[str, issuer.Key]:
    return {
        "rsa": issuer.rsa_key(kid="rsa", use="sig", alg="RS256"),
        "ec": issuer.ec_key(kid="ec"),
        "ec-384": issuer.ec_key("P-384", kid="ec-384"),
        "ec-521": issuer.ec_key("P-521", kid="ec-521"),
        "ed": issuer.okp_key(kid="ed"),
        "secret": issuer.secret_key(b"s" * 64, kid="secret"),
    }


def test_tokens_keys_and_messages(keys: dict[str, issuer.Key], tmp_path: Path) -> None:
    """One program answers all, because its compilation takes most of the time."""
    (seed,) = seeds(1)
    pick = random.Random(seed)
    compare(
        *signed_tokens(pick, keys, tmp_path),
        *selections_of_keys(keys, tmp_path),
        *unsecured_tokens(pick),
        messages(),
    )


def signed_tokens(
    pick: random.Random, keys: dict[str, issuer.Key], directory: Path
) -> Iterator[Case]:
    known = issuer.key_set(*keys.values())
    others: dict[str, dict[str, Any]] = {
        "expecting": {"audiences": frozenset(("kafka", "y")), "issuer": "https://issuer"},
        "other-names": {"subject_claim": "iss", "scope_claim": "aud", "clock_skew_seconds": 2000},
    }
    yield signed_case(directory / "plain", known, list(random_tokens(pick, keys)))
    for name, changes in others.items():
        yield signed_case(directory / name, known, list(random_tokens(pick, keys)), **changes)


def selections_of_keys(keys: dict[str, issuer.Key], directory: Path) -> Iterator[Case]:
    now_s = int(time.time())
    claims = {"sub": "alice", "iat": now_s - MARGIN_S, "exp": now_s + MARGIN_S}
    ec, other, small = keys["ec"].jwk, issuer.ec_key().jwk, issuer.rsa_key(bits=1024)
    facts = {name: value for name, value in ec.items() if name != "kid"}
    short = issuer.secret_key(b"s" * 31)
    sets: list[list[Any]] = [
        [facts], [ec], [other, facts], [facts, other], [{**other, "use": "enc"}, facts],
        [{**other, "alg": "ES384"}, facts], [{**other, "key_ops": ["sign"]}, facts],
        [{**facts, "use": "enc"}], [{**facts, "key_ops": ["verify"]}], [{**facts, "alg": "ES384"}],
        [{"kty": "EC"}, {"kty": "new"}, {}, facts], [{**other, "crv": "P-999"}, facts],
        [{**facts, "kid": "a"}, {**other, "kid": "b"}], [], [keys["ec-384"], facts],
        [small], [short], [{**other, "x5t": "b"}, {**facts, "x5t": "a"}],
    ]  # fmt: skip
    made = [
        issuer.signed(keys["ec"], {"alg": "ES256"}, claims),
        issuer.signed(keys["ec"], {"alg": "ES256", "kid": "ec"}, claims),
        issuer.signed(keys["ec"], {"alg": "ES256", "kid": ""}, claims),
        issuer.signed(keys["ec"], {"alg": "ES256", "x5t": "a"}, claims),
        issuer.signed(small, {"alg": "RS256"}, claims),
        issuer.signed(short, {"alg": "HS256"}, claims),
    ]
    for number, each in enumerate(sets):
        yield signed_case(directory / f"{number}", issuer.key_set(*each), made)


def unsecured_tokens(pick: random.Random) -> Iterator[Case]:
    now_s = int(time.time())
    settings = [
        (UnsecuredTokenSettings("sub", "scope", (), 0), {}),
        (
            UnsecuredTokenSettings("iss", "aud", ("kafka", "x"), 600_000),
            {"PrincipalClaimName": "iss", "ScopeClaimName": "aud", "RequiredScope": "kafka x"}
            | {"AllowableClockSkewMs": "600000"},
        ),
    ]
    for each, options in settings:
        texts = []
        for _ in range(200):
            head = pick.choice([{"alg": "none"}] * 6 + [{"alg": "ES256"}, {"alg": "NONE"}, {}])
            texts.append(issuer.unsecured(random_claims(pick, now_s, is_signed=False), head))
        texts += [f"{texts[0]}AAAA", texts[0][:-1], "a..", "..", "a.b.", f"{texts[0]}."]
        validator = UnsecuredTokens(each)
        words = [f"unsecuredValidator{name}={value}" for name, value in options.items()]
        yield Case(
            ("unsecured", *words),
            [message(text) for text in texts],
            lambda text, validator=validator: validator.validate(text, now_s * 1000),  # type: ignore[misc]
        )


def messages() -> Case:
    now_s = int(time.time())
    token = issuer.unsecured({"sub": "alice", "exp": now_s + MARGIN_S}).rstrip()
    texts = [
        "", "\1", "n,,", "n,,\1\1", f"n,,\1auth=Bearer {token}\1", f"n,,\1auth=Bearer {token}\1\1\1",
        f"n,a=alice,\1auth=Bearer {token}\1\1", f"n,a=bob,\1auth=Bearer {token}\1\1",
        f"n,a=,\1auth=Bearer {token}\1\1", f"n,a=a=2Cb,\1auth=Bearer {token}\1\1",
        f"y,,\1auth=Bearer {token}\1\1", f"n,,\1auth=bearer   {token}\1\1",
        f"n,,\1auth=Basic {token}\1\1", f"n,,\1auth=Bearer{token}\1\1", "n,,\1auth=Bearer \1\1",
        f"n,,\1auth=Bearer {token}\1a=b c\1\1", f"n,,\1auth=Bearer {token}\1a1=b\1\1",
        f"n,,\1auth=Bearer {token}\1a=\1\1", f"n,,\1auth=Bearer {token}\1a=é\1\1",
        f"n,,\1a=b\1auth=Bearer {token}\1a=c\1\1", f"n,,\1auth=x\1auth=Bearer {token}\1\1",
        f"n,,\1AUTH=Bearer {token}\1\1", f"n,,\1auth=Bearer {token} \1\1",
        f"n,,\1auth=Bearer {token}=\1\1", "n,,\1auth=Bearer é\1\1",
    ]  # fmt: skip
    validator = UnsecuredTokens(UnsecuredTokenSettings("sub", "scope", (), 0))
    return Case(
        ("unsecured",),
        [each.encode() for each in texts],
        lambda text: validator.validate(text, now_s * 1000),
    )
