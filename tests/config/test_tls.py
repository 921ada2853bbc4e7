"""The TLS settings of listeners, and the rules that map certificates to principals."""

from __future__ import annotations

import pytest

from odradek.config.checks import ConfigurationError, Secret
from odradek.config.load import load
from odradek.config.principal_mapping import PrincipalMapping
from odradek.config.tls import Store
from odradek.model.principal import NoUser

SETTINGS = {
    "listeners": "PLAINTEXT://:9092,OUT://:9093,IN://:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SSL,IN:SSL",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/key.pem",
    "listener.name.out.ssl.keystore.location": "/out.pem",
    "listener.name.out.ssl.key.password": "swordfish",
    "listener.name.out.ssl.truststore.type": "PEM",
    "listener.name.out.ssl.truststore.location": "/trust.pem",
    "listener.name.out.ssl.client.auth": "required",
    "listener.name.out.ssl.enabled.protocols": "TLSv1.3",
}


def test_the_settings_of_each_listener() -> None:
    config, warnings = load({}, SETTINGS)
    assert warnings == ()
    out, inner = config.tls_by_listener["OUT"], config.tls_by_listener["IN"]
    assert out.key == Store("/out.pem", "PEM", Secret("swordfish"))
    assert out.trust == Store("/trust.pem", "PEM", Secret(""))
    assert (out.client_auth, out.versions) == ("required", ("TLSv1.3",))
    assert (inner.key, inner.trust) == (Store("/key.pem", "PEM", Secret("")), None)
    assert (inner.client_auth, inner.versions) == ("none", ("TLSv1.2", "TLSv1.3"))
    assert "swordfish" not in repr(config)


def test_pkcs12() -> None:
    """The password of a PKCS#12 file is also that of its key."""
    changes = {
        "listener.name.in.ssl.keystore.type": "PKCS12",
        "listener.name.in.ssl.keystore.password": "tuna",
        "listener.name.in.ssl.key.password": "not used",
        "listener.name.in.ssl.truststore.type": "pkcs12",
        "listener.name.in.ssl.truststore.location": "/trust.p12",
        "listener.name.in.ssl.truststore.password": "salmon",
    }
    config, warnings = load({}, {**SETTINGS, **changes})
    assert warnings == ()
    settings = config.tls_by_listener["IN"]
    inner = Secret("not used")
    assert settings.key == Store("/key.pem", "PKCS12", Secret("tuna"), key_password=inner)
    assert settings.trust == Store("/trust.p12", "PKCS12", Secret("salmon"))
    assert "tuna" not in repr(config)


IN = "listener.name.in.ssl.keystore"
TEXT = {f"{IN}.key": "the key", f"{IN}.certificate.chain": "the chain"}


def test_text_in_the_settings() -> None:
    changes = {
        **TEXT,
        f"{IN}.location": "",
        "listener.name.in.ssl.key.password": "tuna",
        "listener.name.in.ssl.truststore.type": "PEM",
        "listener.name.in.ssl.truststore.certificates": "an authority",
    }
    config, warnings = load({}, {**SETTINGS, **changes})
    assert warnings == ()
    settings = config.tls_by_listener["IN"]
    assert settings.key == Store("", "PEM", Secret("tuna"), Secret("the key\nthe chain"))
    assert settings.trust == Store("", "PEM", Secret(""), Secret("an authority"))
    assert "the key" not in repr(config)


def test_client_certificates_with_sasl() -> None:
    """`ssl.client.auth` needs the prefix of the listener then (KIP-684)."""
    changes = {
        "listeners": "OUT://:9093,IN://:9094",
        "listener.security.protocol.map": "OUT:SASL_SSL,IN:SASL_SSL",
        "inter.broker.listener.name": "OUT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.client.auth": "required",
    }
    config, _ = load({}, {**SETTINGS, **changes})
    found = {name: each.client_auth for name, each in config.tls_by_listener.items()}
    assert found == {"OUT": "required", "IN": "none"}


