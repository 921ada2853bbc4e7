"""The security settings of a client: TLS and SASL, with the names of Kafka's clients.

Java's names and librdkafka's names are both accepted (`ssl.truststore.location` and
`ssl.ca.location`, `sasl.jaas.config` and `sasl.username`). Keys and certificates are in PEM,
PKCS#12 or JKS files. If the type of a store is not set, its contents tell it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from odradek.config import cipher_suites
from odradek.config.checks import ConfigurationError, Value
from odradek.config.jaas import (
    OAUTH_LOGIN_MODULE,
    PLAIN_LOGIN_MODULE,
    SCRAM_LOGIN_MODULE,
    LoginModule,
    parse_login_module,
)
from odradek.config.kerberos import (
    GSSAPI,
    SERVICE_NAME,
    KerberosLogin,
    check_library,
    kerberos_login,
    kerberos_module,
)
from odradek.config.oauth import OAUTHBEARER
from odradek.config.oauth_login import (
    ASSERTIONS,
    CLIENT_ID,
    CLIENT_SECRET,
    LoginSettings,
    login_settings,
)
from odradek.config.oauth_login import SETTINGS as OAUTH_SETTINGS
from odradek.config.properties import parse_properties
from odradek.config.providers import resolve
from odradek.core.sasl.client import MECHANISMS, Credential
from odradek.core.sasl.plain import PLAIN
from odradek.env.tls_files import JKS, PEM, STORE_TYPES, VERSIONS, ClientTls, type_of_file

DEFAULT_SERVICE = "kafka"
"""The name of the brokers' service in Kerberos, as in librdkafka."""
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SECURITY_SETTINGS = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "enable.ssl.certificate.verification",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    cipher_suites.SETTING,
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    SERVICE_NAME,
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    *OAUTH_SETTINGS,
    "https.ca.location",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.method",
)
"""The names of the settings."""

_JAAS = "sasl.jaas.config"
_REPLACED = {
    "sasl.username": ("sasl.jaas.config",),
    "sasl.password": ("sasl.jaas.config",),
    "sasl.mechanism": ("sasl.mechanisms",),
    "sasl.mechanisms": ("sasl.mechanism",),
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.ca.location": ("ssl.truststore.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.ca.pem": ("ssl.truststore.certificates",),
    "ssl.keystore.location": ("ssl.key.location", "ssl.certificate.location"),
}
"""Other settings with the same purpose, of which `parse_security` uses only one."""

REFUSED_SETTINGS = {
    "sasl.client.callback.handler.class": "classes in Java are not loaded",
    "sasl.login.class": "classes in Java are not loaded",
    **dict.fromkeys(ASSERTIONS, "the client needs a secret, not an assertion"),
}
"""Settings of Kafka's clients that this client does not support, with the reason or the fix."""

ENVIRONMENT_PREFIX = "ODRADEK_CLIENT_"
"""The environment variable of a setting has this prefix: ODRADEK_CLIENT_SASL_PASSWORD."""


@dataclass(frozen=True, slots=True)
class Security:
    """How a client's connections are encrypted and authenticated."""

    protocol: str = "PLAINTEXT"
    tls: ClientTls | None = None
    credential: Credential | None = None
    """The user and the password; None without SASL, and with OAUTHBEARER and GSSAPI."""
    login: LoginSettings | None = None
    """How the client gets access tokens for OAUTHBEARER."""
    kerberos: KerberosLogin | None = None
    """How the client gets tickets for GSSAPI."""

    @property
    def is_authenticated(self) -> bool:
        """Whether the client authenticates with SASL."""
        return any(each is not None for each in (self.credential, self.login, self.kerberos))


PLAINTEXT = Security()


def read_client_properties(file: Path) -> dict[str, str]:
    """Return the settings in a client.properties file. Variables are replaced (see `providers`).

    Raises:
        ValueError: the file cannot be read, is malformed, or a variable has no value.
    """
    try:
        return resolve(parse_properties(file.read_bytes()), os.environ)
    except OSError as error:
        raise ValueError(f"cannot read {file}: {error.strerror}") from error
    except ConfigurationError as error:
        raise ValueError(f"{file}: {error}") from error


def environment_variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return ENVIRONMENT_PREFIX + name.replace(".", "_").upper()


def settings_in_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in environment variables, also those that the client does not know."""
    known = {environment_variable(name): name for name in (*SECURITY_SETTINGS, *REFUSED_SETTINGS)}
    return {
        known.get(each) or each.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", "."): value
        for each, value in environment.items()
        if each.startswith(ENVIRONMENT_PREFIX)
    }


def combined(*sources: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of several sources. Later sources have precedence.

    A setting also replaces other settings with the same purpose in earlier sources: a user name on
    the command line replaces `sasl.jaas.config` in a file. A password alone is that of the same user.
    """
    settings: dict[str, str] = {}
    for source in sources:
        jaas = settings.get(_JAAS)
        for name in source:
            for other in _REPLACED.get(name, ()):
                settings.pop(other, None)
        settings.update(source)
        if jaas and "sasl.password" in source and _JAAS not in settings:
            _keep_user(settings, jaas)
    return settings


