"""Functions that AlterConfigs (33) and IncrementalAlterConfigs (44) share.

Some resources are changed by this node, all others by the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from odradek.broker.broker import Broker
from odradek.broker.controller.controller import Controller
from odradek.model.errors import ApiError, ErrorCode

Resource = TypeVar("Resource")
Answer = TypeVar("Answer")


async def answers_in_order(
    resources: Sequence[Resource],
    here: Callable[[Resource], Answer | None],
    by_controller: Callable[[list[Resource]], Awaitable[Sequence[Answer]]],
) -> list[Answer]:
    """Return one result per resource, in the order of the resources.

    `here` returns the result of this node, or None if the controller must change the resource. One
    request to the controller contains all resources that the controller must change.
    """
    answers = [here(resource) for resource in resources]
    left = [each for each, answer in zip(resources, answers, strict=True) if answer is None]
    decided = iter(await by_controller(left) if left else ())
    return [next(decided) if answer is None else answer for answer in answers]


def check_own_id(node: Broker | Controller, name: str) -> None:
    """Raise an error if the resource `name` is not the id of this node.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if name != str(node.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.node_id}, but received {name}",
        )
