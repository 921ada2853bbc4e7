"""The settings for TLS and SASL in the definitions of the connectors, as Kafka's clients define them.

They are here for the answers to validation. What a connector's clients do with settings is in
`odradek.client.security`.
"""

from __future__ import annotations

from typing import Any

from odradek.core.connect.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    Validator,
    between,
    one_of_in_any_case,
)
from odradek.core.connect.errors import ConfigError

_Row = tuple[str, str, Any, str, str]
"""Name, type, default, importance, documentation."""

_SSL: tuple[_Row, ...] = (
    ("ssl.protocol", "STRING", "TLSv1.3", "MEDIUM", "The protocol of a TLS context in Java."),
    ("ssl.provider", "STRING", None, "MEDIUM", "The security provider in Java."),
    ("ssl.cipher.suites", "LIST", [], "LOW", "The cipher suites; by default all."),
    (
        "ssl.enabled.protocols",
        "LIST",
        ["TLSv1.2", "TLSv1.3"],
        "MEDIUM",
        "The versions of TLS that are offered.",
    ),
    ("ssl.keystore.type", "STRING", "JKS", "MEDIUM", "The format of the key store."),
    ("ssl.keystore.location", "STRING", None, "HIGH", "The file of the key store."),
    ("ssl.keystore.password", "PASSWORD", None, "HIGH", "The password of the key store."),
    ("ssl.key.password", "PASSWORD", None, "HIGH", "The password of the private key."),
    ("ssl.keystore.key", "PASSWORD", None, "HIGH", "The private key as PEM."),
    (
        "ssl.keystore.certificate.chain",
        "PASSWORD",
        None,
        "HIGH",
        "The client's certificates as PEM.",
    ),
    ("ssl.truststore.certificates", "PASSWORD", None, "HIGH", "Trusted certificates as PEM."),
    ("ssl.truststore.type", "STRING", "JKS", "MEDIUM", "The format of the trust store."),
    ("ssl.truststore.location", "STRING", None, "HIGH", "The file of the trust store."),
    ("ssl.truststore.password", "PASSWORD", None, "HIGH", "The password of the trust store."),
    ("ssl.keymanager.algorithm", "STRING", "SunX509", "LOW", "The key manager in Java."),
    ("ssl.trustmanager.algorithm", "STRING", "PKIX", "LOW", "The trust manager in Java."),
    (
        "ssl.endpoint.identification.algorithm",
        "STRING",
        "https",
        "LOW",
        "Whether the name of the server is checked: https, or empty for no.",
    ),
    ("ssl.secure.random.implementation", "STRING", None, "LOW", "The source of random in Java."),
    ("ssl.engine.factory.class", "CLASS", None, "LOW", "The class that makes TLS in Java."),
)
_SASL: tuple[_Row, ...] = (
    ("sasl.kerberos.service.name", "STRING", None, "MEDIUM", "The name of the Kerberos service."),
    ("sasl.kerberos.kinit.cmd", "STRING", "/usr/bin/kinit", "LOW", "The command kinit."),
    (
        "sasl.kerberos.ticket.renew.window.factor",
        "DOUBLE",
        0.8,
        "LOW",
        "The part of a ticket's life after which it is renewed.",
    ),
    ("sasl.kerberos.ticket.renew.jitter", "DOUBLE", 0.05, "LOW", "What varies of this time."),
    (
        "sasl.kerberos.min.time.before.relogin",
        "LONG",
        60_000,
        "LOW",
        "The least time in ms between two logins.",
    ),
    (
        "sasl.login.refresh.window.factor",
        "DOUBLE",
        0.8,
        "LOW",
        "The part of a token's life after which it is renewed.",
    ),
    ("sasl.login.refresh.window.jitter", "DOUBLE", 0.05, "LOW", "What varies of this time."),
    (
        "sasl.login.refresh.min.period.seconds",
        "SHORT",
        60,
        "LOW",
        "The least time between two renewals.",
    ),
    (
        "sasl.login.refresh.buffer.seconds",
        "SHORT",
        300,
        "LOW",
        "The time before the end of a token in which it is not renewed.",
    ),
    ("sasl.mechanism", "STRING", "GSSAPI", "MEDIUM", "The SASL mechanism."),
    ("sasl.jaas.config", "PASSWORD", None, "MEDIUM", "The login, as a line of JAAS."),
    (
        "sasl.client.callback.handler.class",
        "CLASS",
        None,
        "MEDIUM",
        "A class of Java for the mechanism.",
    ),
    (
        "sasl.login.callback.handler.class",
        "CLASS",
        None,
        "MEDIUM",
        "A class of Java for the login.",
    ),
    ("sasl.login.class", "CLASS", None, "MEDIUM", "The class of the login in Java."),
    ("sasl.login.connect.timeout.ms", "INT", None, "LOW", "The timeout for a connection."),
    ("sasl.login.read.timeout.ms", "INT", None, "LOW", "The timeout for an answer."),
    ("sasl.login.retry.backoff.max.ms", "LONG", 10_000, "LOW", "The longest pause."),
    ("sasl.login.retry.backoff.ms", "LONG", 100, "LOW", "The first pause before a retry."),
)
_O, _TOKENS = "sasl.oauthbearer.", "org.apache.kafka.common.security.oauthbearer."
_OAUTH: tuple[_Row, ...] = (
    ("jwt.retriever.class", "CLASS", _TOKENS + "DefaultJwtRetriever", "MEDIUM", "Gets tokens."),
    ("jwt.validator.class", "CLASS", _TOKENS + "DefaultJwtValidator", "MEDIUM", "Checks tokens."),
    ("scope", "STRING", None, "MEDIUM", "The scope that is asked for."),
    ("client.credentials.client.id", "STRING", None, "MEDIUM", "The id of the client."),
    ("client.credentials.client.secret", "PASSWORD", None, "MEDIUM", "The client's secret."),
    ("assertion.algorithm", "STRING", "RS256", "MEDIUM", "How assertions are signed."),
    ("assertion.claim.aud", "STRING", None, "MEDIUM", "The claim aud of assertions."),
    ("assertion.claim.exp.seconds", "INT", 300, "LOW", "How long an assertion is valid."),
    ("assertion.claim.iss", "STRING", None, "MEDIUM", "The claim iss of assertions."),
    ("assertion.claim.jti.include", "BOOLEAN", False, "MEDIUM", "Whether there is a jti."),
    ("assertion.claim.nbf.seconds", "INT", 60, "LOW", "How long before it is valid, too."),
    ("assertion.claim.sub", "STRING", None, "MEDIUM", "The claim sub of assertions."),
    ("assertion.file", "STRING", None, "MEDIUM", "A file with an assertion."),
    ("assertion.private.key.file", "STRING", None, "MEDIUM", "The key that signs."),
    ("assertion.private.key.passphrase", "PASSWORD", None, "MEDIUM", "The key's password."),
    ("assertion.template.file", "STRING", None, "MEDIUM", "A file with claims."),
    ("scope.claim.name", "STRING", "scope", "LOW", "The claim with the scope."),
    ("sub.claim.name", "STRING", "sub", "LOW", "The claim with the subject."),
    ("token.endpoint.url", "STRING", None, "MEDIUM", "The URL that gives tokens."),
    ("jwks.endpoint.url", "STRING", None, "MEDIUM", "The URL with the issuer's keys."),
    ("jwks.endpoint.refresh.ms", "LONG", 3_600_000, "LOW", "How often keys are fetched."),
    ("jwks.endpoint.retry.backoff.max.ms", "LONG", 10_000, "LOW", "The longest pause."),
    ("jwks.endpoint.retry.backoff.ms", "LONG", 100, "LOW", "The first pause."),
    ("clock.skew.seconds", "INT", 30, "LOW", "By how much clocks may differ."),
    ("expected.audience", "LIST", [], "LOW", "The audiences that are accepted."),
    ("expected.issuer", "STRING", None, "LOW", "The issuer that is accepted."),
    ("header.urlencode", "BOOLEAN", False, "LOW", "Whether credentials are encoded."),
)


