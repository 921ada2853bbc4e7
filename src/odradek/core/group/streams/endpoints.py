"""Returns the partitions that the process at each endpoint has, for queries of a key (KIP-535)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.core.group.streams.configuration import ConfiguredSubtopology
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.member import StreamsMember
from odradek.core.metadata.image import TopicsImage
from odradek.model.java_order import timeline_order
from odradek.wire.generated.streams_group_heartbeat_response import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def partitions_by_endpoint(
    group: StreamsGroup, changed: StreamsMember, topics: TopicsImage
) -> list[EndpointToPartitions]:
    """Return the partitions of all members with an endpoint.

    `changed` is a member that has changed. The group still has its former state.
    """
    others = [
        group.members[each]
        for each in timeline_order(group.members, group.member_slots)
        if each != changed.member_id
    ]
    subtopologies = group.configured.subtopologies if group.configured is not None else None
    if subtopologies is None:
        return []
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
            active_partitions=_partitions(member.assigned.active, subtopologies, topics),
            standby_partitions=_partitions(member.assigned.standby, subtopologies, topics),
        )
        for member in (*others, changed)
        if member.endpoint is not None
    ]


def _partitions(
    tasks: Mapping[str, Iterable[int]],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    topics: TopicsImage,
) -> list[TopicPartition]:
    """Return the partitions of the source topics of tasks. Deleted topics are left out."""
    found = []
    for subtopology_id, partitions in tasks.items():
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        for name in sorted({*subtopology.source_topics, *subtopology.repartition_source_topics}):
            topic = topics.by_name.get(name)
            if topic is not None:
                first = sorted(partitions)[: len(topic.partitions)]
                found.append(TopicPartition(topic=name, partitions=first))
    return found
