"""StreamsGroupDescribe (89), versions 0-1: state, topology, members and tasks of Streams groups.

- If a group does not exist or has another type, the error is GROUP_ID_NOT_FOUND.
- A group with a topic that the client may not DESCRIBE gets the error TOPIC_AUTHORIZATION_FAILED.
- Version 1 has the name of the assignor and, if it is asked for, the description of the topology.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.group_descriptions import described, visible
from odradek.handlers.handler import Handler
from odradek.handlers.streams_groups import check_enabled
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.generated.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)

HIDDEN = "The client may not describe all topics of the group's topology."


async def handle(
    broker: Broker, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Describe the groups."""
    check_enabled(broker)
    groups = await described(
        broker,
        context,
        request.group_ids,
        partial(
            broker.coordinators.groups.describe_streams_groups,
            with_description=request.include_topology_description,
        ),
        DescribedGroup,
        with_operations=request.include_authorized_operations,
    )
    return StreamsGroupDescribeResponse(
        groups=visible(broker, context, groups, _topics, DescribedGroup, HIDDEN)
    )


def _topics(group: DescribedGroup) -> Iterator[str]:
    if group.topology is None:
        return
    for each in group.topology.subtopologies or ():
        yield from each.source_topics
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            yield topic.name


HANDLER = Handler(request=StreamsGroupDescribeRequest, handle=handle)
