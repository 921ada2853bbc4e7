"""AlterPartition: the changes that a leader may make, and the errors for other changes."""

import pytest

from odradek.core.metadata.registrations import NO_LEADER, RECOVERED, RECOVERING
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from odradek.wire.generated.partition_change_record import PartitionChangeRecord

from .harness import Controller
from .test_broker_decisions import cluster, partition
from .test_election_and_move_decisions import move
from .test_topic_decisions import create, topic


def alter(controller, isr, broker=None, version=3, epochs=None, name="a", repeat=1, **changes):
    """Send the request of a partition's leader; `changes` replace fields of the request.

    Return the partition's data in the response.
    """
    now = partition(controller, name)
    topic_id = controller.image.topics.by_name[name].id
    known = controller.image.cluster.brokers
    broker = now.leader if broker is None else broker
    fields = {
        "partition_index": 0,
        "leader_epoch": now.leader_epoch,
        "partition_epoch": now.partition_epoch,
        "leader_recovery_state": RECOVERED,
    }
    if version < 3:
        fields["new_isr"] = list(isr)
    else:
        fields["new_isr_with_epochs"] = [
            BrokerState(
                broker_id=each,
                broker_epoch=(epochs or {}).get(each, known[each].epoch if each in known else 5),
            )
            for each in isr
        ]
    topic_id = changes.pop("topic_id", topic_id)
    request = AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=changes.pop("broker_epoch", known[broker].epoch if broker in known else 0),
        topics=[
            TopicData(
                topic_id=topic_id,
                partitions=[PartitionData(**{**fields, **changes}) for _ in range(repeat)],
            )
        ],
    )
    decision = controller.ask(request, version)
    (answer,) = decision.response.topics
    assert answer.topic_id == topic_id
    return answer.partitions[0] if repeat == 1 else answer.partitions


@pytest.mark.parametrize("version", [2, 3])
def test_the_isr_shrinks_and_grows(version):
    controller = cluster()
    answer = alter(controller, [1, 2], version=version)
    state = partition(controller)
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1, 2), 1, 0, 1)
    assert (answer.error_code, answer.isr, answer.leader_id) == (0, [1, 2], 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (0, 1)
    answer = alter(controller, [1, 2, 3], version=version)
    assert (partition(controller).isr, answer.partition_epoch) == ((1, 2, 3), 2)


def test_the_same_isr_is_no_change():
    controller = cluster()
    before = controller.image
    answer = alter(controller, [1, 2, 3])
    assert controller.image is before
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2, 3], 0)


def test_a_new_leader_epoch_for_each_shrink_before_level_12():
    controller = cluster(elr=False, level=11)
    alter(controller, [1, 2])
    assert (partition(controller).leader, partition(controller).leader_epoch) == (1, 1)
    alter(controller, [1, 2, 3])
    assert partition(controller).leader_epoch == 1


def test_who_leaves_an_isr_below_the_minimum_becomes_eligible():
    controller = cluster()
    alter(controller, [1, 2])
    assert partition(controller).elr == ()
    alter(controller, [1])
    assert (partition(controller).isr, partition(controller).elr) == ((1,), (2,))
    alter(controller, [1, 3])
    assert (partition(controller).isr, partition(controller).elr) == ((1, 3), ())


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ([1, 2], {"topic_id": bytes(16)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ([1, 2], {"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1, 2], {"leader_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], {"leader_epoch": 0, "broker": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], {"broker": 2}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"broker": 2, "partition_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 9], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 4], {}, ErrorCode.INVALID_REQUEST),
        ([1, 9], {}, ErrorCode.INVALID_REQUEST),
        ([1, -1], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2, 2], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2, 2], {"version": 2}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 2}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"epochs": {2: 7777}}, ErrorCode.INELIGIBLE_REPLICA),
        ([1, 2], {"epochs": {1: 7777}}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_changes_that_are_refused(isr, changes, code):
    controller = cluster().join(4)
    topic_id = controller.image.topics.by_name["a"].id
    # Both epochs are 1, so that there are older and newer ones.
    controller.replay([PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1)])
    before = controller.image
    assert alter(controller, isr, **changes).error_code == code
    assert controller.image is before
    assert alter(controller, [1, 2], epochs={2: -1}).error_code == 0, "-1 is any epoch"


def test_a_leader_with_an_old_broker_epoch_is_refused():
    controller = cluster()
    before = controller.image
    with pytest.raises(ApiError) as raised:
        alter(controller, [1, 2], broker_epoch=7777)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(ApiError) as raised:
        alter(controller, [1, 2], broker=9)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert controller.image is before


