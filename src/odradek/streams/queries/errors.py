"""Why a query has no answer."""

from __future__ import annotations

from odradek.core.streams.model.errors import StreamsError


class QueryError(StreamsError):
    """A query cannot be answered. The message says what to do."""


class NoSuchStoreError(QueryError):
    """The application has no such store, or it cannot be read in this way."""


class StoreNotHereError(QueryError):
    """Another process has the partition. `host` is where (HOST:PORT), if that is known."""

    def __init__(self, message: str, host: str | None = None) -> None:
        super().__init__(message)
        self.host = host


class StoreMovesError(QueryError):
    """The task is being moved or restored. The same query may succeed later."""
