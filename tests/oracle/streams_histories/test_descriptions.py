"""Descriptions of topologies: Apache Kafka 4.4 with its plugin in memory and Odradek answer the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compat.lab.broker import Broker
from compat.lab.wire_client import WireClient
from tests.oracle.streams_histories.lab import SETTINGS, both

from odradek.core.group.streams.descriptions import KEPT_HERE
from odradek.wire.generated import streams_group_topology_description_update_request as wire
from odradek.wire.generated.delete_groups_request import DeleteGroupsRequest
from odradek.wire.generated.delete_groups_response import DeleteGroupsResponse
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.generated.streams_group_describe_response import StreamsGroupDescribeResponse
from odradek.wire.generated.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from odradek.wire.generated.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from odradek.wire.generated.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

GROUP = "described"
WITH_PLUGIN = {**SETTINGS, "group.streams.topology.description.plugin.class": KEPT_HERE}
pytestmark = [pytest.mark.java, pytest.mark.cluster]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    with both(tmp_path_factory, WITH_PLUGIN) as started:
        yield started


def node(name: str, kind: int, **fields: object) -> wire.TopologyDescriptionNode:
    return wire.TopologyDescriptionNode(name=name, node_type=kind, **fields)


SOURCE = node("in", 1, source_topics=["s1", "s2", "s1"], successors=["count"], stores=["no"])
COUNT = node("count", 2, stores=["counts", "more"], successors=["out", "out"], sink_topic="no")
SINK = node("out", 3, sink_topic="counted", source_topics=["no"])
DYNAMIC = node("where", 3)
WHOLE = wire.TopologyDescription(
    subtopologies=[
        wire.TopologyDescriptionSubtopology(
            subtopology_id="0", nodes=[SOURCE, COUNT, SINK, DYNAMIC]
        ),
        wire.TopologyDescriptionSubtopology(subtopology_id="1"),
    ],
    global_stores=[wire.TopologyDescriptionGlobalStore(source=SOURCE, processor=COUNT)],
)
WRONG_KIND = wire.TopologyDescription(
    subtopologies=[wire.TopologyDescriptionSubtopology(nodes=[node("x", 0)])]
)
WRONG_STORE = wire.TopologyDescription(
    global_stores=[wire.TopologyDescriptionGlobalStore(source=COUNT, processor=COUNT)]
)


class Dialogue:
    """Sends the same requests to a broker, and notes what is comparable in the responses."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self.heard: list[object] = []

    def beat(self, member_id: str, epoch: int) -> None:
        topology = Topology(
            epoch=3, subtopologies=[Subtopology(subtopology_id="0", source_topics=["s1"])]
        )
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            process_id=member_id,
            topology=None if epoch else topology,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        version = HEARTBEAT_VERSION
        answer = self._client.call(
            "StreamsGroupHeartbeat", version, request, StreamsGroupHeartbeatResponse
        )
        self.heard.append((answer.error_code, answer.topology_description_required))

    def push(
        self,
        description: wire.TopologyDescription = WHOLE,
        group_id: str = GROUP,
        member_id: str = "a",
        epoch: int = 3,
    ) -> None:
        request = wire.StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=group_id,
            member_id=member_id,
            topology_epoch=epoch,
            topology_description=description,
        )
        answer = self._client.call(
            "StreamsGroupTopologyDescriptionUpdate",
            0,
            request,
            StreamsGroupTopologyDescriptionUpdateResponse,
        )
        self.heard.append(answer.error_code)

    def describe(self, version: int = 1, group_id: str = GROUP, is_asked: bool = True) -> None:
        request = StreamsGroupDescribeRequest(
            group_ids=[group_id], include_topology_description=is_asked and version > 0
        )
        answer = self._client.call(
            "StreamsGroupDescribe", version, request, StreamsGroupDescribeResponse
        )
        for each in answer.groups:
            self.heard.append(
                (each.error_code, each.group_state, each.group_epoch, each.assignor_name,
                 each.topology_description_status, repr(each.topology_description))
            )  # fmt: skip

    def delete(self) -> None:
        request = DeleteGroupsRequest(groups_names=[GROUP])
        answer = self._client.call("DeleteGroups", 3, request, DeleteGroupsResponse)
        self.heard.append([each.error_code for each in answer.results])


HEARTBEAT_VERSION = 1


def play(broker: Broker) -> list[object]:
    with WireClient(broker.port) as client:
        says = Dialogue(client)
        says.push(group_id="nobody")
        says.describe(group_id="nobody")
        says.beat("a", 0)
        says.beat("b", 0)
        says.describe()
        for wrong in (WRONG_KIND, WRONG_STORE):
            says.push(wrong)
        says.push(member_id="unknown")
        says.push(member_id="")
        says.push(group_id=" ")
        says.push(epoch=2)
        says.push(epoch=4)
        says.describe()
        says.push()
        says.describe()
        says.describe(is_asked=False)
        says.describe(version=0)
        says.beat("b", 0)
        says.push(wire.TopologyDescription(), member_id="b")
        says.describe()
        says.push()
        says.delete()
        says.beat("a", -1)
        says.beat("b", -1)
        says.describe()
        says.delete()
        says.describe()
        says.beat("a", 0)
        says.describe()
        return says.heard


def test_the_same_answers(brokers: list[Broker]) -> None:
    kafka, ours = map(play, brokers)
    for number, (theirs, mine) in enumerate(zip(kafka, ours, strict=True)):
        assert mine == theirs, f"answer {number}"
