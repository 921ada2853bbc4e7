"""Access tokens in the form of JSON Web Tokens (RFC 7519), and how they are parsed.

A token has three parts, which are separated by dots: a header, claims, and a signature. Header and
claims are JSON objects in base64url. This module does not verify the signature.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import NamedTuple

SECONDS_MAX = 2**63 // 1000 - 1
"""A later time does not fit into 64 bits as milliseconds."""
HEADER_LENGTH_MAX = 16 * 1024
_PARTS = 3
_URL_SAFE = bytes.maketrans(b"-_", b"+/")

Claims = Mapping[str, object]


class InvalidToken(Exception):
    """A token that is not accepted.

    `reason` is for the log of the server, and has no secrets. `missing_scope` are the required
    scopes, if one of them is missing.
    """

    def __init__(self, reason: str, missing_scope: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing_scope = missing_scope


class AccessToken(NamedTuple):
    """What the server notes about an accepted token."""

    user: str
    expires_ms: int


class ParsedToken(NamedTuple):
    """The parts of a token. The signature has not been verified."""

    header: Claims
    encoded_claims: str
    signed: bytes
    """The bytes that are signed."""
    signature: bytes

    def claims(self) -> Claims:
        """Decode the claims. Before this, the signature should be verified: claims may be long.

        Raises:
            InvalidToken: the claims are malformed.
        """
        return _json_object(self.encoded_claims, "claims")


def parse_token(token: str) -> ParsedToken:
    """Split a token, and decode its header and its signature.

    Raises:
        InvalidToken: the token is malformed.
    """
    parts = token.strip().split(".")
    if len(parts) != _PARTS or not parts[0] or not parts[1]:
        raise InvalidToken("the token does not have three parts")
    header, claims, signature = parts
    if len(header) > HEADER_LENGTH_MAX:
        raise InvalidToken("the header is too long")
    return ParsedToken(
        _json_object(header, "header"),
        claims,
        f"{header}.{claims}".encode(),
        decode_base64url(signature, "signature"),
    )


def decode_base64url(text: str, what: str) -> bytes:
    """Decode base64url, with or without padding.

    Raises:
        InvalidToken: the text is malformed.
    """
    data = text.rstrip("=").encode().translate(_URL_SAFE)
    try:
        return base64.b64decode(data + b"=" * (-len(data) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidToken(f"the {what} is not base64url") from None


def _json_object(part: str, what: str) -> Claims:
    try:
        value = json.loads(
            decode_base64url(part, what).decode(),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError):
        raise InvalidToken(f"the {what} is not JSON with unique names") from None
    if not isinstance(value, dict):
        raise InvalidToken(f"the {what} is not a JSON object")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def text_claim(claims: Claims, name: str) -> str | None:
    """Return a claim that is a text; None if it is missing.

    Raises:
        InvalidToken: the claim has another type.
    """
    value = claims.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidToken(f"the claim {name} is not a text")


def number_claim(claims: Claims, name: str) -> float | None:
    """Return a claim that is a number of seconds; None if it is missing.

    Raises:
        InvalidToken: the claim has another type, or is out of range.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidToken(f"the claim {name} is not a number")
    if not -SECONDS_MAX <= value <= SECONDS_MAX:
        raise InvalidToken(f"the claim {name} is out of range")
    return value
