"""What the handlers of transactions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.broker.coordinator.shard import Answer
from odradek.model.errors import ApiError, ErrorCode


def error_for(error: ApiError, api_version: int, fenced_version: int) -> ErrorCode:
    """The error as a client of that version knows it: PRODUCER_FENCED came with
    `fenced_version`, before it was INVALID_PRODUCER_EPOCH."""
    if error.code is ErrorCode.PRODUCER_FENCED and api_version < fenced_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


async def answered(
    question: Callable[..., Answer], *arguments: Any, refused: Callable[[ApiError], Any]
) -> Any:
    """The coordinator's answer, or what `refused` makes of its error."""
    try:
        answer = question(*arguments)
        return await answer if hasattr(answer, "__await__") else answer
    except ApiError as error:
        return refused(error)
