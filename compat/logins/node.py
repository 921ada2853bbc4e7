"""A broker with a listener for each row of the table, and the credentials of its clients."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compat import access_tokens
from compat.authenticated import PLAIN_MODULE, SCRAM_MODULE
from compat.lab.apache_kafka import ApacheKafka, BriefApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.kerberos import SERVICE, Kdc, require_library
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing, free_port
from compat.logins.table import (
    BRIEF_LISTENERS,
    BRIEF_SESSION_MS,
    PASSWORD,
    RIGHT,
    SCRAM,
    USER,
    AccessToken,
    Arguments,
    DelegationToken,
    File,
    KerberosFile,
    Row,
    Value,
)
from odradek.cli.certificates import Authority
from odradek.cli.secret_files import write_secret

HOST = "127.0.0.1"
HOSTS = (HOST, "localhost")
TOPIC = "logins"
PROTOCOLS = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "MISNAMED": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "UNSECURED": "SASL_PLAINTEXT",
    "BRIEF": "SASL_PLAINTEXT",
    "BRIEF_SSL": "SASL_SSL",
}
KERBEROS = {
    "KERBEROS": "SASL_PLAINTEXT",
    "KERBEROS_STALE": "SASL_PLAINTEXT",
    "KERBEROS_RULES": "SASL_PLAINTEXT",
    "KERBEROS_SSL": "SASL_SSL",
}
"""The listeners with GSSAPI, where the Kerberos library is installed. Their addresses have the host of the
service, because not every client replaces 127.0.0.1 by the name of the host."""
ELSEWHERE = "kafka/elsewhere"
BRIEF_LIFETIME = "1s"
_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_UNSECURED = f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_DAYS = 30


class LoginNode:
    """A running broker, with its credentials in a directory."""

    def __init__(self, kind: type[Broker], directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        _make_certificates(directory)
        self._kdc, self._no_kerberos = _start_kdc(directory / "kdc")
        protocols = {**PROTOCOLS, **({} if self._kdc is None else KERBEROS)}
        self.ports = {name: free_port() for name in protocols}
        listeners = [f"{name}://{_host(name)}:{port}" for name, port in self.ports.items()]
        brief = BriefApacheKafka if kind is ApacheKafka else OdradekNode
        settings = _settings(directory, protocols)
        if self._kdc is not None:
            settings |= _kerberos_settings(self._kdc)
        self.broker = brief(settings=settings, listeners=listeners)
        if self._kdc is not None:
            self._kdc.serve(self.broker)
        self.ports["PLAINTEXT"] = self.broker.port
        self._tokens: dict[str, tuple[str, str]] = {}
        self._expired_at = 0.0

    def __enter__(self) -> Self:
        try:
            self.broker.start()
            self._make_users()
            self._make_tokens()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the broker and the KDC."""
        self.broker.close()
        if self._kdc is not None:
            self._kdc.close()

    def require(self, row: Row) -> None:
        """Check that the node has what a row needs.

        Raises:
            Missing: it does not.
        """
        if row.needs_kerberos and self._kdc is None:
            raise Missing(self._no_kerberos)

    def arguments(self, listener: str, arguments: Arguments) -> dict[str, Any]:
        """Return the arguments of a login in the form that drivers take."""
        made: dict[str, Any] = {
            "bootstrap": f"{_host(listener)}:{self.ports[listener]}",
            "topic": TOPIC,
        }
        for name, value in arguments.items():
            made |= self._made(name, value)
        return made

    def _made(self, name: str, value: Value) -> Mapping[str, object]:
        match value:
            case File():
                return {name: str(self.directory / value.name)}
            case AccessToken():
                kind = value.kind
                text = (
                    access_tokens.token(kind) if value.is_signed else access_tokens.unsigned(kind)
                )
                return {name: text}
            case DelegationToken():
                user, password = self._delegation_token(value.kind)
                return {"user": user, "password": password}
            case KerberosFile():
                assert self._kdc is not None, "require() was called"
                configuration = str(self._kdc.configuration)
                return {name: str(self._kdc.directory / value.name), "krb5": configuration}
            case _:
                return {name: value}

    def _delegation_token(self, kind: str) -> tuple[str, str]:
        token_id, hmac = self._tokens["expired" if kind == "expired" else RIGHT]
        if kind == "expired":
            time.sleep(max(0.0, self._expired_at - time.time()))
        return ("unknown" if kind == "unknown" else token_id, "AAAA" if "HMAC" in kind else hmac)

    def set_password(self, user: str, password: str, mechanism: str = SCRAM[0]) -> None:
        """Give a user of SCRAM a password."""
        admin, client = self._admin()
        kind = getattr(admin.ScramMechanism, mechanism.replace("-", "_"))
        info = admin.ScramCredentialInfo(kind, 4096)
        change = admin.UserScramCredentialUpsertion(user, info, password.encode())
        client.alter_user_scram_credentials([change])[user].result(30)

    def _admin(self) -> tuple[Any, Any]:
        # Its annotations are for others: imported so, the type checker does not look at them.
        admin: Any = importlib.import_module("confluent_kafka.admin")
        return admin, admin.AdminClient({"bootstrap.servers": self.broker.bootstrap})

    def _make_users(self) -> None:
        admin, client = self._admin()
        client.create_topics([admin.NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        for mechanism, other in zip(SCRAM, ("only256", "only512"), strict=True):
            for user in (USER, other):
                self.set_password(user, PASSWORD, mechanism)

    def _make_tokens(self) -> None:
        self._tokens[RIGHT] = self._create_token()
        self._tokens["expired"] = self._create_token("--lifetime", BRIEF_LIFETIME)
        self._expired_at = time.time() + 1.1

    def _create_token(self, *words: str) -> tuple[str, str]:
        file = self.directory / "alice.properties"
        file.write_text(
            f"bootstrap.servers={HOST}:{self.ports['SASL']}\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_MODULE} required "
            f'username="{USER}" password="{PASSWORD}";\n',
            encoding="utf-8",
        )
        program = Path(sys.executable).with_name("odradek")
        command = [program, "token", "create", "--json", "--command-config", file, *words]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerFailed(f"odradek token create: {done.stderr.strip()}")
        made = json.loads(done.stdout)
        return made["id"], made["hmac"]


def _host(listener: str) -> str:
    return SERVICE.partition("/")[2] if listener in KERBEROS else HOST


def _make_certificates(directory: Path) -> None:
    other = directory / "other"
    other.mkdir(exist_ok=True)
    authority = Authority.create(directory, "compat authority", _DAYS)
    stranger = Authority.create(other, "another authority", _DAYS)
    (directory / "other-ca.pem").write_bytes((other / "ca.pem").read_bytes())
    for name, issuer, hosts, days in (
        ("broker", authority, HOSTS, _DAYS),
        ("expired", authority, HOSTS, 0),
        ("misnamed", authority, ("elsewhere.example.com",), _DAYS),
        ("client", authority, (), _DAYS),
        ("stranger", stranger, (), _DAYS),
        ("expired-client", authority, (), 0),
    ):
        write_secret(directory / f"{name}.pem", issuer.issue(name, hosts, days))


def _start_kdc(directory: Path) -> tuple[Kdc | None, str]:
    """Return a KDC; None, with the reason, if clients or brokers here cannot use it."""
    try:
        require_library()
        return Kdc(directory, (SERVICE, ELSEWHERE, USER)), ""
    except Missing as reason:
        return None, str(reason)


def _kerberos_settings(kdc: Kdc) -> dict[str, str]:
    settings = {"sasl.kerberos.service.name": "kafka"}
    for name in KERBEROS:
        start = f"listener.name.{name.lower()}."
        service = ELSEWHERE if name.endswith("STALE") else SERVICE
        settings |= {
            f"{start}sasl.enabled.mechanisms": "GSSAPI",
            f"{start}gssapi.sasl.jaas.config": kdc.login_module(service),
        }
    rules = "listener.name.kerberos_rules.sasl.kerberos.principal.to.local.rules"
    return {**settings, rules: "RULE:[2:$1]"}


def _settings(directory: Path, protocols: Mapping[str, str]) -> dict[str, str]:
    names = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **protocols}
    settings = {
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in names.items()),
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, "OAUTHBEARER")),
        "listener.name.unsecured.sasl.enabled.mechanisms": "OAUTHBEARER",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "delegation.token.secret.key": "secret",
        **access_tokens.settings(),
    }
    for name in ("expired", "misnamed"):
        settings[f"listener.name.{name}.ssl.keystore.location"] = str(directory / f"{name}.pem")
    for listener in (*BRIEF_LISTENERS, *BRIEF_LISTENERS.values()):
        start = f"listener.name.{listener.lower()}."
        settings |= {
            f"{start}plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
            f"{start}oauthbearer.sasl.jaas.config": f"{access_tokens.MODULE} required;",
            f"{start}oauthbearer.sasl.server.callback.handler.class": (
                f"{_OAUTH}OAuthBearerValidatorCallbackHandler"
            ),
            **{
                f"{start}{mechanism.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;"
                for mechanism in SCRAM
            },
        }
    for listener in BRIEF_LISTENERS.values():
        start = f"listener.name.{listener.lower()}."
        for mechanism in ("PLAIN", *SCRAM, "OAUTHBEARER"):
            limit = f"{start}{mechanism.lower()}.connections.max.reauth.ms"
            settings[limit] = str(BRIEF_SESSION_MS)
    start = "listener.name.unsecured.oauthbearer.sasl."
    settings |= {
        f"{start}jaas.config": f"{access_tokens.MODULE} required;",
        f"{start}server.callback.handler.class": _UNSECURED,
    }
    return settings
