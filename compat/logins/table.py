"""The table of logins: protocols, mechanisms, and the credentials that are tried with each.

A row is a listener with a protocol and a mechanism, and the right credentials. A case changes some of these
arguments. The values are texts, names of files of `node.Credentials`, or tokens that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from compat.access_tokens import WRONG

CLIENTS = ("java", "librdkafka", "aiokafka", "franz-go", "odradek", "odradek-aio")
"""The clients whose drivers have the verb `login`."""

RIGHT = "right"
USER, PASSWORD = "alice", "alice, secret="
"""The characters `,` and `=` are escaped in SCRAM."""
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
BRIEF_LISTENERS = {"SASL": "BRIEF", "SASL_SSL": "BRIEF_SSL"}
"""The listeners whose sessions are brief, by the ones that have the same protocol and mechanisms."""
BRIEF_SESSION_MS = 3_000
SHORT_MS, LONG_MS = 2_000, 40_000
"""How long clients try: those that get no reason, and all others, which end earlier."""


@dataclass(frozen=True)
class File:
    """The name of a file of `node.Credentials`."""

    name: str


@dataclass(frozen=True)
class AccessToken:
    """A kind of access token: one of `access_tokens.WRONG`, or "right"."""

    kind: str
    is_signed: bool = True


@dataclass(frozen=True)
class DelegationToken:
    """A kind of delegation token: its id and HMAC replace user and password."""

    kind: str


@dataclass(frozen=True)
class KerberosFile:
    """The name of a file of the KDC: a key table or a cache of tickets (`compat.lab.kerberos`)."""

    name: str


Value = str | bool | None | File | AccessToken | DelegationToken | KerberosFile
Arguments = Mapping[str, Value]


@dataclass(frozen=True)
class Case:
    """Credentials; `changes` are the differences from the right ones."""

    name: str
    changes: Arguments = field(default_factory=dict)
    listener: str = ""
    """The listener, if it is not the one of the row."""
    silent: tuple[str, ...] = ()
    """The clients that do not show why they are refused, and try again until the time is over."""

    def timeout_ms(self, client: str) -> int:
        """Return how long the client may try."""
        return SHORT_MS if client in self.silent else LONG_MS


@dataclass(frozen=True)
class Row:
    """A protocol and a mechanism, with the cases."""

    name: str
    listener: str
    right: Arguments
    wrong: tuple[Case, ...]
    needs_kerberos: bool = False
    """Whether the node must have listeners with GSSAPI."""

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return the right credentials, and then the wrong ones."""
        return (Case(RIGHT), *self.wrong)

    def at(self, listener: str) -> Row:
        """Return the same row for another listener."""
        return replace(self, listener=listener)

    def arguments(self, case: Case) -> Arguments:
        """Return the arguments of a login."""
        return {**self.right, **case.changes}


_AUTHORITY = {"trust": File("ca.pem")}
_NO_SASL: Arguments = {"mechanism": None, "user": None, "password": None, "token": None}


def _sasl_rows(protocol: str, listener: str, tls: Arguments) -> tuple[Row, ...]:
    base: Arguments = {"protocol": protocol, **tls}
    no_sasl = Case(
        "no credentials",
        {"protocol": "SSL" if tls else "PLAINTEXT", **_NO_SASL},
        silent=("java", "librdkafka"),
    )
    passwords = (
        Case("wrong password", {"password": "wrong"}),
        Case("unknown user", {"user": "nobody"}),
        no_sasl,
    )
    named: Arguments = {"user": USER, "password": PASSWORD}
    tokens = (
        Case("wrong HMAC", {"user": DelegationToken("wrong HMAC")}),
        Case("unknown", {"user": DelegationToken("unknown")}),
        Case("expired", {"user": DelegationToken("expired")}, silent=("java",)),
    )
    return (
        Row(f"{protocol}, PLAIN", listener, {**base, "mechanism": "PLAIN", **named}, passwords),
        *(
            Row(
                f"{protocol}, {mechanism}",
                listener,
                {**base, "mechanism": mechanism, **named},
                (*passwords, Case("password of another mechanism", {"user": other})),
            )
            for mechanism, other in zip(SCRAM, ("only512", "only256"), strict=True)
        ),
        *(
            Row(
                f"{protocol}, {mechanism}, delegation token",
                listener,
                {
                    **base,
                    "mechanism": mechanism,
                    "user": DelegationToken(RIGHT),
                    "is_delegation_token": True,
                },
                tokens,
            )
            for mechanism in SCRAM
        ),
        Row(
            f"{protocol}, OAUTHBEARER",
            listener,
            {**base, "mechanism": "OAUTHBEARER", "token": AccessToken(RIGHT)},
            (
                *(
                    Case(f"token: {kind}", {"token": AccessToken(kind)}, silent=("aiokafka",))
                    for kind in (WRONG if not tls else WRONG[:1])
                ),
                no_sasl,
            ),
        ),
    )