def test_the_default_type() -> None:
    """It opens PKCS#12 files, with the password of the store."""
    changes = {f"{IN}.type": "JKS", f"{IN}.password": "tuna"}
    config, _ = load({}, {**SETTINGS, **changes})
    assert config.tls_by_listener["IN"].key == Store("/key.pem", "JKS", Secret("tuna"))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"ssl.keystore.location": ""}, "listener IN needs a key: set listener.name.in.ssl"),
        ({"ssl.keystore.type": "BKS"}, "ssl.keystore.type is BKS, but only PEM, PKCS12 and"),
        ({"ssl.keystore.password": "x"}, "its key is ssl.key.password"),
        ({"listener.name.out.ssl.truststore.password": "x"}, "has no ssl.truststore.password"),
        ({"listener.name.out.ssl.truststore.type": "BKS"}, "ssl.truststore.type is BKS"),
        ({f"{IN}.key": "k"}, "ssl.keystore.key is set, but ssl.keystore.certificate.chain is not"),
        ({f"{IN}.certificate.chain": "c"}, "chain is set, but ssl.keystore.key is not"),
        (
            TEXT,
            "ssl.keystore.key needs .*PEM without ssl.keystore.location, but .*location is also set",
        ),
        (
            {**TEXT, f"{IN}.location": "", f"{IN}.type": "PKCS12"},
            "ssl.keystore.key needs .* but ssl.keystore.type is PKCS12",
        ),
        (
            {"listener.name.out.ssl.truststore.certificates": "c"},
            "ssl.truststore.certificates needs .* but ssl.truststore.location is also set",
        ),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "may have TLSv1.2 and TLSv1.3"),
        ({"ssl.client.auth": "required"}, "ssl.truststore.location must have the issuers"),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "the rule at 1 is malformed"),
    ],
)
def test_settings_that_cannot_be_used(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        load({}, {**SETTINGS, **changes})


NAME = "CN=Alice,OU=Sales,O=Example Inc.,C=US"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),OU=.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", "ALICE@SALES"),
        ("RULE:^CN=(.*?)$/$1/", "Alice,OU=Sales,O=Example Inc.,C=US"),
        ("RULE:^CN=bob.*$/bob/, RULE:^.*O=(\\w+).*$/$1/L,DEFAULT", "example"),
        ("RULE:^CN=bob.*$/bob/,\nDEFAULT", NAME),
        ("RULE:.+/a\\/b\\$1/", "a/b$1"),
        ("RULE:^CN=(Alice)(x)?,.*$/$1$2./", "Alice."),
        ("RULE:^CN=bob.*$/bob/", None),
        ("RULE:.*/x/", "xx"),
        ("RULE:(.*)/u-$1/", f"u-{NAME}u-"),
        ("RULE:CN=(\\w*?),.*/$1-u/", "Alice-u"),
        ("RULE:^CN=(Alice),.*$/$1$2/", "Alice$2"),
        (",, RULE:^CN=bob.*$/bob/, ,DEFAULT", NAME),
    ],
)
def test_rules(rules: str, user: str | None) -> None:
    mapping = PrincipalMapping(rules)
    if user is None:
        with pytest.raises(NoUser, match="no rule of ssl"):
            mapping.user_of(NAME)
    else:
        assert mapping.user_of(NAME) == user


@pytest.mark.parametrize(
    "rules",
    [
        *("default", "RULE:", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "RULE:a/$1/"),
        *("DEFAULTx", "RULE:^CN=([^,]{,3}).*$/$1/", "RULE:^CN=(.*?),.*$/user:$1$/"),
        *("RULE:(a)/$4-$5/", "RULE:(a)/\\$9/", "RULE:(?<n>a)/${m}/", "RULE:(?c)a/b/"),
    ],
)
def test_malformed_rules(rules: str) -> None:
    with pytest.raises(ConfigurationError, match="Invalid value"):
        PrincipalMapping(rules)


@pytest.mark.parametrize(
    ("rule", "name", "user"),
    [
        ("RULE:^.*CN=([a-z&&[^k]]+).*$/$1/,DEFAULT", "CN=sr,OU=TEST,C=US", "sr"),
        (r"RULE:^.*CN=(\p{Alpha}+).*$/$1/", "CN=alice2,OU=b", "alice"),
        ("RULE:^.*CN=(?<name>[^,]+).*$/${name}/", "CN=alice2,OU=b", "alice2"),
        (r"RULE:^\QCN=\E([^,]+).*$/$1/", "CN=alice2,OU=b", "alice2"),
        (r"RULE:^.*CN=(\p{IsCyrillic}+).*$/$1/U", "CN=Людина,C=UA", "ЛЮДИНА"),
        (r"RULE:^.*OU=(\w+).*$/$1/,DEFAULT", "CN=x,OU=Людина", "CN=x,OU=Людина"),
    ],
)
def test_patterns_are_those_of_java(rule: str, name: str, user: str) -> None:
    assert PrincipalMapping(rule).user_of(name) == user


def test_a_match_that_takes_too_long_gives_no_user() -> None:
    mapping = PrincipalMapping(r"RULE:(?:(a)|a\1?)+b/$1/,DEFAULT")
    assert mapping.user_of("CN=a") == "CN=a"
    with pytest.raises(NoUser, match="does not decide: the match takes more than 200000 steps"):
        mapping.user_of("a" * 60)
