"""What a handler file declares: the API it serves, in which versions, and how.

Each file `kNN_name.py` of this package serves one API key and defines `HANDLER`. The listing of
the package is the support matrix: ApiVersions answers from these declarations and
`docs/support.md` is generated from them, so nothing is advertised that has no handler.

A `handle` function gets `(broker, context, request)` and returns the response, or is a coroutine
function that does. It validates, calls one thing of a lower room, translates the outcome into
the response; `ApiError`s that concern the whole request may be raised where the response has a
top-level error (`error_response` says how to build it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.wire.primitives import Message

HandleFunction = Callable[..., Any]
"""(broker, context, request) -> response or awaitable of it. Typed where it is defined."""


@dataclass(frozen=True, slots=True)
class Handler:
    """One served API.

    `versions`: the lowest and highest version served, both inclusive.
    `handle`: serves it on broker listeners; None where only controllers do.
    `controller`: serves it on controller listeners, with a `Controller` in place of the broker.
    `forwarded`: a broker passes the request on to the active controller.
    """

    request: type[Message]
    versions: tuple[int, int]
    handle: HandleFunction | None = None
    controller: HandleFunction | None = None
    forwarded: bool = False