_KERBEROS: Arguments = {
    "protocol": "SASL_PLAINTEXT",
    "mechanism": "GSSAPI",
    "service": "kafka",
    "principal": USER,
}
_KEYS: Arguments = {"keys": KerberosFile(f"{USER}.keytab")}
_OLD_KEYS = Case("keys that were replaced", {"keys": KerberosFile(f"{USER}.old.keytab")})
_KERBEROS_ROWS = (
    Row(
        "SASL_PLAINTEXT, GSSAPI",
        "KERBEROS",
        {**_KERBEROS, **_KEYS},
        (
            _OLD_KEYS,
            Case(
                "user that the KDC does not have",
                {"principal": "nobody", "keys": KerberosFile("nobody.keytab")},
            ),
            Case("service of another name", {"service": "http"}, silent=("java",)),
            Case("the broker has the keys of another service", listener="KERBEROS_STALE"),
            Case(
                "no rule applies to the name",
                listener="KERBEROS_RULES",
                silent=("java", "librdkafka", "aiokafka"),
            ),
            Case(
                "no credentials",
                {"protocol": "PLAINTEXT", "mechanism": None, "keys": None},
                silent=("java", "librdkafka"),
            ),
        ),
        needs_kerberos=True,
    ),
    Row(
        "SASL_PLAINTEXT, GSSAPI, ticket cache",
        "KERBEROS",
        {**_KERBEROS, "tickets": KerberosFile(f"{USER}.tickets")},
        (
            Case("expired ticket", {"tickets": KerberosFile(f"{USER}.expired.tickets")}),
            Case(
                "expired ticket for the service",
                {"tickets": KerberosFile(f"{USER}.outdated.tickets")},
            ),
            Case("no ticket", {"tickets": KerberosFile("missing.tickets")}),
        ),
        needs_kerberos=True,
    ),
    Row(
        "SASL_SSL, GSSAPI",
        "KERBEROS_SSL",
        {**_KERBEROS, **_KEYS, "protocol": "SASL_SSL", **_AUTHORITY},
        (_OLD_KEYS,),
        needs_kerberos=True,
    ),
)

ROWS = (
    Row(
        "PLAINTEXT",
        "PLAINTEXT",
        {"protocol": "PLAINTEXT"},
        (
            Case("TLS", {"protocol": "SSL", **_AUTHORITY}, silent=("java",)),
            Case(
                "SASL",
                {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "user": USER, "password": "x"},
            ),
        ),
    ),
    Row(
        "SSL",
        "SSL",
        {"protocol": "SSL", **_AUTHORITY},
        (
            Case("authority of somebody else", {"trust": File("other-ca.pem")}),
            Case("authorities of the system", {"trust": None}),
            Case("certificate of the broker has expired", listener="EXPIRED"),
            Case("certificate of the broker is for another host", listener="MISNAMED"),
            Case(
                "no TLS",
                {"protocol": "PLAINTEXT", "trust": None},
                silent=("java", "librdkafka"),
            ),
        ),
    ),
    Row(
        "SSL, certificate of the client",
        "MUTUAL",
        {"protocol": "SSL", **_AUTHORITY, "key": File("client.pem")},
        (
            Case("no certificate", {"key": None}),
            Case("certificate of another authority", {"key": File("stranger.pem")}),
            Case("expired certificate", {"key": File("expired-client.pem")}),
        ),
    ),
    *_sasl_rows("SASL_PLAINTEXT", "SASL", {}),
    Row(
        "SASL_PLAINTEXT, OAUTHBEARER, unsigned token",
        "UNSECURED",
        {
            "protocol": "SASL_PLAINTEXT",
            "mechanism": "OAUTHBEARER",
            "token": AccessToken(RIGHT, is_signed=False),
        },
        (
            Case(
                "token: expired",
                {"token": AccessToken("expired", is_signed=False)},
                silent=("aiokafka",),
            ),
            Case("token: signed", {"token": AccessToken(RIGHT)}, silent=("aiokafka",)),
            Case(
                "mechanism that is not enabled",
                {"mechanism": "PLAIN", "token": None, "user": USER, "password": PASSWORD},
            ),
        ),
    ),
    *_sasl_rows("SASL_SSL", "SASL_SSL", _AUTHORITY),
    *_KERBEROS_ROWS,
)
