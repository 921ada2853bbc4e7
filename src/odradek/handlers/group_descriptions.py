"""What the handlers that describe groups have in common: the permissions of the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import (
    GROUP,
    TOPIC,
    AclOperation,
    authorized_operations,
    denied,
)
from odradek.model.errors import ErrorCode

GroupT = TypeVar("GroupT", bound=Any)
"""The class DescribedGroup of a response."""


async def described(
    broker: Broker,
    context: RequestContext,
    group_ids: list[str],
    describe: Callable[[list[str]], Awaitable[list[GroupT]]],
    described_group: Callable[..., GroupT],
    *,
    with_operations: bool,
) -> list[GroupT]:
    """Describe the groups that the client may describe. The others have an error, and come first.

    `describe` describes groups. `described_group` creates the description of a group with an error.
    """
    refused = denied(broker, context, AclOperation.DESCRIBE, GROUP, group_ids)
    groups = await describe([each for each in group_ids if each not in refused])
    if with_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    broker, context, GROUP, group.group_id
                )
    failed = [
        described_group(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for each in group_ids
        if each in refused
    ]
    return [*failed, *groups]


def visible(
    broker: Broker,
    context: RequestContext,
    groups: list[GroupT],
    topics: Callable[[GroupT], Iterable[str]],
    described_group: Callable[..., GroupT],
    problem: str,
) -> list[GroupT]:
    """Replace the groups with topics that the client may not describe by an error.

    `topics` returns the names of a group's topics, and `problem` is the message of the error.
    """
    if broker.authorizer is None:
        return groups
    names = {name for group in groups for name in topics(group)}
    hidden = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
    return [
        group
        if hidden.isdisjoint(topics(group))
        else described_group(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=problem,
        )
        for group in groups
    ]
