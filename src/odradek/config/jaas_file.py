"""Reads the logins of a node from a file of Java's JAAS, as the start scripts of Apache Kafka do.

    KAFKA_OPTS=-Djava.security.auth.login.config=/etc/kafka/kafka_server_jaas.conf

The file has sections with login modules. The section of a listener is `<listener>.KafkaServer` with
the listener's name in lower case, or else `KafkaServer` (Kafka's JaasContext). A login module becomes
the setting `listener.name.<listener>.<mechanism>.sasl.jaas.config`, unless this setting is given.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from odradek.config.checks import ConfigurationError
from odradek.config.jaas import (
    KERBEROS_LOGIN_MODULE,
    OAUTH_LOGIN_MODULE,
    PLAIN_LOGIN_MODULE,
    SCRAM_LOGIN_MODULE,
    LoginModule,
    format_login_module,
    parse_sections,
)
from odradek.config.listeners import listener_names

VARIABLE = "KAFKA_OPTS"
_PROPERTY = "-Djava.security.auth.login.config="
_SECTION = "KafkaServer"
_MECHANISMS = {
    PLAIN_LOGIN_MODULE: ("plain",),
    SCRAM_LOGIN_MODULE: ("scram-sha-256", "scram-sha-512"),
    KERBEROS_LOGIN_MODULE: ("gssapi",),
    OAUTH_LOGIN_MODULE: ("oauthbearer",),
}
_PROTOCOLS = ("listeners", "listener.security.protocol.map")


def logins(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with login modules that the file adds. Without SASL it is not read.

    Raises:
        ConfigurationError: the file cannot be read, or is malformed.
    """
    file = _file(environment)
    if file is None or not any("SASL" in settings.get(name, "") for name in _PROTOCOLS):
        return {}
    try:
        sections = parse_sections(str(file), file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{VARIABLE}: cannot read {file}: {error}") from error
    return {
        name: format_login_module(module)
        for listener in _listeners(settings)
        for module in sections.get(f"{listener}.{_SECTION}") or sections.get(_SECTION, [])
        for name in _names(listener, module)
        if name not in settings
    }


def _file(environment: Mapping[str, str]) -> Path | None:
    try:
        words = shlex.split(environment.get(VARIABLE, ""))
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE} is malformed: {error}") from error
    found = [word.removeprefix(_PROPERTY) for word in words if word.startswith(_PROPERTY)]
    # A second = means that Java uses no other file.
    return Path(found[-1].lstrip("=").removeprefix("file:")) if found else None


def _listeners(settings: Mapping[str, str]) -> list[str]:
    """Return the names of all listeners in lower case, with those of other nodes' controllers."""
    names = listener_names(settings.get("listeners", ""))
    names += [each.strip() for each in settings.get("controller.listener.names", "").split(",")]
    return sorted({name.lower() for name in names if name})


def _names(listener: str, module: LoginModule) -> list[str]:
    return [
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config"
        for mechanism in _MECHANISMS.get(module.name, ())
    ]
