"""Parses `odradek format --add-scram`, as Apache Kafka's ScramParser does (KIP-900).

SCRAM-SHA-256=[name=alice,password=alice-secret]
SCRAM-SHA-512=[name=alice,iterations=8192,salt="MWx2NHBkbnc=",saltedpassword="..."]
"""

from __future__ import annotations

import base64
import binascii

from odradek.core.sasl.scram_keys import (
    BY_NAME,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    keys_of,
    salted_password,
)
from odradek.env.randomness import RandomBytes
from odradek.node.format import FormatError
from odradek.wire.generated.user_scram_credential_record import UserScramCredentialRecord

SALT_BYTES = 20
_FIELDS = frozenset(("name", "salt", "iterations", "password", "saltedpassword"))


def parse_credential(text: str, random_bytes: RandomBytes) -> UserScramCredentialRecord:
    """Return the record of a credential. Without a salt in the text, choose a random one.

    Raises:
        FormatError: the text is malformed. The message contains no password.
    """
    name, equals, inner = text.strip().partition("=")
    mechanism = BY_NAME.get(name)
    if mechanism is None or not equals:
        raise FormatError(
            f"--add-scram must begin with one of {', '.join(BY_NAME)} and an equals sign, "
            "as in SCRAM-SHA-256=[name=alice,password=secret]"
        )
    if not (inner.startswith("[") and inner.endswith("]")):
        raise FormatError("--add-scram: the fields must be in brackets: [name=...,password=...]")
    fields = _fields(inner[1:-1])
    if not fields.get("name"):
        raise FormatError("--add-scram needs a name")
    salt = _decoded(fields, "salt") if "salt" in fields else random_bytes(SALT_BYTES)
    iterations = _iterations(fields)
    keys = keys_of(mechanism, _salted(mechanism, fields, salt, iterations))
    return UserScramCredentialRecord(
        name=fields["name"],
        mechanism=mechanism.number,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in _FIELDS:
            known = ", ".join(sorted(_FIELDS))
            raise FormatError(f"--add-scram: each field must be NAME=VALUE, with one of {known}")
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
        fields[name] = value
    return fields


def _iterations(fields: dict[str, str]) -> int:
    text = fields.get("iterations", str(ITERATIONS_MIN))
    if not text.isdecimal() or not ITERATIONS_MIN <= int(text) <= ITERATIONS_MAX:
        raise FormatError(
            f"--add-scram: iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    return int(text)


def _salted(
    mechanism: ScramMechanism, fields: dict[str, str], salt: bytes, iterations: int
) -> bytes:
    if "password" in fields:
        return salted_password(mechanism, fields["password"], salt, iterations)
    if "saltedpassword" not in fields:
        raise FormatError("--add-scram needs a password or a saltedpassword")
    if "salt" not in fields:
        raise FormatError("--add-scram needs the salt of the saltedpassword")
    return _decoded(fields, "saltedpassword")


def _decoded(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields[name], validate=True)
    except (binascii.Error, ValueError):
        raise FormatError(f"--add-scram: {name} must be base64") from None
