"""The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512, and the keys of their credentials (RFC 5802).

The server stores a salt, the number of iterations, and two keys of each user, but not the password:

    salted password = PBKDF2(password, salt, iterations)
    client key      = HMAC(salted password, "Client Key")
    stored key      = H(client key)
    server key      = HMAC(salted password, "Server Key")

As in Kafka, the password is not normalized with SASLprep (RFC 4013).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384


class ScramMechanism(NamedTuple):
    """A mechanism. `number` stands for it in requests and records."""

    number: int
    name: str
    hash_name: str


SCRAM_SHA_256 = ScramMechanism(1, "SCRAM-SHA-256", "sha256")
SCRAM_SHA_512 = ScramMechanism(2, "SCRAM-SHA-512", "sha512")
BY_NAME = {each.name: each for each in (SCRAM_SHA_256, SCRAM_SHA_512)}
BY_NUMBER = {each.number: each for each in BY_NAME.values()}


class ScramKeys(NamedTuple):
    """The two keys that the server stores."""

    stored_key: bytes
    server_key: bytes


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Return the salted password. This takes some milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def keys_of(mechanism: ScramMechanism, salted: bytes) -> ScramKeys:
    """Return the keys of a salted password."""
    client_key = signature(mechanism, salted, b"Client Key")
    server_key = signature(mechanism, salted, b"Server Key")
    return ScramKeys(digest(mechanism, client_key), server_key)


def signature(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    """Return the HMAC of a message."""
    return hmac.digest(key, message, mechanism.hash_name)


def digest(mechanism: ScramMechanism, data: bytes) -> bytes:
    """Return the hash of bytes."""
    return hashlib.new(mechanism.hash_name, data).digest()
