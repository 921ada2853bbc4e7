"""Sends requests of group members over separate connections."""

from __future__ import annotations

import select
from typing import Any

from compat.lab.wire_client import WireClient, decode_response

from odradek.wire.api import BY_NAME
from odradek.wire.primitives import Message

END_SECONDS = 15.0


class Line:
    """A connection with at most one request in flight."""

    def __init__(self, port: int) -> None:
        self._client = WireClient(port, timeout=60.0)
        self._unanswered: tuple[str, int] | None = None

    @property
    def is_waiting(self) -> bool:
        return self._unanswered is not None

    def ask(self, name: str, version: int, request: Message, seconds: float = END_SECONDS) -> Any:
        """Send a request, and return the response; None if it is late. Then call `wait`."""
        assert self._unanswered is None
        self._client.send(self._client.frame(name, version, request))
        self._unanswered = (name, version)
        return self.wait(seconds)

    def wait(self, seconds: float) -> Any:
        """Return the response to the request in flight; None if it is late."""
        assert self._unanswered is not None
        readable, _, _ = select.select([self._client.socket], [], [], seconds)
        if not readable:
            return None
        name, version = self._unanswered
        self._unanswered = None
        frame = self._client.receive()
        return decode_response(name, version, frame, BY_NAME[name].response_class())

    def close(self) -> None:
        self._client.close()
