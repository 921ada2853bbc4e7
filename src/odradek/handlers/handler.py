"""What a handler file declares: the API it serves, in which versions, and how.

Each file `kNN_name.py` of this package serves one API key and defines `HANDLER`. These declarations
are the support matrix: the ApiVersions response and `docs/support.md` are generated from them, so
every advertised API has a handler.

A `handle` function gets `(broker, context, request)`. It validates the request, calls a lower
package, and translates the result into the response. It returns the response or a future, or is a
coroutine function. None means that the request gets no response. An `ApiError` that it raises
applies to the whole request; `error_answers` builds the response.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.model.errors import ApiError
from odradek.wire.primitives import Message

HandleFunction = Callable[..., Any]
"""(broker, context, request) -> response, None, or an awaitable of them."""

QuickFunction = Callable[..., bytes | None]
"""(broker, peer, frame, position of the body, version, correlation id) -> the encoded response with
its size prefix. Returns None, and changes nothing, if `handle` must process the request. `peer` has
the principal, the listener and the request's client id."""


@dataclass(frozen=True, slots=True)
class Handler:
    """One served API.

    `versions`: the lowest and highest version served, both inclusive. `unstable_version`: the
    highest one with `unstable.api.versions.enable`, if there is more. `handle`: serves it on broker
    listeners; None if only controllers serve it. `controller`: serves it on controller listeners,
    with a `Controller` in place of the broker. `forwarded`: a broker passes the request on to the
    active controller. `error_response`: (request, error) -> response, if `error_answers` is not
    sufficient. `quick`: serves the most frequent form without an object per field; see
    `QuickFunction`. `overlap`: further requests of this API may be processed before the response is
    sent.
    """

    request: type[Message]
    versions: tuple[int, int]
    handle: HandleFunction | None = None
    controller: HandleFunction | None = None
    forwarded: bool = False
    overlap: bool = False
    unstable_version: int | None = None
    quick: QuickFunction | None = None
    error_response: Callable[[Any, ApiError], Message] | None = None