def _keep_user(settings: dict[str, str], jaas: str) -> None:
    """Set the user of a login module, unless there is one."""
    try:
        module = parse_login_module(_JAAS, jaas)
    except ConfigurationError:
        return  # it is replaced anyway
    user = module.options.get("username")
    if user and not module.is_token:
        settings.setdefault("sasl.username", user)


def parse_security(settings: Mapping[str, str]) -> Security:
    """Parse the security settings. Other settings are ignored.

    Raises:
        ValueError: a setting is malformed or not supported, or another one is missing.
    """
    protocol = settings.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"security.protocol is {protocol}; it must be one of {_list(PROTOCOLS)}")
    for name, problem in REFUSED_SETTINGS.items():
        if settings.get(name) and (name.startswith("sasl.") or protocol.endswith("SSL")):
            raise ValueError(f"{name} is not supported: {problem}")
    tls = _tls(settings) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return Security(protocol, tls)
    if _mechanism(settings) == OAUTHBEARER:
        return Security(protocol, tls, login=_login(settings))
    if _mechanism(settings) == GSSAPI:
        return Security(protocol, tls, kerberos=_kerberos(settings))
    return Security(protocol, tls, _credential(settings, protocol))


def _tls(settings: Mapping[str, str]) -> ClientTls:
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("", "none", "https"):
        raise ValueError(
            f"ssl.endpoint.identification.algorithm is {algorithm}; it must be https or empty"
        )
    verifies = settings.get("enable.ssl.certificate.verification", "true").strip().lower()
    if verifies not in ("true", "false"):
        raise ValueError("enable.ssl.certificate.verification must be true or false")
    text = settings.get("ssl.enabled.protocols", "")
    versions = tuple(each.strip() for each in text.split(",") if each.strip()) or VERSIONS
    choice = _choice(settings.get(cipher_suites.SETTING, ""), versions)
    certificate, key = (
        _file(settings, name) for name in ("ssl.certificate.location", "ssl.key.location")
    )
    if certificate is not None and key is None:
        raise ValueError("ssl.certificate.location needs ssl.key.location")
    trust = _store(settings, "truststore", "ssl.ca.location")
    store = _store(settings, "keystore")
    word = settings.get("ssl.key.password", "")
    inner_word = ""
    if store is not None and store.type != PEM:
        word, inner_word = store.password, word
    key_text = _key_text(settings)
    if key_text and (key is not None or store is not None):
        raise ValueError("set either ssl.keystore.key or a file with a key, not both")
    return ClientTls(
        trust_file=None if trust is None else trust.file,
        trust_type=PEM if trust is None else trust.type,
        trust_password="" if trust is None else trust.password,
        trust_text=settings.get("ssl.truststore.certificates") or settings.get("ssl.ca.pem", ""),
        key_file=key or (None if store is None else store.file),
        key_text=key_text,
        key_type=PEM if key is not None or store is None else store.type,
        certificate_file=certificate,
        key_password=settings.get("ssl.key.password", "") if key is not None else word,
        inner_key_password=inner_word,
        verifies_server=verifies == "true",
        verifies_host=algorithm == "https",
        versions=choice.versions,
        ciphers=choice.ciphers,
    )


def _choice(text: str, versions: tuple[str, ...]) -> cipher_suites.Choice:
    """Return the cipher suites. Their names are those of Java, or for TLS 1.2, as in librdkafka, of OpenSSL."""
    names = [each for each in re.split(r"[,:\s]+", text) if each]
    if names and not any("_" in each for each in names):
        return cipher_suites.choose((), versions)._replace(ciphers=":".join(names))
    return cipher_suites.choose(names, versions)


def _key_text(settings: Mapping[str, str]) -> str:
    """Return the key and the certificates in PEM form; an empty text if they are not in the settings."""
    key, chain = (settings.get(f"ssl.keystore.{each}", "") for each in ("key", "certificate.chain"))
    if bool(key) != bool(chain):
        raise ValueError("ssl.keystore.key and ssl.keystore.certificate.chain need each other")
    return f"{key}\n{chain}" if key else ""


class _Store(NamedTuple):
    """A key store or a trust store."""

    file: str
    type: str
    password: str


