"""StreamsGroupDescribe (89), version 0: state, topology, members and tasks of Streams groups.

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
from odradek.handlers.streams_groups import check_enabled
from odradek.model.errors import ErrorCode
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.generated.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)


async def handle(
    broker: Broker, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Describe the groups."""
    check_enabled(broker)
    refused = denied(broker, context, AclOperation.DESCRIBE, GROUP, request.group_ids)
    allowed = [each for each in request.group_ids if each not in refused]
    groups = await broker.groups.describe_streams_groups(allowed)
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
    return StreamsGroupDescribeResponse(groups=[*failed, *_visible(broker, context, groups)])


def _visible(
    broker: Broker, context: RequestContext, groups: list[DescribedGroup]
) -> list[DescribedGroup]:
    """Replace the groups with topics that the client may not see by an error."""
    names = {name for group in groups for name in _topics(group)}
    hidden = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
    return [
        group
        if hidden.isdisjoint(_topics(group))
        else DescribedGroup(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The client may not describe all topics of the group's topology.",
        )
        for group in groups
    ]


def _topics(group: DescribedGroup) -> Iterator[str]:
    if group.topology is None:
        return
    for each in group.topology.subtopologies or ():
        yield from each.source_topics
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            yield topic.name


HANDLER = Handler(request=StreamsGroupDescribeRequest, versions=(0, 0), handle=handle)
