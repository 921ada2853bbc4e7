"""The TLS settings of listeners, and the rules that map certificates to principals."""

from __future__ import annotations

import pytest

from odradek.config.checks import ConfigurationError
from odradek.config.load import load
from odradek.config.principal_mapping import PrincipalMapping

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
    assert (out.key_file, out.trust_file) == ("/out.pem", "/trust.pem")
    assert (out.client_auth, out.versions) == ("required", ("TLSv1.3",))
    assert out.key_password.value == "swordfish"
    assert (inner.key_file, inner.trust_file) == ("/key.pem", None)
    assert (inner.client_auth, inner.versions) == ("none", ("TLSv1.2", "TLSv1.3"))
    assert "swordfish" not in repr(config)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"ssl.keystore.location": ""}, "listener IN needs a key: set listener.name.in.ssl"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type is JKS, but only PEM"),
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
