"""What machines want to be sent, and how they hear of the outcome.

A machine returns `Ask` objects. Its owner sends the request, and later calls either `on_answer` with the
response or `on_error`, exactly once, with the time. A machine never asks a node whose link is not
ready (`Routes.is_ready`), except for any node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.client.errors import ClientError, RequestTimeoutError
from odradek.wire.primitives import Message

Link = tuple[int, str]
"""The id of a node and a purpose. Each purpose has its own connection, so that a request does not wait
for the responses to others: Fetch may take long."""
NO_VERSION_LIMIT = 32767


class Ask:
    """A request to a node, or to any node if `link` is None."""

    __slots__ = (
        "is_answered",
        "link",
        "on_answer",
        "on_error",
        "request",
        "response_class",
        "timeout_ms",
        "version_max",
    )

    def __init__(
        self,
        link: Link | None,
        request: Message,
        response_class: type[Message],
        on_answer: Callable[[Any, int], None],
        on_error: Callable[[ClientError, int], None],
        *,
        timeout_ms: int,
        version_max: int = NO_VERSION_LIMIT,
        is_answered: bool = True,
    ) -> None:
        self.link = link
        self.request = request
        self.response_class = response_class
        self.on_answer = on_answer
        """Called with the response and the time in ms. Without `is_answered` it is called with None when
        the request is sent."""
        self.on_error = on_error
        """Called with the error and the time in ms. It is unknown whether the request was processed."""
        self.timeout_ms = timeout_ms
        """After this time without a response the connection is closed."""
        self.version_max = version_max
        self.is_answered = is_answered


def may_pass(error: ClientError) -> bool:
    """Whether the same request may succeed later."""
    return error.retriable or isinstance(error, RequestTimeoutError)
