"""Registration, fencing and unfencing of brokers, and the effects on leaders and ISRs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.core.metadata.registrations import NO_LEADER, RECOVERING
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.generated.broker_registration_request import BrokerRegistrationRequest, Feature
from odradek.wire.generated.controller_registration_request import ControllerRegistrationRequest
from odradek.wire.generated.partition_change_record import PartitionChangeRecord
from odradek.wire.generated.unregister_broker_request import UnregisterBrokerRequest
from odradek.wire.generated.unregister_controller_request import UnregisterControllerRequest

from .harness import Controller, directory
from .test_topic_decisions import create, topic


def partition(controller, name="a", index=0):
    return controller.image.topics.partition(name, index)


def cluster(**arguments):
    """Three brokers, and a topic on them with min.insync.replicas 2."""
    controller = Controller(**arguments).join(1, 2, 3)
    settings = {"min.insync.replicas": "2"}
    create(controller, topic("a", assignments={0: [1, 2, 3]}, settings=settings))
    return controller


# -- registration -----------------------------------------------------------------------------


def registration(**changes):
    fields = {
        "broker_id": 1,
        "cluster_id": "cluster",
        "incarnation_id": bytes(16),
        "features": [
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=33),
            Feature(name="kraft.version", min_supported_version=0, max_supported_version=1),
            Feature(
                name="eligible.leader.replicas.version",
                min_supported_version=0,
                max_supported_version=1,
            ),
        ],
        "log_dirs": [directory(1)],
    }
    return BrokerRegistrationRequest(**{**fields, **changes})


def test_a_broker_is_fenced_until_it_asks():
    controller = Controller()
    epoch = controller.register(1)
    broker = controller.image.cluster.brokers[1]
    assert broker.epoch == epoch == controller.image.offset
    assert broker.fenced
    assert broker.directories == (directory(1),)
    decision = controller.heartbeat(1)
    assert not decision.response.is_fenced
    assert not controller.image.cluster.brokers[1].fenced
    assert controller.heartbeat(1).records == []


def test_the_same_incarnation_keeps_its_epoch():
    controller = Controller()
    incarnation = bytes(15) + b"i"
    epoch = controller.register(1, incarnation=incarnation)
    controller.heartbeat(1)
    assert controller.register(1, incarnation=incarnation) == epoch
    assert not controller.image.cluster.brokers[1].fenced
    assert controller.register(1) > epoch
    assert controller.image.cluster.brokers[1].fenced


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [bytes(16)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1)] * 2}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        (
            {
                "features": [
                    Feature(
                        name="metadata.version", min_supported_version=7, max_supported_version=29
                    )
                ]
            },
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_registrations_that_are_refused(changes, code):
    controller = Controller().join(2)
    before = controller.image
    with pytest.raises(ApiError) as raised:
        controller.ask(registration(**changes))
    assert raised.value.code is code
    assert controller.image is before
    controller.ask(registration())


def test_an_old_epoch_is_fenced_off():
    controller = Controller().join(1)
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=7777)
    with pytest.raises(ApiError) as raised:
        controller.ask(request)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_producer_ids_come_in_blocks():
    controller = Controller().join(1)
    epoch = controller.image.cluster.brokers[1].epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    starts = [controller.ask(request).response.producer_id_start for _ in range(3)]
    assert starts == [0, 1000, 2000]


# -- effects on partitions -------------------------------------------------------------------------


def test_a_fenced_leader_is_replaced():
    controller = cluster()
    assert controller.heartbeat(1, fence=True).response.is_fenced
    assert partition(controller).leader == 2
    assert partition(controller).isr == (2, 3)
    assert partition(controller).elr == ()
    assert partition(controller).leader_epoch == 1


def test_who_leaves_a_small_isr_stays_eligible():
    controller = cluster()
    for broker in (1, 2):
        controller.heartbeat(broker, fence=True)
    assert (partition(controller).leader, partition(controller).isr) == (3, (3,))
    assert partition(controller).elr == (2,)
    controller.heartbeat(3, fence=True)
    state = partition(controller)
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (2, 3))
    assert state.last_known_elr == (3,)
    controller.heartbeat(2)
    state = partition(controller)
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (2, (2,), (3,), ())
    assert state.leader_recovery_state == 0


def test_without_elr_the_last_one_stays_in_sync():
    controller = cluster(elr=False)
    for broker in (1, 2, 3):
        controller.heartbeat(broker, fence=True)
    state = partition(controller)
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (3,), ())
    controller.heartbeat(1)
    assert partition(controller).leader == NO_LEADER
    controller.heartbeat(3)
    assert (partition(controller).leader, partition(controller).isr) == (3, (3,))


def test_unclean_elections_only_where_they_are_allowed():
    controller = cluster(elr=False)
    settings = {"unclean.leader.election.enable": "true"}
    create(controller, topic("u", assignments={0: [1, 2, 3]}, settings=settings))
    for broker in (1, 2, 3):
        controller.heartbeat(broker, fence=True)
    controller.heartbeat(1)
    unclean = partition(controller, "u")
    assert (unclean.leader, unclean.isr) == (1, (1,))
    assert unclean.leader_recovery_state == RECOVERING
    assert partition(controller, "a").leader == NO_LEADER


def test_an_unclean_end_takes_the_right_to_lead():
    controller = cluster()
    for broker in (1, 2, 3):
        controller.heartbeat(broker, fence=True)
    assert partition(controller).elr == (2, 3)
    controller.register(2)  # a new incarnation without the epoch of a clean shutdown
    assert partition(controller).elr == (3,)
    controller.heartbeat(2)
    assert partition(controller).leader == NO_LEADER
    epoch = controller.image.cluster.brokers[3].epoch
    controller.register(3, previous_epoch=epoch)
    assert partition(controller).elr == (3,)
    controller.heartbeat(3)
    assert partition(controller).leader == 3


def test_the_last_known_leader_when_nobody_is_eligible():
    controller = cluster()
    for broker in (1, 2, 3):
        controller.heartbeat(broker, fence=True)
    for broker in (2, 3):
        controller.register(broker)
    state = partition(controller)
    assert (state.elr, state.isr, state.last_known_elr) == ((), (), (3,))
    controller.heartbeat(2)
    assert partition(controller).leader == NO_LEADER
    controller.heartbeat(3)
    state = partition(controller)
    assert (state.leader, state.isr, state.leader_recovery_state) == (3, (3,), RECOVERING)


def test_partitions_of_one_broker_stay_with_it():
    controller = Controller().join(1)
    create(controller, topic("a", 3))
    decision = controller.heartbeat(1, shut_down=True)
    assert decision.response.should_shut_down
    assert len(decision.records) == 1, "nothing but the fencing"
    epoch = controller.image.cluster.brokers[1].epoch
    before = controller.image.topics
    controller.register(1, previous_epoch=epoch)
    controller.heartbeat(1)
    assert controller.image.topics == before


def test_partitions_of_one_broker_get_a_new_epoch_after_a_crash():
    controller = Controller().join(1)
    create(controller, topic("a", 3))
    controller.register(1)
    controller.heartbeat(1)
    for index in range(3):
        state = partition(controller, index=index)
        assert (state.leader, state.isr, state.leader_epoch) == (1, (1,), 1)


def test_a_partition_that_apache_kafka_left_without_a_leader():
    controller = Controller().join(1)
    create(controller, topic("a"))
    topic_id = controller.image.topics.by_name["a"].id
    change = PartitionChangeRecord(
        topic_id=topic_id, partition_id=0, isr=[], leader=-1, last_known_elr=[1]
    )
    controller.replay([change])
    controller.register(1)
    controller.heartbeat(1)
    assert (partition(controller).leader, partition(controller).isr) == (1, (1,))


def test_an_unregistered_controller_is_gone():
    """Apache Kafka 4.4 has this (KIP-1312)."""
    controller = Controller(node_id="1")
    controller.ask(ControllerRegistrationRequest(controller_id=1))
    controller.ask(ControllerRegistrationRequest(controller_id=2))
    controller.ask(UnregisterControllerRequest(controller_id=2))
    assert set(controller.image.cluster.controllers) == {1}
    for controller_id, code in (
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
    ):
        with pytest.raises(ApiError) as raised:
            controller.ask(UnregisterControllerRequest(controller_id=controller_id))
        assert raised.value.code is code


def test_controllers_are_unregistered_from_a_level_on():
    controller = Controller(node_id="1", level=32)
    controller.ask(ControllerRegistrationRequest(controller_id=2))
    with pytest.raises(ApiError, match="too old to support controller unregistration") as raised:
        controller.ask(UnregisterControllerRequest(controller_id=2))
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_unregistered_broker_is_gone():
    controller = cluster()
    controller.ask(UnregisterBrokerRequest(broker_id=1))
    assert 1 not in controller.image.cluster.brokers
    assert partition(controller).leader == 2
    with pytest.raises(ApiError) as raised:
        controller.ask(UnregisterBrokerRequest(broker_id=1))
    assert raised.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


steps = st.lists(
    st.tuples(
        st.sampled_from(["fence", "unfence", "crash", "restart", "shut down"]), st.integers(1, 3)
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(steps, st.booleans(), st.booleans())
def test_invariants_hold_whatever_brokers_do(steps, elr, unclean):
    controller = Controller(elr=elr).join(1, 2, 3)
    settings = {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true" if unclean else "false",
    }
    create(controller, topic("a", 4, 3, settings), topic("b", 3, 1), topic("c", 3, 2, settings))
    for step, broker in steps:
        before = controller.image.topics
        match step:
            case "fence":
                controller.heartbeat(broker, fence=True)
            case "unfence":
                controller.heartbeat(broker)
            case "crash":
                controller.register(broker)
            case "restart":
                epoch = controller.image.cluster.brokers[broker].epoch
                controller.register(broker, previous_epoch=epoch)
            case "shut down":
                controller.heartbeat(broker, shut_down=True)
        check_invariants(controller, before, elr, unclean)


def check_invariants(controller, before, elr, unclean):
    for name, each in controller.image.topics.by_name.items():
        for index, state in each.partitions.items():
            assert set(state.isr) <= set(state.replicas)
            assert set(state.elr) <= set(state.replicas)
            assert not set(state.isr) & set(state.elr)
            assert state.leader == NO_LEADER or state.leader in state.isr
            assert state.isr or elr, "without ELR somebody is always in sync"
            old = before.partition(name, index)
            assert state.leader_epoch >= old.leader_epoch
            if state.leader != old.leader:
                assert state.leader_epoch > old.leader_epoch
                was_clean = state.leader in (NO_LEADER, *old.isr, *old.elr)
                assert was_clean or unclean or state.leader_recovery_state == RECOVERING
            if state != old:
                assert state.partition_epoch == old.partition_epoch + 1
            if len(state.replicas) > 1 and state.leader != NO_LEADER:
                assert controller.state.is_active(state.leader)
