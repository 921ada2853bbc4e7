"""The TLS settings of listeners, and the rules that map certificates to principals."""

from __future__ import annotations

import pytest

from odradek.config.checks import ConfigurationError, Secret
from odradek.config.load import load
from odradek.config.principal_mapping import PrincipalMapping
from odradek.config.tls import Store

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
    assert settings.key == Store("/key.pem", "PKCS12", Secret("tuna"))
    assert settings.trust == Store("/trust.p12", "PKCS12", Secret("salmon"))
    assert "tuna" not in repr(config)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"ssl.keystore.location": ""}, "listener IN needs a key: set listener.name.in.ssl"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type is JKS, but only PEM and PKCS12"),
        ({"ssl.keystore.password": "x"}, "its key is ssl.key.password"),
        ({"listener.name.out.ssl.truststore.password": "x"}, "has no ssl.truststore.password"),
        ({"listener.name.out.ssl.truststore.type": "JKS"}, "ssl.truststore.type is JKS"),
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
        ("RULE:.*/a\\/b\\$1/", "a/b$1"),
        ("RULE:^CN=(Alice)(x)?,.*$/$1$2./", "Alice."),
        ("RULE:^CN=bob.*$/bob/", None),
    ],
)
def test_rules(rules: str, user: str | None) -> None:
    assert PrincipalMapping(rules).user_of(NAME) == user


@pytest.mark.parametrize(
    "rules",
    ["default", "RULE:", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "RULE:a/$1/", "DEFAULTx"],
)
def test_malformed_rules(rules: str) -> None:
    with pytest.raises(ConfigurationError, match="Invalid value"):
        PrincipalMapping(rules)