@pytest.mark.parametrize("version", [2, 3])
def test_replicas_that_are_not_eligible(version):
    controller = cluster()
    alter(controller, [1])
    controller.heartbeat(2, fence=True)
    assert alter(controller, [1, 2], version=version).error_code == ErrorCode.INELIGIBLE_REPLICA
    create(controller, topic("b", assignments={0: [3, 1]}))
    controller.heartbeat(3, shut_down=True)
    assert not controller.image.cluster.brokers[3].fenced
    assert alter(controller, [1, 3], version=version).error_code == ErrorCode.INELIGIBLE_REPLICA
    controller.heartbeat(2)
    assert alter(controller, [1, 2], version=version).error_code == 0


def test_a_restarted_replica_needs_its_new_epoch():
    controller = cluster()
    old = controller.image.cluster.brokers[3].epoch
    controller.register(3)
    controller.heartbeat(3)
    assert partition(controller).isr == (1, 2)
    refused = alter(controller, [1, 2, 3], epochs={3: old})
    assert refused.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert alter(controller, [1, 2, 3]).error_code == 0


def test_the_second_change_of_a_partition_in_a_request_is_out_of_date():
    controller = cluster()
    first, second = alter(controller, [1, 2], repeat=2)
    assert (first.error_code, second.error_code) == (0, ErrorCode.INVALID_UPDATE_VERSION)
    assert (partition(controller).isr, partition(controller).partition_epoch) == ((1, 2), 1)


# -- recovery after an unclean election ------------------------------------------------------------


def recovering():
    """Broker 1 became the leader in an unclean election."""
    controller = cluster(elr=False)
    for broker in (1, 2, 3):
        controller.heartbeat(broker, fence=True)
    controller.heartbeat(1)
    request = ElectLeadersRequest(
        election_type=1, topic_partitions=[TopicPartitions(topic="a", partitions=[0])]
    )
    controller.ask(request)
    controller.heartbeat(2)
    state = partition(controller)
    assert (state.leader, state.isr, state.leader_recovery_state) == (1, (1,), RECOVERING)
    return controller


def test_a_leader_recovers():
    controller = recovering()
    answer = alter(controller, [1], leader_recovery_state=RECOVERING)
    assert (answer.error_code, answer.leader_recovery_state) == (0, RECOVERING)
    code = alter(controller, [1, 2], leader_recovery_state=RECOVERING).error_code
    assert code == ErrorCode.INVALID_REQUEST
    answer = alter(controller, [1])
    assert (answer.error_code, answer.leader_recovery_state) == (0, RECOVERED)
    assert partition(controller).leader_recovery_state == RECOVERED
    code = alter(controller, [1], leader_recovery_state=RECOVERING).error_code
    assert code == ErrorCode.INVALID_REQUEST
    assert alter(controller, [1, 2]).error_code == 0


def test_a_leader_recovers_and_adds_a_replica_at_once():
    controller = recovering()
    assert alter(controller, [1, 2]).error_code == 0
    state = partition(controller)
    assert (state.isr, state.leader_recovery_state) == ((1, 2), RECOVERED)


# -- reassignments ---------------------------------------------------------------------------------


def moving(target):
    controller = Controller().join(1, 2, 3, 4)
    create(controller, topic("a", assignments={0: [1, 2, 3]}))
    assert move(controller, target) == 0
    assert partition(controller).is_reassigning
    return controller


def test_the_last_added_replica_completes_a_reassignment():
    controller = moving([1, 2, 4])
    answer = alter(controller, [1, 2, 3, 4])
    state = partition(controller)
    assert (state.replicas, state.isr, state.leader) == ((1, 2, 4), (1, 2, 4), 1)
    assert not state.is_reassigning
    assert (answer.error_code, answer.isr) == (0, [1, 2, 4])
    assert (answer.leader_epoch, answer.partition_epoch) == (1, state.partition_epoch)
    code = alter(controller, [1, 2, 3, 4], leader_epoch=0).error_code
    assert code == ErrorCode.FENCED_LEADER_EPOCH, "the removed replica is fenced by the new epoch"


def test_a_reassignment_waits_for_all_added_replicas():
    controller = moving([4, 2])
    alter(controller, [1, 2])
    assert partition(controller).is_reassigning


def test_a_reassignment_without_its_leader_elects_another_one():
    controller = moving([2, 3, 4])
    answer = alter(controller, [1, 2, 3, 4])
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    state = partition(controller)
    assert (state.replicas, state.isr, state.leader) == ((2, 3, 4), (2, 3, 4), 2)
    assert state.leader_epoch == 1


def test_a_fenced_replica_never_completes_a_reassignment():
    controller = moving([2, 3, 4])
    controller.heartbeat(4, fence=True)
    assert alter(controller, [1, 2, 3, 4]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert partition(controller).is_reassigning
    assert partition(controller).leader != NO_LEADER
