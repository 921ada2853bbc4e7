"""Reads PKCS#12 files with the package `cryptography`, because Python's `ssl` reads only PEM files.

A key store has a private key with its certificate, and the certificates of its issuers. A trust
store has certificates. Java's `keytool` and the program `openssl` make such files.

OpenSSL takes a private key only from a file. So `key_file` is a temporary PEM file with the key,
which is encrypted with a random password.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from odradek.env import pem
from odradek.env.tls_files import JKS, PKCS12, type_of_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

WORD_BYTES = 24
STORES_KEPT = 8
"""How many decrypted stores are kept. The decryption of a store takes some milliseconds."""


class _Store(NamedTuple):
    """The contents of a PKCS#12 file in PEM form."""

    key: bytes
    """The encrypted private key; empty if there is none."""
    word: str
    """The password of `key`."""
    chain: str
    """The certificate of the key, and the certificates of its issuers."""
    certificates: str
    """All certificates."""


def is_pkcs12(file: str, store_type: str) -> bool:
    """Return whether a store is a PKCS#12 file. As in Java, such a file may also have the type JKS.

    Raises:
        OSError, ValueError: the type is JKS, and the file cannot be read or is not a PKCS#12 file.
    """
    if store_type != JKS:
        return store_type == PKCS12
    if type_of_file(file) != PKCS12:
        raise ValueError("it is not a PKCS#12 file. If it is a PEM file, set the type to PEM")
    return True


@contextmanager
def key_file(file: str, password: str) -> Iterator[tuple[str, str]]:
    """Yield the path of a temporary PEM file with the key and its certificates, and its password.

    Raises:
        OSError, ValueError: the file cannot be read, the password is wrong, or there is no key.
    """
    store = _read(file, password)
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
    store = _read(file, password)
    if not store.certificates:
        raise ValueError("it has no certificates")
    return store.certificates


def chain(file: str, password: str) -> str:
    """Return the certificate of the key and those of its issuers in PEM form.

    Raises:
        OSError, ValueError: the file cannot be read, or the password is wrong.
    """
    return _read(file, password).chain


def _read(file: str, password: str) -> _Store:
    status = os.stat(file)
    return _decrypted(file, password, status.st_mtime_ns, status.st_size)


@lru_cache(STORES_KEPT)
def _decrypted(file: str, password: str, modified_ns: int, size: int) -> _Store:
    """Return the contents of a file. The time and the size tell whether it has changed."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise ValueError(
            "PKCS#12 files need the package cryptography: pip install cryptography"
        ) from error
    with open(file, "rb") as stored:
        data = stored.read()
    try:
        loaded = pkcs12.load_pkcs12(data, password.encode() or None)
    except TypeError as error:
        raise ValueError(str(error)) from error
    pem = serialization.Encoding.PEM
    word = secrets.token_hex(WORD_BYTES)
    key = b""
    if loaded.key is not None:
        key = loaded.key.private_bytes(
            pem,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(word.encode()),
        )
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
