"""Which keys, certificates and versions TLS uses. `odradek.env.tls_context` reads the files.

This module does not import `ssl`, so that a client without TLS starts quickly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

VERSIONS = ("TLSv1.2", "TLSv1.3")


class ClientAuth(Enum):
    """Whether clients must have a certificate, with the words of `ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsError(OSError):
    """The key or the certificates cannot be used. The message names the file."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The key, the certificates and the versions of a listener."""

    key_file: str
    """A PEM file with the private key, its certificate, and the certificates of its issuers."""
    key_password: str = field(default="", repr=False)
    trust_file: str | None = None
    """A PEM file with the certificates of the issuers of clients' certificates."""
    client_auth: ClientAuth = ClientAuth.NONE
    versions: tuple[str, ...] = VERSIONS


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What a client trusts, and its own key and certificate if it has one."""

    trust_file: str | None = None
    """A PEM file with trusted certificates. Without this file and `trust_text`, the client trusts
    the authorities of the system."""
    trust_text: str = ""
    """Trusted certificates as text."""
    key_file: str | None = None
    """A PEM file with the private key. It also has the certificates if `certificate_file` is None.
    """
    certificate_file: str | None = None
    key_password: str = field(default="", repr=False)
    verifies_server: bool = True
    """Whether the server must have a certificate that is trusted."""
    verifies_host: bool = True
    """Whether the certificate must contain the host name or address that the client connects to."""
    versions: tuple[str, ...] = VERSIONS
