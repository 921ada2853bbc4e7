"""ConsumerGroupDescribe (69), versions 0-1: state, members and assignments of consumer groups.

- If a group does not exist or has another type, the error is GROUP_ID_NOT_FOUND.
- The assignment of a member also contains the partitions that the member must still revoke.
- Version 1 adds the type of each member: whether it uses the classic or the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.group_descriptions import described, visible
from odradek.handlers.handler import Handler
from odradek.handlers.k68_consumer_group_heartbeat import check_enabled
from odradek.handlers.pieces import Pieces
from odradek.wire.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.generated.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

HIDDEN = "The client may not describe all topics that the group is assigned."


async def handle(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe the groups."""
    check_enabled(broker)
    groups = await described(
        broker,
        context,
        request.group_ids,
        broker.coordinators.groups.describe_consumer_groups,
        DescribedGroup,
        with_operations=request.include_authorized_operations,
    )
    return ConsumerGroupDescribeResponse(
        groups=visible(broker, context, groups, _topics, DescribedGroup, HIDDEN)
    )


def _topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for each in assignment.topic_partitions:
                yield each.topic_name


HANDLER = Handler(
    request=ConsumerGroupDescribeRequest,
    handle=handle,
    pieces=Pieces("group_ids", "groups", 100),
)
