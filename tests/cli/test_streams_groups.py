"""`odradek group describe` of Streams groups."""

from __future__ import annotations

import pytest
from tests.cli.conftest import invoke

from odradek.client.cluster import Cluster
from odradek.client.errors import check
from odradek.core.group.streams.descriptions import KEPT_HERE
from odradek.testing import Broker
from odradek.wire.generated.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from odradek.wire.generated.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from odradek.wire.generated.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from odradek.wire.generated.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.topology.description.plugin.class": KEPT_HERE,
    "offsets.topic.num.partitions": "1",
}


def beat(cluster, epoch, **fields):
    request = StreamsGroupHeartbeatRequest(
        group_id="application",
        member_id="one",
        member_epoch=epoch,
        rebalance_timeout_ms=10_000,
        process_id="process",
        **fields,
    )

    def check_answer(response):
        check(response.error_code, response.error_message)

    return cluster.ask_coordinator(
        "application", request, StreamsGroupHeartbeatResponse, check_answer
    )


@pytest.fixture
def broker():
    """A broker with a Streams group, whose member has four tasks."""
    with (
        Broker(topics={"in": 4}, settings=SETTINGS) as broker,
        Cluster(broker.bootstrap_servers) as cluster,
    ):
        topology = Topology(
            epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=["in"])]
        )
        answer = beat(
            cluster, 0, topology=topology, active_tasks=[], standby_tasks=[], warmup_tasks=[]
        )
        while not answer.active_tasks:
            answer = beat(cluster, answer.member_epoch)
        yield broker


def test_members_and_tasks(broker):
    address = broker.bootstrap_servers
    shown = invoke("group", "describe", "application", "--members", bootstrap=address)
    assert shown.code == 0, shown
    fields = dict(line.split(maxsplit=1) for line in shown.out.splitlines()[:3])
    assert fields == {"Group": "application", "Type": "streams", "State": "Stable"}
    titles, row = shown.out.splitlines()[-2:]
    assert titles.split() == ["Member", "Client", "Host", "Active", "Standby", "Warm-up"]
    assert row.split() == [
        "one", "odradek", "127.0.0.1", "0_0", "0_1", "0_2", "0_3", "-", "-",
    ]  # fmt: skip
    (found,) = invoke("group", "describe", "application", "--json", bootstrap=address).json
    assert found["members"][0]["tasks"] == {
        "active": [{"subtopology": "0", "partition": number} for number in range(4)],
        "standby": [],
        "warm_up": [],
    }
    missing = invoke("group", "describe", "no-such-group", bootstrap=address)
    assert (missing.code, "GROUP_ID_NOT_FOUND" in missing.err) == (1, True)


def test_a_group_that_may_not_be_described_is_not_missing(broker):
    broker.inject("StreamsGroupDescribe", "GROUP_AUTHORIZATION_FAILED")
    told = invoke("group", "describe", "application", bootstrap=broker.bootstrap_servers)
    assert told.code == 1
    assert "(GROUP_AUTHORIZATION_FAILED)" in told.err


def test_the_description_of_a_topology(broker):
    address = broker.bootstrap_servers
    told = invoke("streams", "describe", "application", "--topology", bootstrap=address)
    assert told.code == 1
    assert "group.streams.topology.description.plugin.class=" in told.err
    source = TopologyDescriptionNode(
        name="source", node_type=1, source_topics=["in"], successors=["count"]
    )
    count = TopologyDescriptionNode(
        name="count", node_type=2, stores=["b", "a"], successors=["sink", "out"]
    )
    sinks = [
        TopologyDescriptionNode(name="out", node_type=3, sink_topic="counts"),
        TopologyDescriptionNode(name="sink", node_type=3),
    ]
    description = TopologyDescription(
        subtopologies=[
            TopologyDescriptionSubtopology(subtopology_id="0", nodes=[source, count, *sinks])
        ],
        global_stores=[TopologyDescriptionGlobalStore(source=source, processor=count)],
    )
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="application", member_id="one", topology_epoch=0, topology_description=description
    )
    with Cluster(address) as cluster:
        cluster.ask_coordinator(
            "application",
            request,
            StreamsGroupTopologyDescriptionUpdateResponse,
            lambda response: check(response.error_code, response.error_message),
        )
    shown = invoke("streams", "describe", "application", "--topology", bootstrap=address)
    assert shown.out == TEXT
    name = "kafka.server:type=group-coordinator-metrics"
    found = {each[1]: each.value for each in broker.node.metrics.values() if each[0] == name}
    prefix = "streams-group-topology-description"
    kinds = ("set-success", "set-error", "get-success")
    assert [found[f"{prefix}-{kind}-count"] for kind in kinds] == [1, 0, 1]
    missing = invoke("streams", "describe", "nobody", "--topology", bootstrap=address)
    assert (missing.code, "GROUP_ID_NOT_FOUND" in missing.err) == (1, True)


TEXT = """\
Topologies:
   Sub-topology: 0
    Source: source (topics: [in])
      --> count
    Processor: count (stores: [a, b])
      --> out, sink
      <-- source
    Sink: out (topic: counts)
      <-- count
    Sink: sink (topic: null)
      <-- count

   Sub-topology: 1 for global store (will not generate tasks)
    Source: source (topics: [in])
      --> count
    Processor: count (stores: [a, b])
      --> out, sink
      <-- source


"""
"""As Apache Kafka's command prints it."""
