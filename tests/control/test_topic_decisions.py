"""Creating, growing and deleting topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.controller.placement import place
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

from .harness import Controller, directory


def topic(name, partitions=-1, factor=-1, settings=None, assignments=None):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=n, value=v) for n, v in (settings or {}).items()],
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
    )


def create(controller, *topics, validate_only=False, version=7):
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return controller.ask(request, version).response.topics


@pytest.fixture
def controller():
    return Controller().join(1)


def test_a_topic_gets_the_defaults_of_the_broker():
    controller = Controller(num_partitions="3").join(1)
    (result,) = create(controller, topic("a"))
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    image = controller.image.topics.by_name["a"]
    assert image.id == result.topic_id
    assert sorted(image.partitions) == [0, 1, 2]
    partition = image.partitions[2]
    assert partition.replicas == partition.isr == (1,)
    assert partition.directories == (directory(1),)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 0)


def test_settings_are_kept_and_described(controller):
    (result,) = create(controller, topic("a", settings={"retention.ms": "5"}))
    assert controller.image.configs.of(2, "a") == {"retention.ms": "5"}
    described = {each.name: each for each in result.configs}
    assert described["retention.ms"].value == "5"
    assert described["retention.ms"].config_source == 1
    assert described["cleanup.policy"].config_source == 5
    assert [each.name for each in result.configs if each.is_sensitive] == []


def test_configs_are_not_described_to_old_clients(controller):
    assert create(controller, topic("a"), version=4)[0].configs == []


def test_validate_only_changes_nothing(controller):
    before = controller.image
    (result,) = create(controller, topic("a", 2, 1), validate_only=True)
    assert result.error_code == 0
    assert controller.image is before


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("é"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("here"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("with.dot"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (topic("a", partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (topic("a", factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("a", factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("a", settings={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (topic("a", settings={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (topic("a", settings={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (topic("a", assignments={0: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("a", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("a", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("a", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("a", partitions=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic("a", factor=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_created(controller, bad, code):
    create(controller, topic("here"), topic("with_dot"))
    before = controller.image
    bad_result, good_result = create(controller, bad, topic("good"), validate_only=True)
    assert ErrorCode(bad_result.error_code) is code
    assert bad_result.error_message
    assert good_result.error_code == 0
    assert controller.image is before


def test_a_topic_named_twice_is_not_created(controller):
    results = create(controller, topic("a"), topic("b"), topic("a"))
    assert {each.name: each.error_code for each in results} == {
        "a": ErrorCode.INVALID_REQUEST,
        "b": 0,
    }
    assert list(controller.image.topics.by_name) == ["b"]


def test_too_much_at_once_is_refused_as_a_whole(controller):
    with pytest.raises(ApiError) as raised:
        create(controller, topic("a", 60_000), topic("b", 60_000))
    assert raised.value.code is ErrorCode.POLICY_VIOLATION


def test_replicas_by_hand():
    controller = Controller().join(1, 2)
    create(controller, topic("a", assignments={0: [2, 1], 1: [1, 2]}))
    partitions = controller.image.topics.by_name["a"].partitions
    assert partitions[0].replicas == (2, 1)
    assert partitions[0].leader == 2
    assert partitions[1].leader == 1


def test_fenced_brokers_are_not_in_sync():
    controller = Controller().join(1)
    controller.register(2)
    create(controller, topic("a", assignments={0: [2, 1]}))
    partition = controller.image.topics.partition("a", 0)
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)
    (result,) = create(controller, topic("b", assignments={0: [2]}))
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_broker_that_has_stopped_gets_replicas_and_one_that_stops_gets_none():
    controller = Controller().join(1, 2, 3)
    create(controller, topic("a", assignments={0: [1, 2, 3]}))
    controller.heartbeat(1, shut_down=True)
    (result,) = create(controller, topic("b", factor=3))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    for broker in (2, 3):
        controller.heartbeat(broker)
    controller.heartbeat(1, shut_down=True)
    assert controller.image.cluster.brokers[1].fenced
    (result,) = create(controller, topic("b", factor=3))
    assert result.error_code == 0
    partition = controller.image.topics.partition("b", 0)
    assert (set(partition.replicas), set(partition.isr)) == ({1, 2, 3}, {2, 3})


def test_without_a_live_broker_there_are_no_topics():
    controller = Controller()
    controller.register(1)
    (result,) = create(controller, topic("a"))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


# -- placement --------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=7),
    st.integers(1, 12),
    st.data(),
)
def test_replicas_are_spread_over_racks_and_brokers(rack_of, partitions, data):
    controller = Controller()
    racks = dict(enumerate(rack_of, 1))
    controller.join(*racks, racks=racks)
    factor = data.draw(st.integers(1, len(racks)))
    placements = place(controller.state, partitions, factor)
    assert len(placements) == partitions
    names = set(rack_of)
    for replicas in placements:
        assert len(set(replicas)) == factor
        used = {racks[broker] for broker in replicas}
        assert len(used) == min(factor, len(names))
    if len(names) == 1 and partitions >= len(racks):
        first_round = [replicas[0] for replicas in placements[: len(racks)]]
        assert sorted(first_round) == sorted(racks)


# -- partitions -------------------------------------------------------------------------------


def grow(controller, name, count, assignments=None, validate_only=False):
    wanted = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments],
    )
    request = CreatePartitionsRequest(topics=[wanted], validate_only=validate_only)
    return controller.ask(request).response.results[0]


def test_partitions_are_added(controller):
    create(controller, topic("a", 2))
    assert grow(controller, "a", 5).error_code == 0
    assert sorted(controller.image.topics.by_name["a"].partitions) == [0, 1, 2, 3, 4]
    assert grow(controller, "a", 6, [[1]]).error_code == 0
    before = controller.image
    assert grow(controller, "a", 9, validate_only=True).error_code == 0
    assert controller.image is before


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("a", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("a", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("b", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_partitions_that_cannot_be_added(controller, name, count, assignments, code):
    create(controller, topic("a", 2))
    assert grow(controller, name, count, assignments).error_code == code


# -- deletion ---------------------------------------------------------------------------------


def delete(controller, *topics, version=6):
    if version >= 6:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(**each) for each in topics])
    else:
        request = DeleteTopicsRequest(topic_names=[each["name"] for each in topics])
    responses = controller.ask(request, version).response.responses
    return [(each.name, ErrorCode(each.error_code)) for each in responses]


def test_topics_are_deleted_by_name_and_by_id(controller):
    made = create(controller, topic("a"), topic("b"), topic("c"))
    assert delete(controller, {"name": "a"}, {"name": None, "topic_id": made[1].topic_id}) == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.NONE),
    ]
    assert list(controller.image.topics.by_name) == ["c"]
    assert delete(controller, {"name": "c"}, version=5) == [("c", ErrorCode.NONE)]


def test_what_cannot_be_deleted(controller):
    (made,) = create(controller, topic("a"))
    results = delete(
        controller,
        {"name": "none"},
        {"name": None, "topic_id": bytes(15) + b"x"},
        {"name": None},
        {"name": "a", "topic_id": made.topic_id},
        {"name": "twice"},
        {"name": "twice"},
    )
    assert results == [
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, ErrorCode.INVALID_REQUEST),
        ("a", ErrorCode.INVALID_REQUEST),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    assert list(controller.image.topics.by_name) == ["a"]


def test_a_topic_named_by_its_name_and_by_its_id_is_not_deleted(controller):
    (made,) = create(controller, topic("a"))
    results = delete(controller, {"name": "a"}, {"name": None, "topic_id": made.topic_id})
    assert results == [("a", ErrorCode.INVALID_REQUEST)]
    assert list(controller.image.topics.by_name) == ["a"]


def test_deletion_may_be_disabled():
    controller = Controller(delete_topic_enable="false").join(1)
    with pytest.raises(ApiError) as raised:
        delete(controller, {"name": "a"})
    assert raised.value.code is ErrorCode.TOPIC_DELETION_DISABLED
    with pytest.raises(ApiError) as raised:
        delete(controller, {"name": "a"}, version=2)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
