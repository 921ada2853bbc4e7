"""Kerberos with the package gssapi, which calls the Kerberos library of the system (RFC 2743, RFC 4121).

`accept` and `initiate` create the security context of one authentication. Its steps read key tables
and caches of tickets, and the client's first step asks the key distribution centre (KDC). So they
run on a thread where others would wait for them. The key table is read for each authentication: a
new connection uses changed keys.

The package is imported when it is needed, because few nodes and clients have it.
"""

from __future__ import annotations

from typing import Any, Protocol

from odradek.config.kerberos import KerberosLogin

_TRY_AGAIN = (21, 33, 34)
"""Errors of Kerberos that can have other causes than wrong credentials: the client or its ticket is not
valid yet, or the request is a replay (RFC 4120, section 7.5.9)."""
_ERRORS_BASE = -1765328384
"""The number of error 0 of Kerberos in the libraries' tables of errors."""
_ERRORS_MODULUS = 1 << 32


class KerberosError(Exception):
    """Kerberos refuses the credentials, or does not have them. The message has no secrets."""

    def __init__(self, reason: str, *, may_succeed_later: bool = False) -> None:
        super().__init__(reason)
        self.may_succeed_later = may_succeed_later
        """Whether the same credentials may be accepted if they are tried again."""


class SecurityContext(Protocol):
    """One side of an authentication. The methods raise KerberosError."""

    @property
    def is_complete(self) -> bool:
        """Whether both sides are authenticated."""
        ...

    @property
    def peer(self) -> str:
        """The name of the other side, when the context is complete."""
        ...

    def step(self, token: bytes) -> bytes:
        """Process a token of the other side; return the token for it, which may be empty."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Return a message with a checksum."""
        ...

    def unwrap(self, token: bytes) -> bytes:
        """Verify the checksum of a message, and return the message."""
        ...


class _Context:
    """A `SecurityContext` of the package."""

    def __init__(self, context: Any, errors: type[Exception]) -> None:
        # As Java, send no token about an error: the response to the request says it.
        context.__DEFER_STEP_ERRORS__ = False
        self._context = context
        self._errors = errors

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def peer(self) -> str:
        try:
            context = self._context
            return str(context.target_name if context.locally_initiated else context.initiator_name)
        except self._errors as error:
            raise _described(error) from error

    def step(self, token: bytes) -> bytes:
        try:
            return bytes(self._context.step(token or None) or b"")
        except self._errors as error:
            raise _described(error) from error

    def wrap(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.wrap(message, False).message)  # not encrypted
        except self._errors as error:
            raise _described(error) from error

    def unwrap(self, token: bytes) -> bytes:
        try:
            return bytes(self._context.unwrap(token).message)
        except self._errors as error:
            raise _described(error) from error


def accept(principal: str, key_table: str) -> SecurityContext:
    """Return the side of the service `principal`, whose keys are in a file.

    If the name of the file is empty, the Kerberos library chooses it.

    Raises:
        KerberosError: the file cannot be read, or does not have the keys.
    """
    import gssapi

    try:
        kerberos = gssapi.MechType.kerberos
        credentials = gssapi.Credentials(
            name=gssapi.Name(principal, gssapi.NameType.kerberos_principal),
            mechs=[kerberos],
            usage="accept",
            store={"keytab": key_table} if key_table else None,
        )
        context = gssapi.SecurityContext(creds=credentials, usage="accept")
    except gssapi.exceptions.GSSError as error:
        raise _described(error) from error
    return _Context(context, gssapi.exceptions.GSSError)


def initiate(login: KerberosLogin, host: str) -> SecurityContext:
    """Return the side of a client that logs in to the service on `host`.

    With a key table, the library gets tickets with the keys in it, and keeps them in the memory of this
    process until they expire. Otherwise they come from a cache of tickets.

    Raises:
        KerberosError: there are no tickets.
    """
    import gssapi

    service, principal, key_table, ticket_cache = login
    store: dict[str, str] = {}
    if key_table is not None:
        store["ccache"] = f"MEMORY:odradek {principal} {key_table}"
        if key_table:
            store["client_keytab"] = key_table
    elif ticket_cache:
        store["ccache"] = ticket_cache
    try:
        kerberos = gssapi.MechType.kerberos
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
        credentials = gssapi.Credentials(
            name=name, mechs=[kerberos], usage="initiate", store=store or None
        )
        context = gssapi.SecurityContext(
            name=gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service),
            creds=credentials,
            mech=kerberos,
            usage="initiate",
            flags=[
                gssapi.RequirementFlag.mutual_authentication,
                gssapi.RequirementFlag.integrity,
            ],
        )
    except gssapi.exceptions.GSSError as error:
        raise _described(error) from error
    return _Context(context, gssapi.exceptions.GSSError)


def default_realm() -> str:
    """Return the realm of names without one; empty if there is none."""
    import gssapi

    try:
        name = gssapi.Name("x", gssapi.NameType.kerberos_principal)
        return str(name.canonicalize(gssapi.MechType.kerberos)).partition("@")[2]
    except gssapi.exceptions.GSSError:
        return ""  # as in Apache Kafka: the rule DEFAULT then applies to no name


def _described(error: Any) -> KerberosError:
    """Return the error of the library in its own words."""
    minor, major = error.min_code, error.maj_code
    words = error.get_all_statuses(minor, False) if minor else error.get_all_statuses(major, True)
    number = (minor - _ERRORS_BASE) % _ERRORS_MODULUS
    return KerberosError("; ".join(words), may_succeed_later=number in _TRY_AGAIN)
