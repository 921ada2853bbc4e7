"""Sequences of requests on one connection of a listener with SASL, in right and wrong order."""

from __future__ import annotations

from typing import Any, NamedTuple

USER, PASSWORD = "user0", "p"
"""A user of the listener. All users have the same password."""


class Step(NamedTuple):
    """A request; with the API `raw`, a token without a request around it."""

    api: str
    version: int
    fields: dict[str, Any]


def _plain(user: str = USER, password: str = PASSWORD, identity: str = "") -> bytes:
    return f"{identity}\0{user}\0{password}".encode()


def _token(data: bytes, version: int = 2) -> Step:
    return Step("SaslAuthenticate", version, {"auth_bytes": data})


def _raw(data: bytes) -> Step:
    return Step("raw", 0, {"data": data})


VERSIONS = Step("ApiVersions", 4, {"client_software_name": "a", "client_software_version": "1"})
INVALID_VERSIONS = Step("ApiVersions", 4, {})
PLAIN = Step("SaslHandshake", 1, {"mechanism": "PLAIN"})
OLD_PLAIN = Step("SaslHandshake", 0, {"mechanism": "PLAIN"})
SCRAM = Step("SaslHandshake", 1, {"mechanism": "SCRAM-SHA-256"})
MISSING = Step("SaslHandshake", 1, {"mechanism": "MISSING"})
METADATA = Step("Metadata", 9, {"topics": []})
RIGHT = _token(_plain())

DIALOGUES: dict[str, tuple[Step, ...]] = {
    "right": (VERSIONS, PLAIN, RIGHT, VERSIONS, METADATA),
    "without versions": (PLAIN, RIGHT, METADATA),
    "old token": (PLAIN, _token(_plain(), 0), METADATA),
    "own identity": (PLAIN, _token(_plain(identity=USER)), METADATA),
    "another identity": (PLAIN, _token(_plain(identity="admin"))),
    "wrong password": (PLAIN, _token(_plain(password="wrong")), METADATA),
    "unknown user": (PLAIN, _token(_plain(user="nobody"))),
    "no password": (PLAIN, _token(_plain(password=""))),
    "no user": (PLAIN, _token(_plain(user=""))),
    "two parts": (PLAIN, _token(b"\0user0")),
    "four parts": (PLAIN, _token(_plain() + b"\0")),
    "five parts": (PLAIN, _token(_plain() + b"\0a\0b")),
    "empty token": (PLAIN, _token(b"")),
    "not UTF-8": (PLAIN, _token(b"\xff\xfe\0\xfd\0")),
    "wrong, then right": (PLAIN, _token(_plain(password="wrong")), PLAIN, RIGHT),
    "token first": (RIGHT,),
    "request first": (METADATA,),
    "request after versions": (VERSIONS, METADATA),
    "request instead of a token": (PLAIN, METADATA),
    "versions instead of a token": (PLAIN, VERSIONS),
    "handshake instead of a token": (PLAIN, PLAIN),
    "versions twice": (VERSIONS, VERSIONS),
    "invalid versions": (INVALID_VERSIONS, VERSIONS, PLAIN, RIGHT),
    "missing mechanism": (MISSING, PLAIN),
    "mechanism that is not enabled": (SCRAM,),
    "raw token": (OLD_PLAIN, _raw(_plain()), METADATA),
    "wrong raw token": (OLD_PLAIN, _raw(_plain(password="wrong"))),
    "short raw token": (OLD_PLAIN, _raw(b"\0a\0b")),
    "request instead of a raw token": (OLD_PLAIN, RIGHT),
    "handshake again": (PLAIN, RIGHT, PLAIN, RIGHT),
}
"""What the client sends. It stops when the connection is closed."""