def names(*, may_be_empty: bool = True, words: tuple[str, ...] = ()) -> Validator:
    """Return a validator of lists without empty and repeated values, of these words if they are given."""

    def validate(name: str, value: Any) -> None:
        what = f"Configuration '{name}'"
        if value is None:
            raise ConfigError(f"{what} values must not be null.")
        if not value and not may_be_empty:
            valid = f"[{', '.join(words)}]" if words else "any non-empty value"
            raise ConfigError(f"{what} must not be empty. Valid values include: {valid}")
        if len(set(value)) != len(value):
            raise ConfigError(f"{what} values must not be duplicated.")
        for each in value:
            if not each:
                raise ConfigError(f"{what} values must not be empty.")
            if words and each not in words:
                raise ConfigError.of(name, each, f"String must be one of: {', '.join(words)}")

    return validate


_VALIDATORS: dict[str, Validator] = {
    "ssl.cipher.suites": names(),
    "ssl.enabled.protocols": names(),
    "sasl.login.refresh.window.factor": between(0.5, 1.0),
    "sasl.login.refresh.window.jitter": between(0.0, 0.25),
    "sasl.login.refresh.min.period.seconds": between(0, 900),
    "sasl.login.refresh.buffer.seconds": between(0, 3600),
    _O + "assertion.algorithm": one_of_in_any_case("ES256", "RS256"),
    _O + "assertion.claim.exp.seconds": between(0, 86_400),
    _O + "assertion.claim.nbf.seconds": between(0, 3600),
    _O + "expected.audience": names(),
}


def define_clients(config: ConfigDef) -> ConfigDef:
    """Define the settings for TLS and SASL, and return the definitions."""
    rows = (*_SSL, *_SASL, *((_O + name, *rest) for name, *rest in _OAUTH))
    for name, kind, default, importance, text in rows:
        config.define(
            name,
            ConfigType(kind),
            default,
            Importance(importance),
            text,
            validator=_VALIDATORS.get(name),
        )
    return config


CLIENT_SETTINGS = frozenset(
    (
        "bootstrap.servers",
        "security.protocol",
        *(name for name, *_ in (*_SSL, *_SASL)),
        *(_O + name for name, *_ in _OAUTH),
    )
)
"""The settings that all clients of a cluster have (`MirrorClientConfig.CLIENT_CONFIG_DEF`)."""
