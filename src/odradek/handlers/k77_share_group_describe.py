"""ShareGroupDescribe (77), version 1: state, members and assignments of share groups.

- If a group does not exist or has another type, the error is GROUP_ID_NOT_FOUND.
- A group with a topic that the client may not DESCRIBE gets the error TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.group_descriptions import described, visible
from odradek.handlers.handler import Handler
from odradek.handlers.pieces import Pieces
from odradek.handlers.share_groups import check_enabled
from odradek.wire.generated.share_group_describe_request import ShareGroupDescribeRequest
from odradek.wire.generated.share_group_describe_response import (
    DescribedGroup,
    ShareGroupDescribeResponse,
)

HIDDEN = "The client may not describe all topics that the group is assigned."


async def handle(
    broker: Broker, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Describe the groups."""
    check_enabled(broker)
    groups = await described(
        broker,
        context,
        request.group_ids,
        broker.coordinators.share_groups.describe,
        DescribedGroup,
        with_operations=request.include_authorized_operations,
    )
    return ShareGroupDescribeResponse(
        groups=visible(broker, context, groups, _topics, DescribedGroup, HIDDEN)
    )


def _topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for each in member.assignment.topic_partitions:
            yield each.topic_name


HANDLER = Handler(
    request=ShareGroupDescribeRequest,
    handle=handle,
    pieces=Pieces("group_ids", "groups", 100),
)
