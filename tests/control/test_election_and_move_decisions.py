"""Requested elections, reassignments and feature updates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.controller import reassignment
from odradek.core.metadata.registrations import NO_LEADER, RECOVERING
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.generated.config_record import ConfigRecord
from odradek.wire.generated.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
)
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from odradek.wire.generated.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.wire.generated.partition_change_record import PartitionChangeRecord
from odradek.wire.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

from .harness import Controller
from .test_broker_decisions import cluster, partition
from .test_topic_decisions import create, topic

PREFERRED, UNCLEAN = 0, 1


def elect(controller, kind, partitions=((("a"), [0]),)):
    wanted = None
    if partitions is not None:
        wanted = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in partitions]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted)
    results = controller.ask(request).response.replica_election_results
    return {
        (each.topic, one.partition_id): one.error_code
        for each in results
        for one in each.partition_result
    }


def test_the_preferred_leader_is_elected():
    controller = cluster()
    controller.heartbeat(1, fence=True)
    assert elect(controller, PREFERRED) == {("a", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    controller.heartbeat(1)
    topic_id = controller.image.topics.by_name["a"].id
    controller.replay([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[2, 3, 1])])
    assert partition(controller).leader == 2
    assert elect(controller, PREFERRED) == {("a", 0): 0}
    assert partition(controller).leader == 1
    assert elect(controller, PREFERRED) == {("a", 0): ErrorCode.ELECTION_NOT_NEEDED}
    assert elect(controller, PREFERRED, None) == {}, "of all, those with their leader are not told"


def test_an_unclean_leader_is_elected():
    controller = cluster(elr=False)
    assert elect(controller, UNCLEAN) == {("a", 0): ErrorCode.ELECTION_NOT_NEEDED}
    for broker in (1, 2, 3):
        controller.heartbeat(broker, fence=True)
    assert elect(controller, UNCLEAN) == {("a", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    controller.heartbeat(1)
    assert partition(controller).leader == NO_LEADER
    assert elect(controller, UNCLEAN, None) == {("a", 0): 0}
    state = partition(controller)
    assert (state.leader, state.isr, state.leader_recovery_state) == (1, (1,), RECOVERING)


def test_the_only_replica_is_on_a_fenced_broker():
    """The leader stays, because no other broker can lead. In Apache Kafka there is no leader."""
    controller = cluster()
    create(controller, topic("b", assignments={0: [1]}))
    controller.heartbeat(1, fence=True)
    for kind, error in (
        (PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        assert elect(controller, kind, [("b", [0])]) == {("b", 0): error}
    controller.heartbeat(1)
    assert elect(controller, PREFERRED, [("b", [0])]) == {("b", 0): ErrorCode.ELECTION_NOT_NEEDED}


def test_elections_of_what_does_not_exist():
    controller = cluster()
    found = elect(controller, PREFERRED, [("a", [9]), ("none", [0])])
    assert set(found.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert elect(controller, 5) == {("a", 0): ErrorCode.INVALID_REQUEST}


# -- reassignments ----------------------------------------------------------------------------


def move(controller, replicas, name="a", index=0, may_change_factor=True):
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
            )
        ],
    )
    (answer,) = controller.ask(request).response.responses
    return answer.partitions[0].error_code


def moving(controller, topics=None):
    wanted = None
    if topics is not None:
        wanted = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=[0]) for name in topics
        ]
    response = controller.ask(ListPartitionReassignmentsRequest(topics=wanted)).response
    return {
        (each.name, one.partition_index): (one.replicas, one.adding_replicas, one.removing_replicas)
        for each in response.topics
        for one in each.partitions
    }


def four_brokers():
    controller = Controller().join(1, 2, 3, 4)
    create(controller, topic("a", assignments={0: [1, 2, 3]}))
    return controller


def join_isr(controller, isr):
    """Change the ISR, as the leader does after the new replica has caught up."""
    from odradek.core.controller.partition_change import PartitionChange

    image = controller.image.topics.by_name["a"]
    change = PartitionChange(controller.state, "a", image.id, 0, image.partitions[0], isr=isr)
    controller.replay([change.record()])


def test_a_replica_that_is_removed_is_not_eligible_to_lead():
    controller = Controller().join(1, 2)
    settings = {"min.insync.replicas": "2"}
    create(controller, topic("a", assignments={0: [1]}, settings=settings))
    assert move(controller, [2]) == 0
    join_isr(controller, [1, 2])
    state = partition(controller)
    assert (state.replicas, state.isr, state.elr) == ((2,), (2,), ())


def test_a_partition_moves_in_steps():
    controller = four_brokers()
    assert moving(controller) == {}
    assert move(controller, [1, 2, 4]) == 0
    state = partition(controller)
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == (
        (1, 2, 4, 3),
        (4,),
        (3,),
    )
    assert moving(controller) == moving(controller, ["a"]) == {("a", 0): ([1, 2, 4, 3], [4], [3])}
    assert moving(controller, ["none"]) == {}
    join_isr(controller, [1, 2, 3, 4])
    state = partition(controller)
    assert (state.replicas, state.isr) == ((1, 2, 4), (1, 2, 4))
    assert not state.is_reassigning
    assert moving(controller) == {}


def test_a_move_is_called_off():
    controller = four_brokers()
    assert move(controller, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert move(controller, [4]) == 0
    assert partition(controller).is_reassigning
    assert move(controller, None) == 0
    state = partition(controller)
    assert (state.replicas, state.isr) == ((1, 2, 3), (1, 2, 3))
    assert not state.is_reassigning


def test_a_move_back_to_the_old_replicas_ends_at_once():
    controller = four_brokers()
    assert move(controller, [4, 1, 2]) == 0
    assert move(controller, [1, 2, 3]) == 0
    state = partition(controller)
    assert (state.replicas, state.isr) == ((1, 2, 3), (1, 2, 3))
    assert not state.is_reassigning, "the replica that is removed again is not waited for"


def test_a_move_that_keeps_all_replicas_removes_none():
    controller = four_brokers()
    assert move(controller, [4, 1, 2]) == 0
    assert move(controller, [4, 1, 2, 3]) == 0
    assert moving(controller) == {("a", 0): ([4, 1, 2, 3], [4], [])}
    join_isr(controller, [1, 2, 3, 4])
    state = partition(controller)
    assert (state.replicas, state.isr) == ((4, 1, 2, 3), (1, 2, 3, 4))
    assert not state.is_reassigning


def test_the_same_replicas_are_no_move():
    controller = Controller().join(1)
    create(controller, topic("a"))
    before = controller.image
    assert move(controller, [1]) == 0
    assert controller.image is before


def test_moves_that_are_refused():
    controller = four_brokers()
    assert move(controller, [9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(controller, []) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(controller, [1, 1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(controller, [1], index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(controller, [1], name="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(controller, [1, 2], may_change_factor=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(controller, [2, 3, 4], may_change_factor=False) == 0
    assert moving(controller) != {}


replica_lists = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)


@given(replica_lists, replica_lists)
def test_a_move_ends_at_its_target(current, target):
    step = reassignment.plan(current, target)
    assert set(step.replicas) == {*current, *target}
    if not step.adding and not step.removing:
        return
    done = reassignment.completed(step.replicas, step.replicas, step.removing, step.adding)
    assert done is not None
    assert list(done[0]) == target
    assert set(done[1]) == set(target)
    back = reassignment.reverse(step.replicas, current, step.adding)
    assert set(back.replicas) == set(current)
    assert not back.is_unclean


@given(replica_lists, st.lists(replica_lists, min_size=2, max_size=4))
def test_the_last_of_several_moves_is_made(current, targets):
    replicas, adding = current, ()
    for target in targets:
        step = reassignment.plan(replicas, target, adding)
        replicas, adding = step.replicas, step.adding
    assert set(adding).isdisjoint(step.removing)
    done = reassignment.completed(step.replicas, step.replicas, step.removing, step.adding)
    final = step.replicas if done is None else done[0]
    assert list(final) == targets[-1]


# -- features -----------------------------------------------------------------------------------


def update(controller, *levels, version=2, validate_only=False):
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in levels
        ],
        validate_only=validate_only,
    )
    return controller.ask(request, version).response


UPGRADE, SAFE, UNSAFE = 1, 2, 3


def test_levels_are_raised_and_lowered():
    controller = Controller(elr=False).join(1)
    assert update(controller, ("group.version", 1, UPGRADE), validate_only=True).error_code == 0
    assert controller.image.features.level("group.version") == 0
    answer = update(controller, ("group.version", 1, UPGRADE), version=1)
    assert [each.feature for each in answer.results] == ["group.version"]
    assert controller.image.features.level("group.version") == 1
    update(controller, ("group.version", 0, SAFE))
    assert controller.image.features.level("group.version") == 0


@pytest.mark.parametrize(
    "levels",
    [
        ("group.version", 2, UPGRADE),
        ("group.version", -1, UPGRADE),
        ("group.version", 1, 9),
        ("no.such.version", 1, UPGRADE),
        ("share.version", 1, UPGRADE),
        ("metadata.version", 34, UPGRADE),
        ("metadata.version", 32, UPGRADE),
        ("metadata.version", 32, SAFE),
        ("metadata.version", 7, UNSAFE),
        ("kraft.version", 0, SAFE),
    ],
)
def test_levels_that_cannot_be(levels):
    controller = Controller().join(1)
    before = controller.image
    with pytest.raises(ApiError) as raised:
        update(controller, levels)
    assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert controller.image is before


def test_the_node_that_does_not_know_a_level_is_named():
    controller = Controller(level=30, node_id="1").join(1)
    features = [Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]
    controller.ask(ControllerRegistrationRequest(controller_id=3, features=features))
    text = "Invalid update version 33 for feature metadata.version. Controller 3 only supports "
    with pytest.raises(ApiError, match=f"{text}versions 7-30"):
        update(controller, ("metadata.version", 33, UPGRADE))


def test_metadata_version_is_lowered_where_nothing_is_lost():
    controller = Controller(level=29).join(1)
    update(controller, ("metadata.version", 28, SAFE))
    assert controller.image.features.metadata_version == 28
    with pytest.raises(ApiError, match=r"from 28 to 22\. Refusing to perform the requested"):
        update(controller, ("metadata.version", 22, SAFE))
    with pytest.raises(ApiError, match="Unsafe metadata downgrade is not supported"):
        update(controller, ("metadata.version", 22, UNSAFE))
    for level in (30, 31, 32, 33):
        update(controller, ("metadata.version", level, UPGRADE))
        assert controller.image.features.metadata_version == level
    with pytest.raises(ApiError, match=r"from 33 to 31\. Refusing"):
        update(controller, ("metadata.version", 31, SAFE))


def test_elr_comes_with_one_minimum_for_all_brokers():
    controller = Controller(elr=False).join(1)
    record = ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="2")
    controller.replay([record])
    update(controller, ("eligible.leader.replicas.version", 1, UPGRADE))
    configs = controller.image.configs
    assert configs.of(4, "") == {"min.insync.replicas": "1"}
    assert configs.of(4, "1") == {}
    assert controller.state.elr_enabled
