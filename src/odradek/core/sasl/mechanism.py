"""The server's side of a SASL mechanism, for one authentication."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Rejected(Exception):
    """The client is not authenticated.

    The argument is a message for the client. Without an argument, the client gets a message that
    does not show what is wrong, for example that the user does not exist.
    """

    @property
    def message(self) -> str | None:
        """The message for the client; None if the client must not learn the cause."""
        return str(self.args[0]) if self.args else None


class Mechanism(Protocol):
    """Evaluates the client's tokens of one authentication, and returns the server's tokens."""

    name: str
    """The name of the mechanism, for example SCRAM-SHA-256."""
    user: str | None
    """The name of the authenticated user; None until the authentication is complete."""
    token_expires_ms: int | None
    """When the delegation token expires by which the user is authenticated; None without one."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the server's token that follows the client's token.

        Raises:
            Rejected: the authentication has failed. No further token may be evaluated.
        """
        ...


MakeMechanism = Callable[[], Mechanism]
"""Creates the server's side for one authentication."""
