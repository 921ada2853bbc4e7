"""Waits until a topic is known to a machine."""

from __future__ import annotations

from odradek.client.cluster import CLOSED_AT_ONCE_WAIT_MS
from odradek.client.core.routes import Routes, is_unknown_topic
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import ClosedAtOnceError, NoSuchTopicError, RequestTimeoutError

UNKNOWN_TOPIC_MS = 400
"""How long a topic is asked for that no broker knows. It may have been created just now."""
CREATION_MS = 3_000
"""The same, if brokers may create the topic."""


class TopicWait:
    """A wait for the metadata of one topic."""

    def __init__(self, routes: Routes, name: str, *, creates: bool) -> None:
        self._routes = routes
        self._name = name
        self._reaching = Reaching(routes)
        self._creation = Deadline(CREATION_MS if creates else UNKNOWN_TOPIC_MS)

    def is_known(self) -> bool:
        """Whether the topic is known.

        Raises:
            NoSuchTopicError: it does not exist.
            ClientError: it may not be used, or no broker was ever reached.
        """
        routes = self._routes
        if routes.topic(self._name, monotonic_ms()) is not None:
            return True
        error = routes.topic_error(self._name)
        if error is not None and not error.retriable:
            raise error
        if is_unknown_topic(error) and self._creation.expired:
            raise NoSuchTopicError(self._name) from error
        self._reaching.check()
        return False

    def too_late(self, timeout_ms: int, setting: str) -> RequestTimeoutError:
        """Return the error after a timeout, which is named by its setting."""
        reason = self._routes.topic_error(self._name) or self._routes.last_error
        return RequestTimeoutError(
            f"the partitions of {self._name} are not known after {timeout_ms} ms ({setting})"
            f"{'' if reason is None else f': {reason}'}",
            "" if reason is None else reason.advice,
        )


class Reaching:
    """The time until any broker has answered, in which an error means a wrong address or login."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._grace = Deadline(CLOSED_AT_ONCE_WAIT_MS)

    def check(self) -> None:
        """Raise the last error if no broker was ever reached.

        A broker that shuts down closes connections, too, but not for long.
        """
        error = self._routes.last_error
        if self._routes.has_answered or error is None:
            return
        if not isinstance(error, ClosedAtOnceError) or self._grace.expired:
            raise error
