"""Sends requests to a broker, and repeats them while the broker is loading."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from compat.lab.wire_client import WireClient, decode_response

from odradek.model.errors import ErrorCode
from odradek.wire.api import BY_KEY
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.primitives import Message, Struct

RETRIABLE = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors of a broker that has just started, or has just created a topic."""
SOFTWARE = {"client_software_name": "odradek-test", "client_software_version": "1"}
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.02


class Client:
    """A connection. An unexpected error fails the test."""

    def __init__(self, port: int) -> None:
        self._wire = WireClient(port, timeout=60.0)

        answer = self.ask(ApiVersionsRequest(**SOFTWARE), 4)
        self._served = {each.api_key for each in answer.api_keys}
        self.features = {each.name for each in answer.finalized_features if each.max_version_level}

    def serves(self, request: type[Message]) -> bool:
        """Return whether the broker serves the API of a request."""
        return request.API_KEY in self._served

    def close(self) -> None:
        self._wire.close()

    def ask(
        self,
        request: Message,
        version: int,
        *expected: ErrorCode,
        allowed: Iterable[ErrorCode] = (),
    ) -> Any:
        """Send a request, and return the response.

        Each of the errors in `expected` must be in the response, and no other ones except `allowed`.
        """
        api = BY_KEY[request.API_KEY]
        waits_for = RETRIABLE.difference(expected, allowed)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self._wire.send(self._wire.frame(api.name, version, request))
            frame = self._wire.receive()
            response = decode_response(api.name, version, frame, api.response_class())
            errors = set(error_codes(response))
            if not errors & waits_for or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_SECONDS)
        assert errors.difference(allowed) == set(expected), (errors, request, response)
        return response


def error_codes(message: Any) -> Iterator[ErrorCode]:
    """Yield all errors in a response."""
    for name in type(message).__slots__:
        value = getattr(message, name)
        if name.endswith("error_code"):
            if value:
                yield ErrorCode(value)
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                yield from error_codes(each)
