"""Which access tokens are accepted: signatures, keys, times, issuers, audiences, users, scopes."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.oauth import KeyLocation, SignedTokenSettings, Trust, UnsecuredTokenSettings
from odradek.core.sasl.jwks import KeySet, MalformedKeys, parse_keys
from odradek.core.sasl.jwt import SignedTokens
from odradek.core.sasl.tokens import InvalidToken
from odradek.core.sasl.unsecured_jwt import UnsecuredTokens

from . import issuer

NOW_S = 1_800_000_000
CLAIMS = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 600}
LOCATION = KeyLocation("http://x/keys", 1000, 1, 1, Trust())
SETTINGS = SignedTokenSettings(LOCATION, frozenset(), None, "scope", "sub", 30)
EXPECTING = SETTINGS._replace(audiences=frozenset(("kafka", "other")), issuer="https://issuer")


@pytest.fixture(scope="module")
def keys():
    return {
        "rsa": issuer.rsa_key(kid="rsa", use="sig"),
        "ec": issuer.ec_key(kid="ec"),
        "ec-384": issuer.ec_key("P-384", kid="ec-384"),
        "ed": issuer.okp_key(kid="ed"),
        "secret": issuer.secret_key(b"s" * 64, kid="secret"),
    }


@pytest.fixture(scope="module")
def key_set(keys):
    return parse_keys(issuer.key_set(*keys.values()).encode())


def validate(token, key_set, settings=SETTINGS, now_s=NOW_S, missing=None):
    keys = SimpleNamespace(keys=key_set, miss=([] if missing is None else missing).append)
    return SignedTokens(settings, keys).validate(token, now_s * 1000)


def refused(token, key_set, reason=None, **options):
    with pytest.raises(InvalidToken, match=reason) as problem:
        validate(token, key_set, **options)
    assert token not in str(problem.value)


def token(keys, name="ec", alg="ES256", header=(), **claims):
    wanted = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not ...}
    return issuer.signed(keys[name], {"alg": alg, "kid": name, **dict(header)}, wanted)


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        *(("rsa", kind + size) for kind in ("RS", "PS") for size in ("256", "384", "512")),
        ("ec", "ES256"),
        ("ec-384", "ES384"),
        ("ed", "EdDSA"),
        *(("secret", f"HS{size}") for size in ("256", "384", "512")),
    ],
)
def test_algorithms(keys, key_set, name, algorithm):
    right = token(keys, name, algorithm)
    assert validate(right, key_set) == ("alice", (NOW_S + 600) * 1000)
    head, claims, signature = right.split(".")
    other = issuer.part({**CLAIMS, "sub": "admin"})
    refused(f"{head}.{other}.{signature}", key_set, "the signature is wrong")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    refused(f"{head}.{claims}.{flipped}", key_set, "the signature is wrong")


def test_no_algorithm_and_another_one(keys, key_set):
    for header in ({"alg": "none"}, {"alg": "none", "kid": "rsa"}, {"alg": "None"}, {"kid": "rsa"}):
        for signature in ("", "AAAA"):
            forged = issuer.unsecured(CLAIMS, header) + signature
            refused(forged, key_set, "the algorithm of the token is not supported")
    for algorithm in (None, 5, ["ES256"], {}):
        forged = issuer.unsecured(CLAIMS, {"alg": algorithm}) + "AAAA"
        refused(forged, key_set, "algorithm|claim alg")


def test_a_public_key_is_no_secret(keys, key_set):
    """The key of an HMAC must be a secret: not the text of a public key in any form."""
    rsa = keys["rsa"]
    public = json.dumps(rsa.jwk).encode()
    for secret in (rsa.pem, rsa.pem.strip(), public, rsa.jwk["n"].encode()):
        forger = {"rsa": issuer.secret_key(secret)}
        for algorithm in ("HS256", "HS512"):
            refused(token(forger, "rsa", algorithm), key_set, "there is no key")
            without_id = token(forger, "rsa", algorithm, {"kid": None})
            only_rsa = parse_keys(issuer.key_set(rsa).encode())
            refused(without_id, only_rsa, "there is no key")


def test_the_algorithm_must_fit_the_key(keys, key_set):
    wrong = issuer.signed(keys["ec-384"], {"alg": "ES256", "kid": "ec-384"}, CLAIMS)
    refused(wrong, key_set, "does not fit")
    wrong = issuer.signed(keys["ec"], {"alg": "ES256", "kid": "rsa"}, CLAIMS)
    refused(wrong, key_set, "there is no key")
    short = issuer.secret_key(b"s" * 31, kid="secret")
    refused(
        token({"secret": short}, "secret", "HS256"),
        parse_keys(issuer.key_set(short).encode()),
        "too short",
    )
    small = issuer.rsa_key(bits=1024, kid="rsa")
    refused(
        token({"rsa": small}, "rsa", "RS256"),
        parse_keys(issuer.key_set(small).encode()),
        "cannot be used",
    )


def test_which_key_is_selected(keys):
    ec = keys["ec"]
    other = issuer.ec_key(kid="ec")
    facts = {name: value for name, value in ec.jwk.items() if name != "kid"}
    plain = issuer.signed(ec, {"alg": "ES256"}, CLAIMS)
    named = token(keys)

    def set_of(*jwks):
        return parse_keys(issuer.key_set(*jwks).encode())

    for accepted in (
        set_of(facts),
        set_of({**facts, "kid": "x", "use": "sig", "key_ops": ["verify"]}),
        set_of({**other.jwk, "alg": "ES384"}, {**facts, "alg": "ES256"}),
        set_of({**other.jwk, "use": "enc"}, facts),
        set_of({**other.jwk, "use": "enc"}, {"kty": "new"}, {}, keys["ed"], facts),
    ):
        assert validate(plain, accepted).user == "alice"
    for left in (
        set_of(),
        set_of({**facts, "use": "enc"}),
        set_of({**facts, "key_ops": ["sign"]}),
        set_of({**facts, "key_ops": "verify"}),
    ):
        refused(plain, left, "there is no key")
    refused(named, set_of(facts), "there is no key")  # the key has no id
    refused(named, set_of({**facts, "kid": 5}), "there is no key")
    refused(named, set_of(other), "the signature is wrong")
    refused(plain, set_of(other, facts), "the signature is wrong")  # the first one is used
    marked = token(keys, header={"x5t#S256": "b"})
    pair = set_of({**other.jwk, "x5t#S256": "a"}, {**ec.jwk, "x5t#S256": "b"})
    assert validate(marked, pair).user == "alice"


def test_a_missing_key_is_reported(keys, key_set):
    missing = []
    refused(token(keys, header={"kid": "next"}), key_set, "there is no key", missing=missing)
    assert missing == ["next"]
    refused(token(keys, header={"kid": None}), KeySet(), "there is no key", missing=missing)
    refused(issuer.unsecured(CLAIMS), key_set, "algorithm", missing=missing)
    assert missing == ["next"]


@pytest.mark.parametrize(
    ("claims", "now_s", "problem"),
    [
        ({}, NOW_S + 629, None),
        ({}, NOW_S + 630, "expired"),
        ({}, 0, None),  # a token from the future is accepted, unless it has nbf
        ({"nbf": NOW_S}, NOW_S - 30, None),
        ({"nbf": NOW_S}, NOW_S - 31, "not valid yet"),
        ({"nbf": NOW_S + 601}, NOW_S, "expires before"),
        ({"iat": NOW_S + 601}, NOW_S, "expires before"),
        ({"exp": ...}, NOW_S, "missing"),
        ({"iat": ...}, NOW_S, "missing"),
        ({"iat": None}, NOW_S, "missing"),
        ({"exp": str(NOW_S + 600)}, NOW_S, "not a number"),
        ({"exp": True}, NOW_S, "not a number"),
        ({"exp": [NOW_S + 600]}, NOW_S, "not a number"),
        ({"exp": 1e300}, NOW_S, "out of range"),
        ({"exp": 10**30}, NOW_S, "out of range"),
        ({"exp": NOW_S + 600.9}, NOW_S + 629, None),
        ({"exp": NOW_S + 600.9}, NOW_S + 630, "expired"),
        ({"exp": -1, "iat": -2}, 0, "expired"),
        ({"iat": -1}, NOW_S, "negative"),
    ],
)
def test_times(keys, key_set, claims, now_s, problem):
    made = token(keys, **claims)
    if problem is None:
        assert validate(made, key_set, now_s=now_s).user == "alice"
    else:
        refused(made, key_set, problem, now_s=now_s)


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"iss": "https://issuer", "aud": "kafka"}, None),
        ({"iss": "https://issuer", "aud": ["x", "other"]}, None),
        ({"iss": "https://issuer"}, "audience is missing"),
        ({"iss": "https://issuer", "aud": "KAFKA"}, "audience is not"),
        ({"iss": "https://issuer", "aud": []}, "audience is not"),
        ({"iss": "https://issuer", "aud": ["kafka", 5]}, "claim aud"),
        ({"iss": "https://issuer", "aud": {"kafka": 1}}, "claim aud"),
        ({"aud": "kafka"}, "issuer is not"),
        ({"iss": "https://issuer/", "aud": "kafka"}, "issuer is not"),
        ({"iss": ["https://issuer"], "aud": "kafka"}, "claim iss"),
    ],
)
def test_issuer_and_audience(keys, key_set, claims, problem):
    made = token(keys, **claims)
    if problem is None:
        assert validate(made, key_set, settings=EXPECTING).user == "alice"
    else:
        refused(made, key_set, problem, settings=EXPECTING)


def test_a_token_for_somebody_else(keys, key_set):
    """As in Kafka, a token with an audience needs sasl.oauthbearer.expected.audience."""
    refused(token(keys, aud="kafka"), key_set, "audience is not in")
    lenient = SETTINGS._replace(allows_any_audience=True)
    for audience in ("kafka", ["a", "b"], []):
        assert validate(token(keys, aud=audience), key_set, lenient)
    refused(token(keys, aud=5), key_set, "claim aud is not a text", settings=lenient)
    assert validate(token(keys, iss="anybody"), key_set).user == "alice"


@pytest.mark.parametrize("sub", [..., None, "", "  ", 5, ["alice"], {"a": 1}, True])
def test_users_that_are_not_accepted(keys, key_set, sub):
    refused(token(keys, sub=sub), key_set, "claim sub")


def test_claims_with_other_names(keys, key_set):
    settings = SETTINGS._replace(subject_claim="client", scope_claim="scp")
    made = token(keys, sub=..., client=" app ", scp="a", scope=5)
    assert validate(made, key_set, settings=settings).user == "app"


@pytest.mark.parametrize(
    ("scope", "is_accepted"),
    [
        *(("a b", True), (["a", "b"], True), ([], True), (5, True), (None, True), ("", False)),
        *((each, False) for each in (" ", ["a", "a "], ["a", ""], ["a", None], ["a", 5])),
    ],
)
def test_scopes(keys, key_set, scope, is_accepted):
    if is_accepted:
        assert validate(token(keys, scope=scope), key_set).user == "alice"
    else:
        refused(token(keys, scope=scope), key_set, "claim scope")


@pytest.mark.parametrize(
    "change",
    [
        {"crit": ["exp"], "exp": 1},
        {"crit": []},
        {"b64": False, "crit": ["b64"]},
        {"cty": "JWT"},
        {"kid": 5},
        {"x": "y" * 20_000},
    ],
)
def test_headers_that_are_not_accepted(keys, key_set, change):
    refused(token(keys, header=change), key_set)


@pytest.mark.parametrize(
    "claims",
    [
        *(b"", b"x", b"5", b"[]", b'"text"', b"null", b'{"sub":NaN}', b"\xff", b"[" * 100_000),
        b'{"sub":"alice","sub":"admin","iat":1,"exp":9000000000}',
        b'{"exp":' + b"9" * 9000 + b"}",
    ],
)
def test_claims_that_are_not_a_json_object(keys, key_set, claims):
    refused(issuer.signed(keys["ec"], {"alg": "ES256", "kid": "ec"}, claims), key_set, "JSON|parts")


@pytest.mark.parametrize("text", ["", ".", "..", "...", "a.b", "a.b.c.d", "a.b.c", "e30.e30.", "é"])
def test_texts_that_are_no_tokens(key_set, text):
    with pytest.raises(InvalidToken):
        validate(text, key_set)


@given(st.text(alphabet='eyJ.{}":ab_-=A0', max_size=60))
def test_random_texts(text):
    with pytest.raises(InvalidToken):
        validate(text, KeySet())
    with pytest.raises(InvalidToken):
        UnsecuredTokens(UnsecuredTokenSettings("sub", "scope", (), 0)).validate(text, 0)


@pytest.mark.parametrize("text", [b"", b"x", b"[]", b"{}", b'{"keys":{}}', b"[" * 100_000])
def test_documents_that_are_no_keys(text):
    with pytest.raises(MalformedKeys):
        parse_keys(text)


def test_keys_that_cannot_be_used():
    keys = [
        {"kty": "RSA", "n": "!!", "e": "AQAB"},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        {"kty": "RSA", "n": "A" * 400, "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": issuer.encoded(b"x" * 32)},
        {"kty": "oct", "k": ""},
        {"kty": ["RSA"]},
        {},
        5,
    ]
    text = json.dumps({"keys": keys}).encode()
    parsed = parse_keys(text)
    assert len(parsed) < len(keys)
    for algorithm in ("RS256", "ES256", "EdDSA", "HS256"):
        forged = issuer.unsecured(CLAIMS, {"alg": algorithm}) + "AAAA"
        refused(forged, parsed, "no key|cannot be used|does not fit")
    with pytest.raises(MalformedKeys, match="1001 keys"):
        parse_keys(issuer.key_set(*[{}] * 1001).encode())


# -- tokens without signatures -------------------------------------------------------------------


def test_unsecured_tokens():
    settings = UnsecuredTokenSettings("sub", "scope", ("a", "b"), 1000)

    def check(claims, now_s=NOW_S, header=None, signature="", settings=settings):
        made = issuer.unsecured(claims, header) + signature
        return UnsecuredTokens(settings).validate(made, now_s * 1000)

    claims = {"sub": "alice", "exp": NOW_S + 0.5, "scope": ["b", " a "]}
    assert check(claims) == ("alice", NOW_S * 1000 + 500)
    assert check({**claims, "iat": NOW_S}, NOW_S + 1).user == "alice"
    for wrong, problem in (
        ({**claims, "exp": None}, "exp is missing"),
        ({**claims, "exp": NOW_S - 1}, "expired"),
        ({**claims, "exp": "5"}, "not a number"),
        ({**claims, "iat": NOW_S + 1.1, "exp": NOW_S + 9}, "issued in the future"),
        ({**claims, "iat": NOW_S + 0.5}, "expires before"),
        ({**claims, "sub": " "}, "claim sub"),
        ({**claims, "scope": 5}, "claim scope"),
    ):
        with pytest.raises(InvalidToken, match=problem):
            check(wrong)
    with pytest.raises(InvalidToken, match="required scope") as problem:
        check({**claims, "scope": "a"})
    assert problem.value.missing_scope == "[a, b]"
    for header, signature in (({"alg": "ES256"}, ""), ({"alg": "none"}, "AAAA"), ({"a": 1}, "")):
        with pytest.raises(InvalidToken, match="algorithm none"):
            check(claims, header=header, signature=signature)
