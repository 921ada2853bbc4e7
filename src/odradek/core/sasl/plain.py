"""The mechanism PLAIN (RFC 4616): the client sends its user name and its password.

The token has three parts, which are separated by NUL: an authorization id, the user name, and the
password. The authorization id is empty or equal to the user name. The rules and messages are those
of Kafka's PlainSaslServer.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from odradek.core.sasl.mechanism import Rejected

PLAIN = "PLAIN"
_PARTS = 3


class PlainServer:
    """The server's side of one authentication. `passwords` has the passwords by user name."""

    name = PLAIN
    token_expires_ms: int | None = None
    is_by_delegation_token = False
    is_slow = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Check the user's password; see `Mechanism`."""
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != _PARTS:
            found = min(len(parts), _PARTS + 1)
            raise Rejected(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {found}")
        authorization_id, user, password = parts
        if not user:
            raise Rejected("Authentication failed: username not specified")
        if not password:
            raise Rejected("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        # The comparison takes equally long for each password, so that time tells nothing about it.
        is_equal = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_equal:
            raise Rejected("Authentication failed: Invalid username or password")
        if authorization_id not in {"", user}:
            raise Rejected(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.user = user
        return b""
