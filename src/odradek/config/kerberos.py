"""The settings of the mechanism GSSAPI, with which users of Kerberos log in.

A listener needs `sasl.jaas.config` with the login module of Java, which names a key table and the
principal of the service in it:

    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true
        keyTab="/etc/kafka.keytab" principal="kafka/host.example.com@EXAMPLE.COM";

A client, and a node as a client of other nodes, uses a key table in the same form, or the tickets of
a cache (`useTicketCache=true`, `ticketCache="FILE"`). Options of the login module that say how Java
works have no effect. The package gssapi performs the mechanism with the Kerberos library of the
system, which reads `krb5.conf`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.config import extras
from odradek.config.checks import ConfigurationError, Secret, Value
from odradek.config.jaas import KERBEROS_LOGIN_MODULE, LoginModule, parse_login_module
from odradek.config.kerberos_names import NAME as NAME_RULES
from odradek.config.kerberos_names import KerberosName, NameRules

GSSAPI = "GSSAPI"
SERVICE_NAME = "sasl.kerberos.service.name"
PER_LISTENER = (NAME_RULES, SERVICE_NAME)
"""The settings that may have the prefix of a listener."""
_JAAS = "sasl.jaas.config"
_EXAMPLE = (
    f'{KERBEROS_LOGIN_MODULE} required useKeyTab=true storeKey=true keyTab="FILE" '
    'principal="kafka/HOST@REALM";'
)

Find = Callable[[str], Value]
"""Returns the value of a setting."""


class KerberosSettings(NamedTuple):
    """How a listener authenticates clients."""

    principal: str
    """The name of the service: kafka/host@REALM."""
    key_table: str
    """The file with the keys of the service. If it is empty, the Kerberos library chooses it."""
    rules: NameRules


class KerberosLogin(NamedTuple):
    """With which tickets a client logs in."""

    service: str
    """The first part of the names of the brokers' services, before the host."""
    principal: str = ""
    """The name of the client. If it is empty, the Kerberos library chooses it."""
    key_table: str | None = None
    """The file with the keys of the client; None if the client uses a cache of tickets. If it is empty,
    the Kerberos library chooses it."""
    ticket_cache: str = ""
    """The cache of tickets. If it is empty, the Kerberos library chooses it."""


def check_library(who: str) -> None:
    """Check that the package gssapi is installed.

    Raises:
        ConfigurationError: it is not.
    """
    if extras.missing(["gssapi"]):
        raise ConfigurationError(
            f"{who}: the mechanism GSSAPI needs the package gssapi: {extras.install(extras.GSSAPI)}. "
            "On Linux this compiles it, which needs a C compiler and the development files of "
            "Kerberos (libkrb5-dev on Debian, krb5-devel on Fedora)"
        )


def kerberos_settings(find: Find, listener: str) -> KerberosSettings:
    """Return how a listener authenticates clients.

    Raises:
        ConfigurationError: a setting is missing or not supported, or the package is missing.
    """
    name = f"listener.name.{listener.lower()}.gssapi.{_JAAS}"
    text = find(_JAAS)
    if not isinstance(text, Secret) or not text.value:
        raise ConfigurationError(
            f"listener {listener}: GSSAPI needs the keys of the service: set {name} to {_EXAMPLE}, "
            "or set sasl.enabled.mechanisms to other mechanisms"
        )
    module = kerberos_module(name, text.value)
    principal = module.options.get("principal", "")
    if not _is_true(module, "useKeyTab") or not principal:
        raise ConfigurationError(f"{name}: useKeyTab=true and a principal are expected: {_EXAMPLE}")
    _check_name(name, principal)
    check_library(f"listener {listener}")
    rules = find(NAME_RULES)
    assert isinstance(rules, tuple)
    return KerberosSettings(principal, module.options.get("keyTab", ""), NameRules(rules))


def kerberos_login(name: str, module: LoginModule, service: str) -> KerberosLogin:
    """Return how a client logs in. `name` is the setting that has the login module.

    Raises:
        ConfigurationError: an option is missing, or two settings contradict each other.
    """
    options = module.options
    of_module = options.get("serviceName", "")
    if of_module and service and of_module != service:
        raise ConfigurationError(
            f"{name}: serviceName is {of_module}, but {SERVICE_NAME} is {service}"
        )
    if not (of_module or service):
        raise ConfigurationError(
            f"GSSAPI needs the name of the brokers' service: set {SERVICE_NAME}"
        )
    principal, has_keys = options.get("principal", ""), _is_true(module, "useKeyTab")
    if has_keys and not principal:
        raise ConfigurationError(f"{name}: useKeyTab=true needs a principal")
    if not has_keys and not _is_true(module, "useTicketCache"):
        raise ConfigurationError(
            f"{name}: useKeyTab=true or useTicketCache=true is expected, because nobody can be asked "
            "for a password"
        )
    if principal:
        _check_name(name, principal)
    return KerberosLogin(
        of_module or service,
        principal,
        options.get("keyTab", "") if has_keys else None,
        options.get("ticketCache", ""),
    )


def kerberos_module(name: str, text: str) -> LoginModule:
    """Parse the value of a setting that must have the login module of Kerberos.

    Raises:
        ConfigurationError: the value is malformed, or has another login module.
    """
    module = parse_login_module(name, text)
    if module.name != KERBEROS_LOGIN_MODULE:
        raise ConfigurationError(f"{name}: the login module of GSSAPI is {KERBEROS_LOGIN_MODULE}")
    return module


def _is_true(module: LoginModule, option: str) -> bool:
    return module.options.get(option, "").lower() == "true"


def _check_name(setting: str, principal: str) -> None:
    try:
        KerberosName.parse(principal)
    except ValueError as error:
        raise ConfigurationError(f"{setting}: {error}") from error
