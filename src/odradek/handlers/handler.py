"""`Handler`, the declaration of one served API.

Each file `kNN_name.py` of this package serves one API key and defines a `HANDLER`. The table
`odradek.handlers.registry` has the versions that are served, and where.

A `handle` function gets `(broker, context, request)`. It validates the request, calls a lower
package, and translates the result into the response. It returns the response or a future of the
response, or it is a coroutine function. The result None means that no response is sent. If `handle`
raises an `ApiError`, the whole request has failed, and `error_answers` builds the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.handlers.pieces import Pieces
from odradek.model.errors import ApiError
from odradek.wire.primitives import Message

HandleFunction = Callable[..., Any]
"""(broker, context, request) -> the response or None, or an awaitable of the response or None."""

NO_RESPONSE = b""
"""The result of a `QuickFunction` for a request that gets no response."""

QuickFunction = Callable[..., bytes | asyncio.Future[bytes] | None]
"""(broker, peer, frame, position of the body, version, correlation id) -> the encoded response with
its size prefix, or a future of it. The result is None if `handle` must process the request; then the
function has changed nothing. `peer` has the principal, the listener and the request's client id."""


@dataclass(frozen=True, slots=True)
class Handler:
    """What serves one API.

    - `handle` serves the API on broker listeners. It is None if brokers only forward the requests,
      or if only controllers serve the API.
    - `controller` serves the API on controller listeners. It gets `(controller, context, request)`.
    - `error_response`: (request, error) -> response, for APIs that `error_answers` cannot serve.
    - `quick` serves the most frequent requests without the creation of an object per field (see
      `QuickFunction`).
    - `pieces`: how large requests are divided; None if they are not.
    - `overlap`: whether further requests of this API may be processed before the response is sent.
    """

    request: type[Message]
    handle: HandleFunction | None = None
    controller: HandleFunction | None = None
    overlap: bool = False
    quick: QuickFunction | None = None
    error_response: Callable[[Any, ApiError], Message] | None = None
    pieces: Pieces | None = None
