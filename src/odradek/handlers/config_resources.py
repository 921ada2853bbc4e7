"""Common to AlterConfigs (33) and IncrementalAlterConfigs (44): which node changes a resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from odradek.broker.broker import Broker
from odradek.model.errors import ApiError, ErrorCode

Resource = TypeVar("Resource")
Answer = TypeVar("Answer")


async def answers_in_order(
    resources: Sequence[Resource],
    here: Callable[[Resource], Answer | None],
    by_controller: Callable[[list[Resource]], Awaitable[Sequence[Answer]]],
) -> list[Answer]:
    """Return one result per resource: this node's, or the controller's if `here` has none.

    One request to the controller covers all of its resources.
    """
    answers = [here(resource) for resource in resources]
    left = [each for each, answer in zip(resources, answers, strict=True) if answer is None]
    decided = iter(await by_controller(left) if left else ())
    return [next(decided) if answer is None else answer for answer in answers]


def check_own_id(broker: Broker, name: str) -> None:
    """Raise an error if the resource is another broker.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if name != str(broker.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node_id}, but received {name}",
        )
