"""Reads key stores in Java's own format JKS, the default of `keytool` before Java 9.

After the magic number and the version come entries: private keys with their certificates, and
trusted certificates. A SHA-1 digest of the password and the file ends it. A private key is xored with
SHA-1 digests that begin with a salt, and has its own password (Sun's KeyProtector). The protection is
weak by today's standards, as Java warns, too.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

MAGIC: Final = b"\xfe\xed\xfe\xed"
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_PRIVATE_KEY, _CERTIFICATE = 1, 2
_PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier of KeyProtector's algorithm."""
_OCTET_STRING, _SEQUENCE = 4, 0x30


class JavaKeyStore(NamedTuple):
    """The contents of a file in DER form."""

    protected_key: bytes
    """The first private key, still protected; empty if there is none."""
    chain: tuple[bytes, ...]
    """The certificate of the key, and those of its issuers."""
    trusted: tuple[bytes, ...]
    """The trusted certificates, and as in Java the certificates of keys, without their issuers."""


def parse(data: bytes, password: str) -> JavaKeyStore:
    """Parse a file. Without a password its digest is not checked, as in Java.

    Raises:
        ValueError: the file is malformed, or the password is wrong.
    """
    reader = _Reader(data[:-_DIGEST_BYTES])
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if reader.take(4) != MAGIC or (version := reader.number()) not in (1, 2):
        raise ValueError("it is not a JKS file of version 1 or 2")
    if password:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, expected):
            raise ValueError("the password is wrong, or the file is damaged")
    protected = b""
    chain: tuple[bytes, ...] = ()
    trusted: list[bytes] = []
    for _ in range(reader.number()):
        kind = reader.number()
        reader.text()  # the alias
        reader.take(8)  # the time of its creation
        if kind == _PRIVATE_KEY:
            key = reader.take(reader.number())
            certificates = tuple(reader.certificate(version) for _ in range(reader.number()))
            if not protected:
                protected, chain = key, certificates
            trusted += certificates[:1]
        elif kind == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        else:
            raise ValueError(f"it has an entry of the unknown kind {kind}")
    return JavaKeyStore(protected, chain, tuple(trusted))


def unprotected(protected_key: bytes, password: str) -> bytes:
    """Return a private key in PKCS#8 form.

    Raises:
        ValueError: the key is malformed, or the password is wrong.
    """
    outer = _Reader(_Reader(protected_key).element(_SEQUENCE))
    if not outer.element(_SEQUENCE).startswith(_PROTECTOR):
        raise ValueError("the key has an unknown kind of protection")
    content = outer.element(_OCTET_STRING)
    salt, secret = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:-_DIGEST_BYTES]
    word, digest, stream = _utf16(password), salt, bytearray()
    while len(stream) < len(secret):
        digest = hashlib.sha1(word + digest, usedforsecurity=False).digest()
        stream += digest
    key = bytes(a ^ b for a, b in zip(secret, stream, strict=False))
    expected = hashlib.sha1(word + key, usedforsecurity=False).digest()
    if not hmac.compare_digest(content[-_DIGEST_BYTES:], expected):
        raise ValueError("the password of the key is wrong")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


class _Reader:
    """Reads a file, or an element of ASN.1 in DER form, from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._data):
            raise ValueError("it is truncated or damaged")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> bytes:
        return self.take(int.from_bytes(self.take(2), "big"))

    def certificate(self, version: int) -> bytes:
        if version > 1 and (kind := self.text()) != b"X.509":
            raise ValueError(f"it has a certificate of the unknown kind {kind!r}")
        return self.take(self.number())

    def element(self, tag: int) -> bytes:
        """Return the content of an element of ASN.1."""
        if self.take(1)[0] != tag:
            raise ValueError("the key is damaged")
        length = self.take(1)[0]
        if length > 0x7F:
            length = int.from_bytes(self.take(length & 0x7F), "big")
        return self.take(length)
