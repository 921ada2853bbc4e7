"""The SASL settings of one listener.

As in Kafka, a setting may have the prefix `listener.name.<listener>.`, and some settings also the
name of the mechanism: `listener.name.<listener>.<mechanism>.`. Both are in lower case. The value
with the longest prefix applies. `sasl.jaas.config` of a server needs both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from odradek.config.checks import ConfigurationError, Secret, Value
from odradek.config.jaas import PLAIN_LOGIN_MODULE, parse_login_module
from odradek.config.kerberos import GSSAPI, KerberosSettings, kerberos_settings
from odradek.config.kerberos import PER_LISTENER as OF_KERBEROS
from odradek.config.layers import BrokerLayers
from odradek.config.oauth import CALLBACK_HANDLER, OAUTHBEARER, TokenSettings, token_settings
from odradek.config.oauth import PER_LISTENER as OF_OAUTH
from odradek.config.oauth_login import LOGIN_HANDLER
from odradek.config.oauth_login import SETTINGS as OF_LOGIN
from odradek.config.registry import broker_settings

SASL_PROTOCOLS = frozenset(("SASL_PLAINTEXT", "SASL_SSL"))
PLAIN = "PLAIN"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)
"""The supported mechanisms."""
PER_LISTENER = OF_OAUTH | frozenset(
    (
        *OF_KERBEROS,
        *OF_LOGIN,
        "connections.max.reauth.ms",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.server.max.receive.size",
    )
)
"""The settings that have an effect with the prefix of a listener."""

ONLY_WITH_PREFIX = frozenset((CALLBACK_HANDLER, LOGIN_HANDLER, "sasl.jaas.config"))
"""The settings that have no effect without the prefix of a listener and a mechanism."""

_MECHANISMS = "sasl.enabled.mechanisms"
_JAAS = "sasl.jaas.config"


class SaslSettings(NamedTuple):
    """The SASL settings of one listener."""

    mechanisms: tuple[str, ...]
    """sasl.enabled.mechanisms"""
    passwords: Mapping[str, str]
    """The passwords of the mechanism PLAIN, by user name."""
    session_lifetimes_ms: Mapping[str, int]
    """connections.max.reauth.ms by mechanism"""
    receive_bytes_max: int
    """sasl.server.max.receive.size"""
    tokens: TokenSettings | None = None
    """How the tokens of the mechanism OAUTHBEARER are validated; None without this mechanism."""
    kerberos: KerberosSettings | None = None
    """How the mechanism GSSAPI authenticates clients; None without this mechanism."""

    def __repr__(self) -> str:
        return f"SaslSettings({', '.join(self.mechanisms)})"


def sasl_settings(layers: BrokerLayers, listener: str) -> SaslSettings:
    """Return the settings of a listener that uses SASL.

    Raises:
        ConfigurationError: a mechanism is not supported, or its settings are missing.
    """
    prefix = f"listener.name.{listener.lower()}."
    names = _find(layers, prefix + _MECHANISMS, _MECHANISMS)
    assert isinstance(names, tuple)
    unsupported = [each for each in names if each not in MECHANISMS]
    if unsupported or not names:
        raise ConfigurationError(
            f"listener {listener} enables {unsupported[0] if unsupported else 'no mechanism'}: "
            f"set {prefix}{_MECHANISMS} to some of {', '.join(MECHANISMS)}"
        )
    receive_bytes_max = "sasl.server.max.receive.size"
    size = _find(layers, prefix + receive_bytes_max, receive_bytes_max)
    assert isinstance(size, int)
    return SaslSettings(
        names,
        _passwords(layers, f"{prefix}plain.{_JAAS}") if PLAIN in names else {},
        {each: _lifetime_ms(layers, prefix, each) for each in names},
        size,
        _tokens(layers, listener) if OAUTHBEARER in names else None,
        _kerberos(layers, listener) if GSSAPI in names else None,
    )


def _tokens(layers: BrokerLayers, listener: str) -> TokenSettings:
    return token_settings(partial(find_for, OAUTHBEARER, layers, listener), listener)


def _kerberos(layers: BrokerLayers, listener: str) -> KerberosSettings:
    return kerberos_settings(partial(find_for, GSSAPI, layers, listener), listener)


def find_for(mechanism: str, layers: BrokerLayers, listener: str, name: str) -> Value:
    """Return the value of a setting for a mechanism on a listener."""
    prefix = f"listener.name.{listener.lower()}."
    others = () if name in ONLY_WITH_PREFIX else (prefix + name, name)
    return _find(layers, f"{prefix}{mechanism.lower()}.{name}", *others)


def _passwords(layers: BrokerLayers, name: str) -> dict[str, str]:
    value = _find(layers, name)
    if not isinstance(value, Secret) or not value.value:
        raise ConfigurationError(
            f'PLAIN needs users: set {name} to {PLAIN_LOGIN_MODULE} required user_NAME="PASSWORD";'
        )
    module = parse_login_module(name, value.value)
    if module.name != PLAIN_LOGIN_MODULE:
        raise ConfigurationError(f"{name}: the login module must be {PLAIN_LOGIN_MODULE}")
    return module.users


def _lifetime_ms(layers: BrokerLayers, prefix: str, mechanism: str) -> int:
    name = "connections.max.reauth.ms"
    value = _find(layers, f"{prefix}{mechanism.lower()}.{name}", prefix + name, name)
    assert isinstance(value, int)
    return value


def _find(layers: BrokerLayers, *names: str) -> Value:
    """Return the value of the first name that is set, else the default."""
    setting = broker_settings()[_base(names[-1])]
    for name in names:
        text = layers.effective.get(name)
        if text is not None:
            return setting.parse(text)
    return setting.default


def _base(name: str) -> str:
    return next(each for each in PER_LISTENER if name == each or name.endswith(f".{each}"))
