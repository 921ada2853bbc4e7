"""The server's side of a SASL mechanism, for one authentication."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Rejected(Exception):
    """The client is not authenticated.

    The first argument is a message for the client. If it is None or missing, the client gets a message
    that does not show what is wrong, for example that the user does not exist. The second argument is
    a message for the server's log.
    """

    @property
    def message(self) -> str | None:
        """The message for the client; None if the client must not learn the cause."""
        return self.args[0] if self.args else None

    @property
    def reason(self) -> str | None:
        """The message for the log; None without a message."""
        return self.args[-1] if self.args else None


class TryAgain(Exception):
    """The client is not authenticated, but may be if it sends the same credentials again.

    The connection is closed without a response, so that clients do not give up. The argument is a
    message for the server's log.
    """


class Mechanism(Protocol):
    """Evaluates the client's tokens of one authentication, and returns the server's tokens."""

    name: str
    """The name of the mechanism, for example SCRAM-SHA-256."""
    user: str | None
    """The name of the authenticated user; None until the authentication is complete."""
    token_expires_ms: int | None
    """When the delegation token or the access token expires by which the user is authenticated;
    None without one."""
    is_by_delegation_token: bool
    """Whether the user is authenticated by a delegation token."""

    is_slow: bool
    """Whether `evaluate` may wait for the disk. Then it runs on another thread than the event loop's."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the server's token that follows the client's token.

        Raises:
            TryAgain: see there.
            Rejected: the authentication has failed. No further token may be evaluated.
        """
        ...


MakeMechanism = Callable[[], Mechanism]
"""Creates the server's side for one authentication."""
