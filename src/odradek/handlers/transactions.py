"""Functions that the handlers of the transaction APIs share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker.coordinator.shard import Answer
from odradek.model.errors import ApiError, ErrorCode


def error_for(error: ApiError, api_version: int, fenced_version: int) -> ErrorCode:
    """Return the error code for a client of this version.

    Before `fenced_version`, PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH.
    """
    if error.code is ErrorCode.PRODUCER_FENCED and api_version < fenced_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


def answered_soon(
    question: Callable[..., Answer], *arguments: Any, refused: Callable[[ApiError], Any]
) -> Any:
    """Call a method of the coordinator; return its result, or an awaitable of the result.

    If the method fails with an `ApiError`, the result is `refused(error)`.
    """
    try:
        answer = question(*arguments)
    except ApiError as error:
        return refused(error)
    return _later(answer, refused) if hasattr(answer, "__await__") else answer


async def _later(answer: Awaitable[Any], refused: Callable[[ApiError], Any]) -> Any:
    try:
        return await answer
    except ApiError as error:
        return refused(error)


async def answered(
    question: Callable[..., Answer], *arguments: Any, refused: Callable[[ApiError], Any]
) -> Any:
    """Call a method of the coordinator as `answered_soon` does, and wait for the result."""
    answer = answered_soon(question, *arguments, refused=refused)
    return await answer if hasattr(answer, "__await__") else answer
