"""Requests to the coordinator of one group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.client.core.asks import NO_VERSION_LIMIT, Ask, Link
from odradek.client.core.routes import COORDINATOR, GROUP, Routes
from odradek.client.errors import BrokerError, ClientError
from odradek.model.errors import ErrorCode
from odradek.wire.primitives import Message

Outcome = Callable[[Any, ClientError | None, int], None]
"""Called with the response (None if there is none), its error, and the time in ms."""
OF_COORDINATOR = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class CoordinatorAsks:
    """Makes requests, and forgets the coordinator if it does not answer, or says that it is none."""

    def __init__(self, routes: Routes, group_id: str) -> None:
        self._routes = routes
        self._group_id = group_id

    def link(self) -> Link | None:
        """Return the link to the coordinator; None while it is unknown, or not ready.

        Raises:
            BrokerError: it cannot be looked up.
        """
        node = self._routes.coordinator(GROUP, self._group_id)
        if node is None or not self._routes.is_ready((node, COORDINATOR)):
            return None
        return node, COORDINATOR

    def forget(self) -> None:
        """Look the coordinator up again."""
        self._routes.forget_coordinator(GROUP, self._group_id)

    def ask(
        self,
        link: Link,
        request: Message,
        response_class: type[Message],
        outcome: Outcome,
        error_of: Callable[[Any], BrokerError | None],
        timeout_ms: int,
        *,
        version_max: int = NO_VERSION_LIMIT,
    ) -> Ask:
        """Return a request. `error_of` finds the error of the whole response."""

        def answered(response: Any, now_ms: int) -> None:
            error = error_of(response)
            if error is not None and error.code in OF_COORDINATOR:
                self._routes.forget_coordinator(GROUP, self._group_id)
            outcome(response, error, now_ms)

        def failed(error: ClientError, now_ms: int) -> None:
            self._routes.forget_coordinator(GROUP, self._group_id)
            outcome(None, error, now_ms)

        return Ask(
            link,
            request,
            response_class,
            answered,
            failed,
            timeout_ms=timeout_ms,
            version_max=version_max,
        )
