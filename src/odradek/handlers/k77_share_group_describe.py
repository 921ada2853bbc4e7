"""ShareGroupDescribe (77), version 1: state, members and assignments of share groups.

- If a group does not exist or has another type, the error is GROUP_ID_NOT_FOUND.
- A group with a topic that the client may not DESCRIBE gets the error TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.authorization import (
    GROUP,
    TOPIC,
    AclOperation,
    authorized_operations,
    denied,
)
from odradek.handlers.handler import Handler
from odradek.handlers.share_groups import check_enabled
from odradek.model.errors import ErrorCode
from odradek.wire.generated.share_group_describe_request import ShareGroupDescribeRequest
from odradek.wire.generated.share_group_describe_response import (
    DescribedGroup,
    ShareGroupDescribeResponse,
)


async def handle(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Describe the groups."""
    check_enabled(broker)
    refused = denied(broker, context, AclOperation.DESCRIBE, GROUP, request.group_ids)
    allowed = [each for each in request.group_ids if each not in refused]
    groups = await broker.share_groups.describe(allowed)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    broker, context, GROUP, group.group_id
                )
    failed = [
        DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for each in request.group_ids
        if each in refused
    ]
    return ShareGroupDescribeResponse(groups=[*failed, *_visible(broker, context, groups)])


def _visible(
    broker: Broker, context: RequestContext, groups: list[DescribedGroup]
) -> list[DescribedGroup]:
    """Replace the groups with assigned topics that the client may not see by an error."""
    names = {name for group in groups for name in _topics(group)}
    hidden = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
    return [
        group
        if hidden.isdisjoint(_topics(group))
        else DescribedGroup(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The client may not describe all topics that the group is assigned.",
        )
        for group in groups
    ]


def _topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for each in member.assignment.topic_partitions:
            yield each.topic_name


HANDLER = Handler(request=ShareGroupDescribeRequest, versions=(1, 1), handle=handle)
