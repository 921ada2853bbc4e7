"""Which keys, certificates and versions TLS uses. `odradek.env.tls_context` reads the files.

This module does not import `ssl`, so that a client without TLS starts quickly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

VERSIONS = ("TLSv1.2", "TLSv1.3")
PEM = "PEM"
PKCS12 = "PKCS12"
JKS = "JKS"
"""The default. As in Java, the types JKS and PKCS12 both mean a file of one of these formats."""
STORE_TYPES = (PEM, PKCS12, JKS)
"""The types of key stores and trust stores, with the words of `ssl.keystore.type`."""
_JKS_START = b"\xfe\xed\xfe\xed"
_SEQUENCE = b"\x30"
"""A PKCS#12 file is a sequence of ASN.1."""


class ClientAuth(Enum):
    """Whether clients must have a certificate, with the words of `ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsError(OSError):
    """The key or the certificates cannot be used. The message names the file."""


def type_of_file(file: str) -> str:
    """Return the type of a store: PKCS12, JKS, or PEM for all other files.

    Raises:
        OSError: the file cannot be read.
    """
    with open(file, "rb") as stored:
        start = stored.read(len(_JKS_START))
    if start == _JKS_START:
        return JKS
    return PKCS12 if start.startswith(_SEQUENCE) else PEM


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The key, the certificates and the versions of a listener."""

    key_file: str = ""
    """A file with the private key, its certificate, and the certificates of its issuers. Empty if
    `key_text` has them."""
    key_password: str = field(default="", repr=False)
    """The password of the key; of the whole file, if it is a PKCS#12 or JKS file."""
    trust_file: str | None = None
    """A file with the certificates of the issuers of clients' certificates."""
    client_auth: ClientAuth = ClientAuth.NONE
    versions: tuple[str, ...] = VERSIONS
    ciphers: str = ""
    """The cipher suites of TLS 1.2 with OpenSSL's names; empty for OpenSSL's default."""
    key_type: str = PEM
    key_text: str = field(default="", repr=False)
    """The key and the certificates in PEM form."""
    trust_type: str = PEM
    trust_text: str = ""
    """The certificates of the issuers in PEM form, if there is no `trust_file`."""
    trust_password: str = field(default="", repr=False)
    """The password of a PKCS#12 or JKS file."""
    allows_other_subject: bool = False
    """Whether a new certificate may have another distinguished name than the present one."""
    allows_fewer_names: bool = False
    """Whether a new certificate may lack alternative names of the present one."""
    inner_key_password: str = field(default="", repr=False)
    """The password of the key in a JKS file, if it differs from that of the file."""

    @property
    def key_name(self) -> str:
        """Where the key and the certificates are, for people."""
        return self.key_file or "ssl.keystore.certificate.chain"


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What a client trusts, and its own key and certificate if it has one."""

    trust_file: str | None = None
    """A file with trusted certificates. Without this file and `trust_text`, the client trusts the
    authorities of the system."""
    trust_text: str = ""
    """Trusted certificates as text."""
    key_file: str | None = None
    """A file with the private key. It also has the certificates if `certificate_file` is None."""
    key_text: str = field(default="", repr=False)
    """The private key and the certificates in PEM form, if there is no `key_file`."""
    certificate_file: str | None = None
    key_password: str = field(default="", repr=False)
    """The password of the key; of the whole file, if it is a PKCS#12 or JKS file."""
    verifies_server: bool = True
    """Whether the server must have a certificate that is trusted."""
    verifies_host: bool = True
    """Whether the certificate must contain the host name or address that the client connects to."""
    versions: tuple[str, ...] = VERSIONS
    ciphers: str = ""
    """The cipher suites of TLS 1.2 with OpenSSL's names; empty for OpenSSL's default."""
    key_type: str = PEM
    trust_type: str = PEM
    trust_password: str = field(default="", repr=False)
    """The password of a PKCS#12 or JKS file."""
    inner_key_password: str = field(default="", repr=False)
    """The password of the key in a JKS file, if it differs from that of the file."""
