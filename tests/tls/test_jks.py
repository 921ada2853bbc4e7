"""Files in Java's format JKS that the test writes, and damaged ones."""

import hashlib
import struct

import pytest

from odradek.env.jks import MAGIC, JavaKeyStore, parse, unprotected

WORD = "gehëim"
KEY = bytes(range(200)) * 3


def sha1(*parts):
    return hashlib.sha1(b"".join(parts)).digest()


def element(tag, content):
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + struct.pack(">H", size)
    return bytes([tag]) + length + content


def protected(key, word):
    text, salt = word.encode("utf-16-be"), bytes(range(20))
    digest, secret = salt, b""
    while len(secret) < len(key):
        digest = sha1(text, digest)
        secret += digest
    secret = bytes(a ^ b for a, b in zip(key, secret, strict=False))
    algorithm = element(0x30, bytes.fromhex("060a2b060104012a02110101") + b"\x05\x00")
    content = element(4, salt + secret + sha1(text, key))
    return element(0x30, algorithm + content)


def certificate(data):
    return struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(data)) + data


def store(*entries, word=WORD):
    body = MAGIC + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    return body + sha1(word.encode("utf-16-be"), b"Mighty Aphrodite", body)


def entry(kind, content):
    alias = "schlüssel".encode()
    return struct.pack(">IH", kind, len(alias)) + alias + bytes(8) + content


def key_entry(key, *chain):
    return entry(
        1,
        struct.pack(">I", len(key)) + key
        + struct.pack(">I", len(chain)) + b"".join(map(certificate, chain)),
    )  # fmt: skip


FULL = store(
    entry(2, certificate(b"authority")),
    key_entry(protected(KEY, "inner"), b"mine", b"issuer"),
    key_entry(b"second", b"other"),
)


def test_keys_and_certificates():
    found = parse(FULL, WORD)
    assert found == JavaKeyStore(
        protected(KEY, "inner"),
        (b"mine", b"issuer"),
        (b"authority", b"mine", b"other"),
    )
    assert unprotected(found.protected_key, "inner") == KEY
    assert parse(FULL, "") == found, "as in Java, the digest is not checked then"
    assert parse(store(), WORD) == JavaKeyStore(b"", (), ())


def test_wrong_passwords():
    with pytest.raises(ValueError, match="the password is wrong"):
        parse(FULL, "other")
    with pytest.raises(ValueError, match="the password of the key is wrong"):
        unprotected(protected(KEY, "inner"), "other")


def test_damaged_files():
    for end in range(len(FULL)):
        with pytest.raises(ValueError, match=r"it |password"):
            parse(FULL[:end], WORD)
        with pytest.raises(ValueError, match="it "):
            parse(FULL[:end], "")
    with pytest.raises(ValueError, match="unknown kind 3"):
        parse(store(entry(3, b"")), WORD)
    with pytest.raises(ValueError, match="not a JKS file of version"):
        parse(MAGIC + struct.pack(">II", 3, 0) + bytes(20), "")


def test_damaged_keys():
    key = protected(KEY, "inner")
    for end in range(len(key)):
        with pytest.raises(ValueError, match=r"key|damaged"):
            unprotected(key[:end], "inner")
    other = key.replace(bytes.fromhex("02110101"), bytes.fromhex("02110102"))
    with pytest.raises(ValueError, match="unknown kind of protection"):
        unprotected(other, "inner")
