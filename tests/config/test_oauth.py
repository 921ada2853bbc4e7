"""The settings of OAUTHBEARER of each listener."""

import importlib.machinery
import sys

import pytest

from odradek.config.checks import ConfigurationError
from odradek.config.layers import dynamic_problem
from odradek.config.load import load
from odradek.config.oauth import SignedTokenSettings, UnsecuredTokenSettings

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
MODULE = f"{PACKAGE}OAuthBearerLoginModule"
UNSECURED = f"{PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
OUT = "listener.name.out.oauthbearer.sasl."
SETTINGS = {
    "listeners": "PLAINTEXT://:9092,OUT://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer:8443/keys?a=b",
    "sasl.oauthbearer.allow.unverified.audience": "true",
    "sasl.oauthbearer.allow.unverified.issuer": "true",
}


def tokens(**changes):
    config, warnings = load({}, {**SETTINGS, **changes})
    assert warnings == ()
    return config.sasl_by_listener["OUT"].tokens


def test_defaults():
    found = tokens()
    assert isinstance(found, SignedTokenSettings)
    assert (found.keys.url, found.keys.refresh_ms) == ("https://issuer:8443/keys?a=b", 3_600_000)
    assert (found.keys.retry_backoff_ms, found.keys.retry_backoff_max_ms) == (100, 10_000)
    assert (found.audiences, found.issuer, found.clock_skew_seconds) == (frozenset(), None, 30)
    assert (found.scope_claim, found.subject_claim) == ("scope", "sub")
    assert found.allows_any_audience


@pytest.mark.parametrize("name", ["audience", "issuer"])
def test_tokens_for_others_are_accepted_only_if_this_is_allowed(name):
    expected, allowed = (
        f"sasl.oauthbearer.{each}.{name}" for each in ("expected", "allow.unverified")
    )
    with pytest.raises(ConfigurationError, match=rf"OUT: {expected} is not set.* {allowed}=true"):
        tokens(**{allowed: "false"})
    found = tokens(**{allowed: "false", f"listener.name.out.{expected}": "kafka"})
    assert found.allows_any_audience == (name == "issuer")
    found = tokens(**{allowed: "false", f"{OUT}oauthbearer.allow.unverified.{name}": "true"})
    assert (found.audiences, found.issuer) == (frozenset(), None)


def test_the_longest_prefix_applies():
    name = "sasl.oauthbearer.expected.audience"
    changes = {
        name: "a",
        f"listener.name.out.{name}": "b,c",
        f"{OUT}server.callback.handler.class": f"{PACKAGE}OAuthBearerValidatorCallbackHandler",
        f"{OUT}oauthbearer.expected.issuer": "me",
        "sasl.oauthbearer.expected.issuer": "you",
        f"{OUT}oauthbearer.sub.claim.name": "client",
        f"{OUT}oauthbearer.clock.skew.seconds": "5",
        f"{OUT}jaas.config": f'{MODULE} required ssl.truststore.location="ca.pem" '
        'ssl.truststore.password="hush" ssl.truststore.type="PKCS12";',
    }
    found = tokens(**changes)
    assert found.audiences == {"b", "c"}
    assert (found.issuer, found.subject_claim, found.clock_skew_seconds) == ("me", "client", 5)
    trust = found.keys.trust
    assert (trust.file, trust.type, trust.password.value) == ("ca.pem", "PKCS12", "hush")
    assert "hush" not in repr(found)
    assert tokens(**{**changes, f"{OUT}{name.removeprefix('sasl.')}": "d"}).audiences == {"d"}


def test_tokens_without_signatures_only_if_this_is_asked_for():
    url = {"sasl.oauthbearer.jwks.endpoint.url": ""}
    by_class = tokens(**{f"{OUT}server.callback.handler.class": UNSECURED})
    assert by_class == UnsecuredTokenSettings("sub", "scope", (), 0)
    jaas = (
        f'{MODULE} required unsecuredLoginStringClaim_sub="x" unsecuredValidatorScopeClaimName=scp '
        'unsecuredValidatorRequiredScope="a  b" unsecuredValidatorAllowableClockSkewMs=5 '
        "unsecuredValidatorPrincipalClaimName=who;"
    )
    asked = tokens(**{f"{OUT}jaas.config": jaas, **url})
    assert asked == UnsecuredTokenSettings("who", "scp", ("a", "b"), 5)
    assert isinstance(tokens(**{f"{OUT}jaas.config": jaas}), SignedTokenSettings)
    with pytest.raises(ConfigurationError, match="needs the keys of the issuer"):
        tokens(**{f"{OUT}jaas.config": f"{MODULE} required;", **url})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": ""}, "set listener.name.out.oauthbearer.sasl.oa"),
        *(
            ({"sasl.oauthbearer.jwks.endpoint.url": each}, "must be a URL")
            for each in (
                "ftp://x/",
                "/keys",
                "https://",
                "file:",
                "http://x:y/",
            )
        ),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "https://me:pw@x/"},
            "Invalid value https://x/ for .* must have no user and no password",
        ),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "must be at least 1"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "must be at least 0"),
        ({"sasl.oauthbearer.sub.claim.name": " "}, "name of a claim"),
        ({"sasl.oauthbearer.jwt.validator.class": "my.Validator"}, "may only be"),
        (
            {f"{OUT}server.callback.handler.class": "my.Handler"},
            "is my.Handler, but classes in Java",
        ),
        ({f"{OUT}jaas.config": "my.Module required;"}, "the login module must be"),
        (
            {f"{OUT}jaas.config": f"{MODULE} required unsecuredValidatorAllowableClockSkewMs=x;"}
            | {f"{OUT}server.callback.handler.class": UNSECURED},
            "must be a number",
        ),
        (
            {f"{OUT}jaas.config": f"{MODULE} required ssl.truststore.type=BKS;"},
            "PEM, PKCS12 or JKS",
        ),
    ],
)
def test_settings_that_cannot_be_used(changes, problem):
    with pytest.raises(ConfigurationError, match=problem):
        tokens(**changes)


