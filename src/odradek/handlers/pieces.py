"""Handles requests with many independent elements in pieces.

A client may ask for ten thousand groups or for the settings of all topics. The handler gets a few of
the elements at a time, and other requests are processed in between. The results are joined. The
state of the node may change between two pieces, as it may between two requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from odradek.broker.clients.request_context import RequestContext
from odradek.wire.primitives import Message


class Pieces(NamedTuple):
    """How requests of an API are divided. Each element has its own result."""

    elements: str
    """The name of the request's array."""
    results: str
    """The name of the response's array."""
    size: int
    """So many elements are handled without a pause, in about a millisecond."""


def in_pieces(
    handle: Callable[[RequestContext, Any], Any],
    pieces: Pieces,
    context: RequestContext,
    request: Message,
) -> Any:
    """Call the handler once or several times. Return the response, or an awaitable of it.

    Raises:
        Exception: the handler has raised it.
    """
    elements = getattr(request, pieces.elements)
    if len(elements) <= pieces.size:
        return handle(context, request)
    context.mark_large()
    return _join(handle, pieces, context, request, elements)


async def _join(
    handle: Callable[[RequestContext, Any], Any],
    pieces: Pieces,
    context: RequestContext,
    request: Message,
    elements: Sequence[Any],
) -> Message:
    """Return one response with the results of all pieces."""
    responses: list[Any] = []
    try:
        for begin in range(0, len(elements), pieces.size):
            setattr(request, pieces.elements, elements[begin : begin + pieces.size])
            answer = handle(context, request)
            responses.append(answer if isinstance(answer, Message) else await answer)
            await asyncio.sleep(0)
    finally:
        setattr(request, pieces.elements, elements)  # an error is answered for all elements
    response: Message = responses[0]
    results = getattr(response, pieces.results)
    for each in responses[1:]:
        results += getattr(each, pieces.results)
    return response
