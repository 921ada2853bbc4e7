"""Something that a user waits for."""

from __future__ import annotations

from odradek.client.errors import ClientError


class Operation:
    """The outcome of a call that needs answers of brokers."""

    __slots__ = ("done", "error", "last_error", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.done = False
        self.error: ClientError | None = None
        self.last_error: ClientError | None = None
        """Why the last attempt has failed."""

    def failed(self, error: ClientError) -> None:
        """Note that an attempt has failed. It will be repeated."""
        self.last_error = error

    def finish(self, error: ClientError | None) -> None:
        """Note the outcome."""
        self.done = True
        self.error = error
