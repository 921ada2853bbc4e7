"""The names in the certificate of a listener, which a new certificate must keep (Kafka's SslFactory).

Clients verify these names, and other nodes know this one by its distinguished name. So a wrong file must not
lock them out: a new certificate must have the distinguished name of the present one and all of its
alternative names, unless `ssl.allow.dn.changes` or `ssl.allow.san.changes` allows other names.

Python's `ssl` does not show what is in a file, so the package `cryptography` reads the names. Names that
cannot be read, or without this package, are not compared.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from odradek.env import key_store, pem
from odradek.env.tls_files import ServerTls, TlsError

log = logging.getLogger("odradek.tls")


class CertificateNames(NamedTuple):
    """The names in a certificate."""

    subject: str
    """The distinguished name, as in RFC 4514."""
    alternatives: frozenset[str]
    """The alternative names, each with its type."""


def certificate_names(tls: ServerTls) -> CertificateNames | None:
    """Return the names in the certificate of a listener; None if they cannot be read."""
    try:
        from cryptography import x509
    except ImportError:
        return None
    try:
        if tls.key_text:
            text = pem.with_lines(tls.key_text).encode()
        elif key_store.is_key_store(tls.key_file, tls.key_type):
            text = key_store.chain(tls.key_file, tls.key_password).encode()
        else:
            text = Path(tls.key_file).read_bytes()
        certificate = x509.load_pem_x509_certificate(text)
        alternatives = [
            f"{type(name).__name__} {name.value}"
            for extension in certificate.extensions
            if isinstance(extension.value, x509.SubjectAlternativeName)
            for name in extension.value
        ]
    except (OSError, ValueError) as error:
        log.warning("the names in %s cannot be read, and are not compared: %s", tls.key_name, error)
        return None
    return CertificateNames(certificate.subject.rfc4514_string(), frozenset(alternatives))


def check_change(
    present: CertificateNames | None, new: CertificateNames | None, tls: ServerTls
) -> None:
    """Check whether a new certificate, which is that of `tls`, may replace the present one.

    Raises:
        TlsError: the name differs, or alternative names are missing.
    """
    if present is None or new is None:
        return
    if not tls.allows_other_subject and _canonical(present.subject) != _canonical(new.subject):
        raise TlsError(
            f"the certificate in {tls.key_name} has the distinguished name {new.subject}, but that of "
            f"the present certificate is {present.subject}; set ssl.allow.dn.changes=true to allow this"
        )
    missing = present.alternatives - new.alternatives
    if not tls.allows_fewer_names and missing:
        raise TlsError(
            f"the certificate in {tls.key_name} has not all alternative names of the present "
            f"certificate: {', '.join(sorted(missing))} is missing; set ssl.allow.san.changes=true to "
            "allow this"
        )


def _canonical(subject: str) -> str:
    """Return a name for comparisons: upper and lower case are equal, and so are numbers of spaces."""
    return " ".join(subject.casefold().split())
