"""The description of a Streams group's topology that its coordinator keeps (KIP-1331), as text.

The text is that of Apache Kafka 4.4's `kafka-streams-groups.sh --describe --topology`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, MalformedResponseError, check
from odradek.core.group.streams.descriptions import KEPT_HERE
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.generated.streams_group_describe_response import (
    StreamsGroupDescribeResponse,
    TopologyDescription,
    TopologyDescriptionNode,
)

SOURCE, PROCESSOR = 1, 2
NOT_STORED, FAILED = 1, 2


def read_topology(cluster: Cluster, group_id: str) -> TopologyDescription:
    """Ask the coordinator of a group for the description of its topology.

    Raises:
        ClientError: there is no such group, or it has no description.
    """
    request = StreamsGroupDescribeRequest(group_ids=[group_id], include_topology_description=True)

    def check_answer(response: StreamsGroupDescribeResponse) -> None:
        if len(response.groups) != 1:
            raise MalformedResponseError("the broker's response does not include the group")
        group = response.groups[0]
        check(group.error_code, group.error_message, f"group {group_id}")

    answer = cluster.ask_coordinator(group_id, request, StreamsGroupDescribeResponse, check_answer)
    group = answer.groups[0]
    if group.topology_description is not None:
        return group.topology_description
    if group.topology_description_status == FAILED:
        raise ClientError(
            f"the broker could not read the description of group {group_id}; see its log"
        )
    raise ClientError(
        f"group {group_id} has no description of its topology. Applications of Kafka Streams 4.4 send "
        f"it to brokers with group.streams.topology.description.plugin.class={KEPT_HERE}"
    )


def topology_text(topology: TopologyDescription) -> str:
    """Return the text of a description."""
    parts = [(each.subtopology_id, each.nodes) for each in topology.subtopologies]
    parts += [
        (f"{number} for global store (will not generate tasks)", [each.source, each.processor])
        for number, each in enumerate(topology.global_stores, len(topology.subtopologies))
    ]
    shown = (f"   Sub-topology: {title}\n{_nodes(nodes)}\n" for title, nodes in parts)
    return f"Topologies:\n{''.join(shown)}"


def _nodes(nodes: Sequence[TopologyDescriptionNode]) -> str:
    return "".join(f"    {_node(each, nodes)}\n" for each in nodes)


def _node(node: TopologyDescriptionNode, nodes: Sequence[TopologyDescriptionNode]) -> str:
    after = f"\n      --> {_names(node.successors)}"
    before = f"\n      <-- {_names(each.name for each in nodes if node.name in each.successors)}"
    if node.node_type == SOURCE:
        return f"Source: {node.name} (topics: {_list(node.source_topics)}){after}"
    if node.node_type == PROCESSOR:
        return f"Processor: {node.name} (stores: {_list(node.stores)}){after}{before}"
    topic = "null" if node.sink_topic is None else node.sink_topic
    return f"Sink: {node.name} (topic: {topic}){before}"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(sorted(set(names)))}]"


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names))) or "none"
