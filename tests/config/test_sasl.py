"""The SASL settings of listeners, and Java's form of login modules."""

from __future__ import annotations

import pytest

from odradek.config.alter import check_broker
from odradek.config.checks import ConfigurationError
from odradek.config.jaas import parse_login_module
from odradek.config.load import load
from odradek.model.errors import ApiError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN} required username="me" password="x" user_alice="a b;=" user_bob=\'\';'
SETTINGS = {
    "listeners": "PLAINTEXT://:9092,OUT://:9093,IN://:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SASL_PLAINTEXT,IN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "connections.max.reauth.ms": "1000",
    "listener.name.out.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.out.plain.sasl.jaas.config": JAAS,
    "listener.name.out.connections.max.reauth.ms": "2000",
    "listener.name.out.scram-sha-256.connections.max.reauth.ms": "3000",
    "listener.name.out.sasl.server.max.receive.size": "100",
}


def test_the_settings_of_each_listener() -> None:
    config, warnings = load({}, SETTINGS)
    assert warnings == ()
    out, inner = config.sasl_by_listener["OUT"], config.sasl_by_listener["IN"]
    assert out.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert out.passwords == {"alice": "a b;=", "bob": ""}
    assert out.session_lifetimes_ms == {"PLAIN": 2000, "SCRAM-SHA-256": 3000}
    assert out.receive_bytes_max == 100
    assert inner.mechanisms == ("SCRAM-SHA-512",)
    assert inner.session_lifetimes_ms == {"SCRAM-SHA-512": 1000}
    assert inner.receive_bytes_max == 524288
    assert set(config.sasl_by_listener) == {"OUT", "IN"}
    assert "a b;=" not in repr(config) + repr(parse_login_module("x", JAAS))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "listener IN enables DIGEST-MD5: set listener"),
        ({"sasl.enabled.mechanisms": ""}, "listener IN enables no mechanism"),
        ({"listener.name.out.plain.sasl.jaas.config": ""}, "PLAIN needs users: set listener.name"),
        ({"listener.name.out.plain.sasl.jaas.config": "x"}, "does not end with a semicolon"),
        ({"listener.name.out.plain.sasl.jaas.config": "x required;"}, "login module must be"),
    ],
)
def test_settings_that_cannot_be_used(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as error:
        load({}, {**SETTINGS, **changes})
    assert "a b;=" not in str(error.value)


def test_a_single_node_may_have_sasl_only() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://:9092",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    assert load({}, settings).warnings == ()


def test_users_without_the_prefix_have_no_effect() -> None:
    (warning,) = load({}, {**SETTINGS, "sasl.jaas.config": JAAS}).warnings
    assert warning.startswith("sasl.jaas.config has no effect: name it listener.name.<listener>.")


def test_changes_while_the_node_runs() -> None:
    config = load({}, SETTINGS).config
    name = "listener.name.out.plain.sasl.jaas.config"
    changed = config.with_dynamic({}, {name: f'{PLAIN} required user_carol="c";'})
    assert changed.sasl_by_listener["OUT"].passwords == {"carol": "c"}
    broken = {"listener.name.in.sasl.enabled.mechanisms": "GSSAPI"}
    with pytest.raises(ApiError, match="listener IN: GSSAPI needs the keys"):
        check_broker(broken, config, per_broker=True)
    kept = config.with_dynamic({}, broken)
    assert kept.sasl_by_listener["IN"].mechanisms == ("SCRAM-SHA-512",)
    assert "listener IN: GSSAPI needs the keys" in kept.ignored[0]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("m required;", {}),
        ("m REQUIRED a=b c=d-1_$x;", {"a": "b", "c": "d-1_$x"}),
        ('// one\nm /* two\n */ required a = "b\\"c\\\\d" ;', {"a": 'b"c\\d'}),
        ('m required a="\\n\\101";', {"a": "\nA"}),
        ('m required a=\'b "c"\' d="it\'s";', {"a": 'b "c"', "d": "it's"}),
    ],
)
def test_login_modules(text: str, options: dict[str, str]) -> None:
    assert parse_login_module("x", text) == ("m", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m;",
        ";",
        "m required",
        "m needed a=b;",
        "m required a;",
        "m required a=;",
        "m required =b;",
        "m required a b;",
        'm required a="b;',
        'm required a="b\nc";',
        "m required; m required;",
        "m required a=/b;",
        f'{PLAIN} required user_a="x",user_b="y";',
    ],
)
def test_login_modules_that_are_malformed(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Invalid value \[hidden\] for configuration x: "):
        parse_login_module("x", text)
