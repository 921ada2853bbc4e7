"""Reads key stores and trust stores, because Python's `ssl` reads only PEM files.

A key store has a private key with its certificate, and the certificates of its issuers. A trust
store has certificates. Java's `keytool` and the program `openssl` make such files. The package
`cryptography` reads PKCS#12 files, and keys in JKS files (see `jks`).

OpenSSL takes a private key only from a file. So `key_file` is a temporary PEM file with the key,
which is encrypted with a random password.
"""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.config import extras
from odradek.env import jks, pem
from odradek.env.tls_files import PEM, type_of_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

WORD_BYTES = 24
STORES_KEPT = 8
"""How many decrypted stores are kept. The decryption of a store takes some milliseconds."""


class _Store(NamedTuple):
    """The contents of a store in PEM form."""

    key: bytes
    """The encrypted private key; empty if there is none."""
    word: str
    """The password of `key`."""
    chain: str
    """The certificate of the key, and the certificates of its issuers."""
    certificates: str
    """All certificates."""


def is_key_store(file: str, store_type: str) -> bool:
    """Return whether a file is PKCS#12 or JKS, not PEM. As in Java, both types open both formats.

    Raises:
        OSError, ValueError: the file cannot be read, or is a PEM file with another type.
    """
    if store_type == PEM:
        return False
    if type_of_file(file) == PEM:
        raise ValueError("it is no PKCS#12 or JKS file. If it is a PEM file, set the type to PEM")
    return True


@contextmanager
def key_file(file: str, password: str, key_password: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of a temporary PEM file with the key and its certificates, and its password.

    `key_password` is that of the key in a JKS file, if it differs from that of the file.

    Raises:
        OSError, ValueError: the file cannot be read, the password is wrong, or there is no key.
    """
    store = _read(file, password, key_password)
    if not store.key:
        raise ValueError("it has no private key")
    with pem.key_file(store.key.decode() + store.chain) as path:
        yield path, store.word


def certificates(file: str, password: str) -> str:
    """Return the certificates of a trust store in PEM form.

    Raises:
        OSError, ValueError: the file cannot be read, the password is wrong, or there is no
            certificate.
    """
    store = _read(file, password, None)
    if not store.certificates:
        raise ValueError("it has no certificates")
    return store.certificates


def chain(file: str, password: str) -> str:
    """Return the certificate of the key and those of its issuers in PEM form.

    Raises:
        OSError, ValueError: the file cannot be read, or the password is wrong.
    """
    return _read(file, password, None).chain


def _read(file: str, password: str, key_password: str | None) -> _Store:
    """Return the contents of a file; if `key_password` is None, without the key."""
    status = os.stat(file)
    return _decrypted(file, password, key_password, status.st_mtime_ns, status.st_size)


@lru_cache(STORES_KEPT)
def _decrypted(
    file: str, password: str, key_password: str | None, modified_ns: int, size: int
) -> _Store:
    """Return the contents of a file. The time and the size tell whether it has changed."""
    with open(file, "rb") as stored:
        data = stored.read()
    if data.startswith(jks.MAGIC):
        return _of_java(jks.parse(data, password), password, key_password)
    return _of_pkcs12(data, password)


def _of_java(store: jks.JavaKeyStore, password: str, key_password: str | None) -> _Store:
    word, key = secrets.token_hex(WORD_BYTES), b""
    if store.protected_key and key_password is not None:
        serialization = _serialization()
        plain = jks.unprotected(store.protected_key, key_password or password)
        key = _encrypted(serialization.load_der_private_key(plain, None), word)
    chain, trusted = (
        "".join(map(ssl.DER_cert_to_PEM_cert, each)) for each in (store.chain, store.trusted)
    )
    return _Store(key, word, chain, trusted)


def _serialization() -> ModuleType:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise ValueError(
            "PKCS#12 files, and keys in JKS files, need the package cryptography: "
            f"{extras.install(extras.SECURE)}"
        ) from error
    return serialization


def _encrypted(key: Any, word: str) -> bytes:
    serialization = _serialization()
    made: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(word.encode()),
    )
    return made


def _of_pkcs12(data: bytes, password: str) -> _Store:
    serialization = _serialization()
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        loaded = pkcs12.load_pkcs12(data, password.encode() or None)
    except TypeError as error:
        raise ValueError(str(error)) from error
    pem = serialization.Encoding.PEM
    word = secrets.token_hex(WORD_BYTES)
    key = b"" if loaded.key is None else _encrypted(loaded.key, word)
    own = [] if loaded.cert is None else [loaded.cert.certificate]
    every = [*own, *(each.certificate for each in loaded.additional_certs)]
    return _Store(
        key,
        word,
        "".join(each.public_bytes(pem).decode() for each in _chain(loaded)),
        "".join(each.public_bytes(pem).decode() for each in every),
    )


def _chain(loaded: PKCS12KeyAndCertificates) -> list[Certificate]:
    """Return the certificate of the key, and the issuer of each certificate after it."""
    if loaded.cert is None:
        return []
    chain = [loaded.cert.certificate]
    others = [each.certificate for each in loaded.additional_certs]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        others.remove(issuer)
        chain.append(issuer)
    return chain