def test_without_the_packages_the_node_says_what_to_install(monkeypatch):
    finder = importlib.machinery.PathFinder.find_spec

    def find(name, path=None, target=None):
        return None if name == "joserfc" else finder(name, path, target)

    for name in [each for each in sys.modules if each.partition(".")[0] == "joserfc"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", find)
    with pytest.raises(ConfigurationError, match=r"pip install 'odradek\[secure\]'"):
        tokens()
    assert tokens(**{f"{OUT}server.callback.handler.class": UNSECURED}) is not None


@pytest.mark.parametrize("prefix", ["", "listener.name.out.", "listener.name.out.oauthbearer."])
def test_addresses_cannot_be_changed_over_the_network(prefix):
    for name in ("jwks.endpoint.url", "token.endpoint.url", "expected.audience"):
        problem = dynamic_problem(f"{prefix}sasl.oauthbearer.{name}", "http://x/", per_broker=True)
        assert "is read-only" in problem


def test_classes_for_other_mechanisms_have_no_effect():
    names = ("sasl.server", "listener.name.out.sasl.server")
    changes = {f"{each}.callback.handler.class": "my.Handler" for each in names}
    warnings = load({}, {**SETTINGS, **changes}).warnings
    assert [each.partition(" ")[0] for each in warnings] == list(changes)
    assert all("has no effect: only listener.name." in each for each in warnings)


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-512", "gssapi"])
def test_a_class_that_would_check_logins_is_refused(mechanism):
    """Else the node would accept logins that the class does not."""
    name = f"listener.name.out.{mechanism}.sasl.server.callback.handler.class"
    with pytest.raises(ConfigurationError, match=f"{name} is not supported: .*other logins"):
        load({}, {**SETTINGS, name: "com.example.LdapHandler"})


# -- connections to other nodes --------------------------------------------------------------------

NODES = {
    "listeners": "IN://:9093,CONTROLLER://:9094",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "IN",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@a:9094,2@b:9094",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.mechanism.controller.protocol": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys",
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
    "sasl.oauthbearer.client.credentials.client.id": "node",
    "sasl.oauthbearer.client.credentials.client.secret": "hush",
    "sasl.login.connect.timeout.ms": "5000",
    "sasl.login.refresh.min.period.seconds": "7",
    "listener.name.in.oauthbearer.sasl.login.callback.handler.class": (
        f"{PACKAGE}OAuthBearerLoginCallbackHandler"
    ),
    "listener.name.in.oauthbearer.sasl.jaas.config": f"{MODULE} required extension_a=b;",
    "listener.name.controller.oauthbearer.sasl.jaas.config": (
        f'{MODULE} required clientId="c" clientSecret="s" scope="x";'
    ),
    "listener.name.controller.oauthbearer.sasl.oauthbearer.token.endpoint.url": "file:///token",
}


def test_the_logins_of_a_node():
    config, warnings = load({}, NODES)
    assert warnings == ()
    brokers, controllers = config.broker_peers, config.controller_peers
    assert (brokers.mechanism, controllers.mechanism) == ("OAUTHBEARER", "OAUTHBEARER")
    source = brokers.login.source
    assert (source.url, source.client_id, source.client_secret.value) == (
        "https://issuer/token", "node", "hush",
    )  # fmt: skip
    assert (source.connect_timeout_ms, source.read_timeout_ms) == (5000, 10_000)
    assert brokers.login.extensions == (("a", "b"),)
    assert brokers.login.refresh == (0.8, 0.05, 7, 300)
    assert controllers.login.source.url == "file:///token"
    assert "hush" not in repr(brokers)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"sasl.oauthbearer.client.credentials.client.secret": ""},
            "nodes connect to listener IN with OAUTHBEARER: sasl.oauthbearer.token.endpoint.url needs",
        ),
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "OAUTHBEARER needs a token: set sasl.oauth"),
        ({"sasl.oauthbearer.jwt.retriever.class": "my.Own"}, "classes in Java are not loaded"),
        ({"sasl.login.retry.backoff.ms": "-1"}, "must be at least 0"),
    ],
)
def test_logins_that_are_impossible(changes, problem):
    with pytest.raises(ConfigurationError, match=problem):
        load({}, {**NODES, **changes})
