"""Descriptions of topologies: who is asked, what is stored, and when it is deleted (KIP-1331)."""

from __future__ import annotations

import pytest
from tests.streams.support import GROUP, STATELESS, topology

from odradek.core.group.streams.descriptions import KEPT_HERE
from odradek.model.errors import ErrorCode
from odradek.wire.generated.streams_group_heartbeat_request import TaskOffset
from odradek.wire.generated.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

NOT_ASKED, NOT_STORED, AVAILABLE = 0, 1, 3
SOURCE = TopologyDescriptionNode(
    name="source", node_type=1, source_topics=["in", "in"], successors=["count", "count"]
)
COUNT = TopologyDescriptionNode(
    name="count", node_type=2, source_topics=["lost"], stores=["counts"], successors=["sink"]
)
SINK = TopologyDescriptionNode(name="sink", node_type=3, sink_topic="out", stores=["lost"])


def plan(*nodes, stores=()):
    return TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=list(nodes))],
        global_stores=list(stores),
    )


@pytest.fixture
def groups(make):
    made = make(group_streams_topology_description_plugin_class=KEPT_HERE)
    made.set_topics(**{"in": 4})
    return made


def push(groups, member_id="a", description=None, epoch=0, group_id=GROUP):
    """The error of the response or of the request."""
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group_id,
        member_id=member_id,
        topology_epoch=epoch,
        topology_description=description or plan(SOURCE, COUNT, SINK),
    )
    task = groups.loop.create_task(groups.groups.update_topology_description(request))
    answer = groups.call(lambda: task)
    return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)


def asked(groups, member_id="a", version=1, **fields):
    return groups.beat(member_id, version=version, **fields).topology_description_required


def described(groups):
    task = groups.loop.create_task(
        groups.groups.describe_streams_groups([GROUP], with_description=True)
    )
    (group,) = groups.get(task)
    return group


def wait(groups, seconds, *members):
    """Time passes, while the members send heartbeats of version 0."""
    for _ in range(0, seconds, 5):
        groups.run(5_000)
        for each in members:
            groups.beat(each)


def test_one_member_is_asked_and_again_after_a_while(groups):
    assert groups.enter("a", version=1).topology_description_required
    assert not groups.enter("b", version=1).topology_description_required
    assert not asked(groups)
    wait(groups, 20, "a", "b")
    assert not asked(groups)
    wait(groups, 20, "a", "b")  # 30 s, and at most a fifth more
    assert asked(groups, "b")
    wait(groups, 40, "a", "b")
    assert not asked(groups)  # twice as long
    wait(groups, 35, "a", "b")
    assert asked(groups)


def test_version_0_and_members_that_leave_are_not_asked(groups):
    assert not groups.enter("a", version=0).topology_description_required
    assert not asked(groups, version=0)
    assert not groups.beat("a", epoch=-1, version=1).topology_description_required


def test_a_member_with_an_older_topology_is_not_asked(groups):
    groups.enter("a", topology(*STATELESS.subtopologies, epoch=2))
    assert not groups.enter("old", version=1).topology_description_required
    assert asked(groups)


def test_nobody_is_asked_without_the_setting(make):
    groups = make()
    groups.set_topics(**{"in": 4})
    assert not groups.enter("a", version=1).topology_description_required
    assert push(groups) == ErrorCode.UNSUPPORTED_VERSION
    assert described(groups).topology_description_status == NOT_STORED


def test_a_description_is_stored_and_shown(groups):
    groups.enter("a", version=1)
    assert described(groups).topology_description_status == NOT_STORED
    store = TopologyDescriptionGlobalStore(source=SOURCE, processor=COUNT)
    assert push(groups, description=plan(SOURCE, COUNT, SINK, stores=[store])) == ErrorCode.NONE
    wait(groups, 100, "a")
    groups.enter("b", version=1)
    assert not asked(groups, "b")
    for _ in range(2):
        found = described(groups)
        assert found.topology_description_status == AVAILABLE
        (subtopology,) = found.topology_description.subtopologies
        source, count, sink = subtopology.nodes
        assert (source.node_type, source.source_topics, source.successors) == (1, ["in"], ["count"])
        assert (count.node_type, count.source_topics, count.stores) == (2, [], ["counts"])
        assert (sink.node_type, sink.sink_topic, sink.stores) == (3, "out", [])
        assert found.topology_description.global_stores[0].processor.name == "count"
        groups.restart()
    plain = groups.describe()
    assert plain.topology_description_status == NOT_ASKED
    assert plain.topology_description is None
    assert plain.assignor_name == "sticky"


def test_the_epoch_survives_other_changes_of_the_group(groups):
    groups.enter("a")
    push(groups)
    groups.enter("b")
    groups.beat("b", epoch=-1)
    groups.beat("a", epoch=-1)
    assert described(groups).topology_description_status == AVAILABLE


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": "unknown"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"epoch": 1}, ErrorCode.INVALID_REQUEST),
        (
            {"description": plan(TopologyDescriptionNode(name="x", node_type=4))},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {
                "description": plan(
                    stores=[TopologyDescriptionGlobalStore(source=SOURCE, processor=SINK)]
                )
            },
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_what_is_refused(groups, fields, error):
    groups.enter("a")
    assert push(groups, **fields) == error
    assert described(groups).topology_description_status == NOT_STORED


def test_a_description_that_is_too_large_is_not_asked_for_again(groups):
    groups.enter("a", version=1)
    huge = TopologyDescriptionNode(name="x" * 2_000_000, node_type=2)
    failed = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    assert push(groups, description=plan(huge)) == failed
    wait(groups, 40, "a")
    assert not asked(groups)
    assert described(groups).topology_description_status == NOT_STORED


def test_a_description_that_a_coordinator_of_apache_kafka_had_is_asked_for_again(groups):
    """Such a coordinator keeps it in memory. The log has only the epoch."""
    groups.enter("a", version=1)
    push(groups)
    groups.groups.shard_of(GROUP).machine.streams.descriptions.set(GROUP, None)
    assert described(groups).topology_description_status == NOT_STORED
    assert asked(groups)
    push(groups)
    assert described(groups).topology_description_status == AVAILABLE
    wait(groups, 40, "a")
    assert not asked(groups)


def test_offsets_of_tasks_are_shown(groups):
    groups.enter("a")
    two = [TaskOffset(subtopology_id="0", partition=each, offset=each * 5) for each in (2, 1)]
    groups.beat("a", task_offsets=two, task_end_offsets=two[:1])
    for _ in range(2):
        (member,) = groups.describe().members
        assert [(each.partition, each.offset) for each in member.task_offsets] == [(1, 5), (2, 10)]
        assert [(each.partition, each.offset) for each in member.task_end_offsets] == [(2, 10)]
        groups.beat("a")  # what is left out does not change


def test_a_description_is_deleted_with_its_group(groups):
    groups.enter("a")
    push(groups)
    groups.beat("a", epoch=-1)
    (result,) = groups.get(groups.loop.create_task(groups.groups.delete_groups([GROUP])))
    assert result.error_code == ErrorCode.NONE
    groups.restart()
    assert groups.enter("a", version=1).topology_description_required
    assert described(groups).topology_description_status == NOT_STORED
