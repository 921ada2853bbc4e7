"""A certificate authority for development, in a directory: keys and certificates as PEM files.

The keys are P-256. Apache Kafka, librdkafka and OpenSSL read the files: a file of a node or user
has the private key (PKCS#8), its certificate, and the certificate of the authority.

This module needs the package cryptography (the extra `secure`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from odradek.cli.secret_files import write_secret

SKEW = timedelta(days=1)
"""Certificates are valid from this time before now, because clocks may differ."""


class Authority:
    """A certificate authority: `ca.pem` and `ca.key` in a directory."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self._key = key

    @classmethod
    def create(cls, directory: Path, name: str, days: int) -> Authority:
        """Make an authority, and write its files."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), _name(name), key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(is_authority=True), True)
        made = cls(builder.sign(key, hashes.SHA256()), key)
        write_secret(directory / "ca.key", _key_bytes(key))
        (directory / "ca.pem").write_bytes(_bytes(made.certificate))
        return made

    @classmethod
    def load(cls, directory: Path) -> Authority:
        """Read the files of an authority.

        Raises:
            ClickException: there are none, or they cannot be read.
        """
        try:
            certificate = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
            key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise click.ClickException(
                f"cannot use ca.pem and ca.key in {directory}: {error}. Make an authority with: "
                f"odradek secure init {directory}"
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise click.ClickException(f"{directory / 'ca.key'} is no key of odradek secure")
        return cls(certificate, key)

    def issue(self, name: str, hosts: Sequence[str], days: int) -> bytes:
        """Return a new private key, its certificate for these hosts, and the authority's."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self.certificate.subject, key, days)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if hosts:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(x509.SubjectAlternativeName(map(_host, hosts)), False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(is_authority=False), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
        )
        made = builder.sign(self._key, hashes.SHA256())
        return _key_bytes(key) + _bytes(made) + _bytes(self.certificate)

    @staticmethod
    def hosts_of(file: Path) -> list[str]:
        """Return the hosts in the certificate of a file that `issue` made."""
        try:
            certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
            names = certificate.extensions.get_extension_for_class(
                x509.SubjectAlternativeName
            ).value
        except (OSError, ValueError, x509.ExtensionNotFound):
            return []
        return [
            *names.get_values_for_type(x509.DNSName),
            *map(str, names.get_values_for_type(x509.IPAddress)),
        ]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _bytes(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