def _store(settings: Mapping[str, str], kind: str, *other_names: str) -> _Store | None:
    """Return a store; None if no file is set."""
    file = _file(settings, f"ssl.{kind}.location", *other_names)
    if file is None:
        return None
    name, password = f"ssl.{kind}.type", settings.get(f"ssl.{kind}.password", "")
    store_type = settings.get(name, "").upper()
    if store_type in ("", JKS):  # the default of Java, also of clients with PEM files
        store_type = type_of_file(file)
    if store_type not in STORE_TYPES:
        raise ValueError(f"{name} is {store_type}; it must be one of {_list(STORE_TYPES)}")
    if password and store_type == PEM:
        hint = "; the password of its key is ssl.key.password" if kind == "keystore" else ""
        raise ValueError(f"ssl.{kind}.password: a PEM file has no such password{hint}")
    return _Store(file, store_type, password)


def _file(settings: Mapping[str, str], *names: str) -> str | None:
    for name in names:
        file = settings.get(name)
        if file:
            if not os.access(file, os.R_OK):
                what = "cannot be read" if Path(file).exists() else "does not exist"
                raise ValueError(f"{name}: the file {file} {what}")
            if Path(file).is_dir():
                raise ValueError(f"{name}: {file} is a directory")
            return file
    return None


def _mechanism(settings: Mapping[str, str]) -> str:
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or ""
    if mechanism not in MECHANISMS:
        problem = f"is {mechanism}" if mechanism else "is missing"
        raise ValueError(f"sasl.mechanism {problem}; it must be one of {_list(MECHANISMS)}")
    return mechanism


def _login(settings: Mapping[str, str]) -> LoginSettings:
    """Return how the client gets access tokens. librdkafka's names are accepted, too."""
    from odradek.config.registry import broker_settings  # this and the next one take some time
    from odradek.core.sasl.oauth_bearer import check_extensions

    if settings.get("sasl.oauthbearer.method", "oidc").strip().lower() not in ("oidc", "default"):
        raise ValueError("sasl.oauthbearer.method must be oidc or default")
    others = {
        CLIENT_ID: "sasl.oauthbearer.client.id",
        CLIENT_SECRET: "sasl.oauthbearer.client.secret",
    }

    def find(name: str) -> Value:
        setting = broker_settings()[name]
        text = settings.get(name) or settings.get(others.get(name, ""))
        return setting.parse(text) if text else setting.default

    jaas = settings.get("sasl.jaas.config")
    module = (
        parse_login_module("sasl.jaas.config", jaas)
        if jaas
        else LoginModule(OAUTH_LOGIN_MODULE, {})
    )
    extensions = settings.get("sasl.oauthbearer.extensions", "")
    for pair in filter(None, extensions.split(",")):
        name, _, value = pair.partition("=")
        module.options.setdefault(f"extension_{name.strip()}", value.strip())
    authority = _file(settings, "https.ca.location")
    if authority is not None:
        module.options.setdefault("ssl.truststore.location", authority)
    is_encoded = settings.get("sasl.oauthbearer.header.urlencode", "").strip().lower() == "true"
    login = login_settings(find, module, is_encoded=is_encoded)
    check_extensions(dict(login.extensions))
    return login


def _kerberos(settings: Mapping[str, str]) -> KerberosLogin:
    """Return how the client gets tickets. librdkafka's names are accepted, too."""
    check_library("sasl.mechanism")
    service = settings.get(SERVICE_NAME, "")
    jaas = settings.get("sasl.jaas.config")
    if jaas:
        module = kerberos_module("sasl.jaas.config", jaas)
        return kerberos_login("sasl.jaas.config", module, service)
    principal = settings.get("sasl.kerberos.principal", "")
    keys = _file(settings, "sasl.kerberos.keytab")
    if keys is not None and not principal:
        raise ValueError("sasl.kerberos.keytab needs sasl.kerberos.principal")
    return KerberosLogin(service or DEFAULT_SERVICE, principal, keys)


def _credential(settings: Mapping[str, str], protocol: str) -> Credential:
    mechanism = _mechanism(settings)
    jaas = settings.get("sasl.jaas.config")
    is_token = False
    if jaas:
        module = parse_login_module("sasl.jaas.config", jaas)
        expected = PLAIN_LOGIN_MODULE if mechanism == PLAIN else SCRAM_LOGIN_MODULE
        if module.name != expected:
            raise ValueError(f"sasl.jaas.config: the login module of {mechanism} is {expected}")
        user, password = module.options.get("username"), module.options.get("password")
        is_token = module.is_token and mechanism != PLAIN
    else:
        user, password = settings.get("sasl.username"), settings.get("sasl.password")
    if not user or not password:
        raise ValueError(
            f"security.protocol is {protocol}, but there is no "
            f"{'password' if user else 'user'}: set sasl.username and sasl.password, or "
            "sasl.jaas.config with username and password"
        )
    return Credential(mechanism, user, password, is_token)


def _list(words: tuple[str, ...]) -> str:
    return ", ".join(words)
