"""Sessions of brokers, fencing, and controlled shutdown."""

import pytest

from odradek.core.controller.brokers import FENCE, UNFENCE
from odradek.core.metadata.registrations import NO_LEADER
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.generated.partition_change_record import PartitionChangeRecord
from odradek.wire.generated.unregister_broker_request import UnregisterBrokerRequest

from .harness import Controller, directory
from .test_broker_decisions import cluster, partition, registration
from .test_election_and_move_decisions import move
from .test_topic_decisions import create, grow, topic

SESSION_MS = 9_000


def fenced(controller):
    return [each.id for each in controller.image.cluster.brokers.values() if each.fenced]


def changes(records, kind):
    found = [each for each in records if isinstance(each, BrokerRegistrationChangeRecord)]
    return [each.broker_id for each in found if each.fenced == kind]


# -- sessions -------------------------------------------------------------------------------------


def test_a_silent_broker_is_fenced_when_its_session_expires():
    controller = cluster()
    controller.pass_time(5_000)
    for broker in (2, 3):
        controller.heartbeat(broker)
    assert controller.pass_time(SESSION_MS - 5_000) == [], "contact was exactly the timeout ago"
    records = controller.pass_time(1)
    assert changes(records, FENCE) == [1]
    assert fenced(controller) == [1]
    assert (partition(controller).leader, partition(controller).isr) == (2, (2, 3))
    assert isinstance(records[-1], BrokerRegistrationChangeRecord), "last, as in Apache Kafka"
    assert controller.pass_time(SESSION_MS - 4_001) == []
    assert changes(controller.pass_time(10_000), FENCE) == [2, 3]


def test_heartbeats_keep_a_session():
    controller = cluster()
    for _ in range(20):
        for broker in (1, 2, 3):
            controller.heartbeat(broker)
        assert controller.pass_time(4_000) == []
    assert fenced(controller) == []


def test_brokers_are_fenced_one_at_a_time():
    controller = cluster()
    controller.now_ms += SESSION_MS + 1
    sizes = []
    while (decision := controller.machine.due(controller.moment)) is not None:
        sizes.append(changes(controller.make(decision).records, FENCE))
    assert sizes == [[1], [2], [3]]
    state = partition(controller)
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (2, 3))
    assert state.last_known_elr == (3,), "each election knew of the fencing before it"


def test_the_failover_of_the_controller_fences_nobody():
    controller = cluster()
    controller.heartbeat(3, fence=True)
    controller.pass_time(SESSION_MS - 1)
    for broker in (1, 2, 3):
        controller.heartbeat(broker, fence=broker == 3)
    controller.pass_time(SESSION_MS - 1)
    controller.fail_over()
    assert controller.pass_time(SESSION_MS) == []
    assert changes(controller.pass_time(1), FENCE) == [1, 2], "the third was fenced before"


def test_a_controller_that_was_stopped_gives_unread_heartbeats_a_grace_period():
    controller = cluster()
    controller.now_ms += 60_000  # the process was stopped
    assert controller.machine.due(controller.moment) is None
    for broker in (2, 3):
        controller.heartbeat(broker)
    assert changes(controller.pass_time(SESSION_MS // 8), FENCE) == [1]
    assert fenced(controller) == [1]


def test_the_session_of_an_earlier_registration_fences_nobody():
    controller = cluster()
    controller.pass_time(8_000)
    request = registration(incarnation_id=bytes(15) + b"i")
    controller.machine.end_session(1)
    controller.ask(request)
    controller.heartbeat(1)
    for broker in (2, 3):
        controller.heartbeat(broker)
    assert controller.pass_time(SESSION_MS) == []


def test_a_fenced_broker_that_falls_silent_changes_nothing():
    controller = cluster()
    for _ in range(2):
        controller.heartbeat(1, fence=True)
    for _ in range(10):
        for broker in (2, 3):
            controller.heartbeat(broker)
        assert controller.pass_time(4_000) == []


def test_an_unregistered_broker_has_no_session():
    controller = cluster()
    controller.ask(UnregisterBrokerRequest(broker_id=1))
    for broker in (2, 3):
        controller.heartbeat(broker, shut_down=True, fence=True)
    assert controller.pass_time(100_000) == []


def test_a_second_broker_with_the_same_id_is_refused_while_the_first_lives():
    controller = cluster()
    request = registration(incarnation_id=bytes(15) + b"i")
    with pytest.raises(ApiError) as raised:
        controller.ask(request)
    assert raised.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    epoch = controller.image.cluster.brokers[1].epoch
    own = registration(incarnation_id=controller.image.cluster.brokers[1].incarnation_id)
    assert controller.ask(own).response.broker_epoch == epoch, "the same one may repeat it"
    controller.now_ms += SESSION_MS + 1
    assert controller.ask(request).response.broker_epoch > epoch


@pytest.mark.parametrize("leads", [True, False])
def test_a_broker_that_was_allowed_to_stop_may_register_at_once(leads):
    controller = cluster()
    if not leads:
        controller.heartbeat(1, fence=True)
        controller.heartbeat(1)
    assert (partition(controller).leader == 1) is leads
    stop(controller, 1)
    assert controller.image.cluster.brokers[1].in_controlled_shutdown is leads
    epoch = controller.image.cluster.brokers[1].epoch
    request = registration(incarnation_id=bytes(15) + b"i", previous_broker_epoch=epoch)
    assert controller.ask(request).response.broker_epoch > epoch


def test_a_broker_that_dies_during_its_shutdown_may_register_at_once():
    controller = cluster()
    controller.heartbeat(1, shut_down=True)
    request = registration(incarnation_id=bytes(15) + b"i")
    before = controller.image.cluster.brokers[1]
    assert not before.fenced
    assert controller.ask(request).response.broker_epoch > before.epoch
    assert controller.image.cluster.brokers[1].fenced
    assert not controller.image.cluster.brokers[1].in_controlled_shutdown


# -- unfencing -------------------------------------------------------------------------------------


def test_a_broker_is_unfenced_when_it_has_read_its_registration():
    controller = cluster()
    epoch = controller.register(1)
    end = controller.image.offset
    assert epoch < end, "changes of partitions come before the registration"
    for offset in (-1, epoch, end - 1):
        answer = controller.heartbeat(1, offset=offset).response
        assert (answer.is_fenced, answer.is_caught_up) == (True, False)
    answer = controller.heartbeat(1, fence=True, offset=end).response
    assert (answer.is_fenced, answer.is_caught_up) == (True, True)
    decision = controller.heartbeat(1, offset=end)
    assert (decision.response.is_fenced, decision.response.is_caught_up) == (False, True)
    assert changes(decision.records, UNFENCE) == [1]
    answer = controller.heartbeat(1, offset=0).response
    assert not answer.is_fenced, "an unfenced broker that lags is not fenced for it"


def test_after_a_failover_a_broker_must_have_read_what_was_there():
    controller = cluster()
    controller.register(1)
    create(controller, topic("b"))
    controller.fail_over()
    end = controller.image.offset
    assert controller.heartbeat(1, offset=end - 1).response.is_fenced
    assert not controller.heartbeat(1, offset=end).response.is_fenced


# -- controlled shutdown ---------------------------------------------------------------------------


def stop(controller, broker):
    """Send heartbeats of all brokers until the broker may stop."""
    for _ in range(3):
        answer = controller.heartbeat(broker, shut_down=True).response
        if answer.should_shut_down:
            return
        for each in controller.image.cluster.brokers.values():
            if each.id != broker and not each.fenced:
                controller.heartbeat(each.id)
    raise AssertionError("the broker may not stop")


def test_a_controlled_shutdown_moves_the_leaders_first():
    controller = cluster()
    decision = controller.heartbeat(1, shut_down=True)
    answer = decision.response
    assert (answer.is_fenced, answer.should_shut_down) == (False, False)
    assert controller.image.cluster.brokers[1].in_controlled_shutdown
    assert (partition(controller).leader, partition(controller).isr) == (2, (2, 3))
    moved = controller.image.offset
    assert not controller.heartbeat(1, shut_down=True).response.should_shut_down
    controller.heartbeat(2, offset=moved)
    controller.heartbeat(3, offset=moved - 1)
    assert not controller.heartbeat(1, shut_down=True).response.should_shut_down
    controller.heartbeat(3, offset=moved)
    decision = controller.heartbeat(1, shut_down=True)
    assert (decision.response.is_fenced, decision.response.should_shut_down) == (True, True)
    assert changes(decision.records, FENCE) == [1]
    again = controller.heartbeat(1, shut_down=True)
    assert again.response.should_shut_down
    assert again.records == []


def test_a_broker_that_leads_nothing_stops_at_once():
    controller = cluster()
    decision = controller.heartbeat(3, shut_down=True)
    assert decision.response.should_shut_down
    assert partition(controller).isr == (1, 2)
    assert changes(decision.records, FENCE) == [3]


def test_a_broker_that_also_wants_to_be_fenced_stops_at_once():
    controller = cluster()
    assert controller.heartbeat(1, shut_down=True, fence=True).response.should_shut_down
    assert partition(controller).leader == 2


def test_a_broker_in_controlled_shutdown_gets_no_partitions():
    controller = cluster()
    controller.heartbeat(1, shut_down=True)
    (result,) = create(controller, topic("b", 6, 2))
    assert result.error_code == 0
    for each in controller.image.topics.by_name["b"].partitions.values():
        assert 1 not in each.replicas


def test_the_failover_of_the_controller_during_a_controlled_shutdown():
    controller = cluster()
    controller.heartbeat(1, shut_down=True)
    controller.fail_over()
    assert controller.heartbeat(1, shut_down=True).response.should_shut_down, "it leads nothing"


def test_the_last_broker_may_stop():
    controller = cluster(elr=False)
    for broker in (1, 2, 3):
        stop(controller, broker)
    assert fenced(controller) == [1, 2, 3]
    assert (partition(controller).leader, partition(controller).isr) == (NO_LEADER, (3,))


def test_a_fenced_broker_does_not_delay_a_controlled_shutdown():
    controller = cluster()
    controller.heartbeat(3, fence=True)
    controller.heartbeat(1, shut_down=True)
    controller.heartbeat(2)
    assert controller.heartbeat(1, shut_down=True).response.should_shut_down


# -- log directories -------------------------------------------------------------------------------


def two_directories():
    """Broker 1 has replicas of a-0 and b-0 in its second directory, and of a-1 in its first."""
    controller = Controller()
    controller.register(1, directories=[directory(1), directory(9)])
    controller.heartbeat(1)
    controller.join(2, 3)
    create(controller, topic("a", assignments={0: [1, 2], 1: [1, 2]}))
    create(controller, topic("b", assignments={0: [1]}))
    for name, index, directories in (
        ("a", 0, [directory(9), directory(2)]),
        ("a", 1, [directory(1), directory(2)]),
        ("b", 0, [directory(9)]),
    ):
        topic_id = controller.image.topics.by_name[name].id
        record = PartitionChangeRecord(
            topic_id=topic_id, partition_id=index, directories=directories
        )
        controller.replay([record])
    return controller


def test_a_lost_directory_moves_its_leaders_only():
    controller = two_directories()
    answer = controller.heartbeat(1, offline=[directory(9)]).response
    assert not answer.is_fenced
    assert controller.image.cluster.brokers[1].directories == (directory(1),)
    assert (partition(controller).leader, partition(controller).isr) == (2, (2,))
    assert partition(controller, index=1).leader == 1
    assert partition(controller, "b").leader == NO_LEADER, "its only replica is lost"
    assert controller.heartbeat(1, offline=[directory(9)]).records == [], "known already"
    assert controller.heartbeat(1, offline=[directory(77)]).records == [], "never was"


def test_a_broker_is_unfenced_after_its_lost_directories_are_known():
    controller = two_directories()
    epoch = controller.image.cluster.brokers[1].epoch
    controller.heartbeat(1, fence=True)
    controller.heartbeat(2, fence=True)
    assert partition(controller).leader == NO_LEADER
    assert controller.heartbeat(1, offline=[directory(9)]).response.is_fenced
    assert not controller.heartbeat(1, offline=[directory(9)]).response.is_fenced
    assert partition(controller).leader == NO_LEADER
    assert partition(controller, index=1).leader in (NO_LEADER, 1)
    assert controller.image.cluster.brokers[1].epoch == epoch


def test_a_repaired_directory_returns_with_the_next_registration():
    controller = two_directories()
    controller.heartbeat(1, offline=[directory(9)])
    epoch = controller.image.cluster.brokers[1].epoch
    stop(controller, 1)
    controller.register(1, previous_epoch=epoch, directories=[directory(1), directory(9)])
    controller.heartbeat(1)
    assert partition(controller, "b").leader == 1


def test_cordoned_directories_get_no_new_replicas():
    controller = Controller().join(1, 2)
    assert len(controller.heartbeat(1, cordoned=[directory(1)]).records) == 1
    assert controller.image.cluster.brokers[1].cordoned_directories == (directory(1),)
    assert controller.heartbeat(1, cordoned=[directory(1)]).records == []
    assert controller.heartbeat(1).records == [], "null: the broker does not know"
    create(controller, topic("a", 6, 1))
    assert {partition(controller, index=index).leader for index in range(6)} == {2}
    assert len(controller.heartbeat(1, cordoned=[]).records) == 1
    create(controller, topic("b", 6, 1))
    assert {partition(controller, "b", index).leader for index in range(6)} == {1, 2}


def test_replicas_cannot_be_assigned_to_cordoned_directories():
    """Neither by an administrator (KAFKA-20832)."""
    controller = Controller().join(1, 2)
    create(controller, topic("a", assignments={0: [2]}))
    controller.heartbeat(1, cordoned=[directory(1)])
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    (result,) = create(controller, topic("b", assignments={0: [2, 1]}))
    assert result.error_code == refused
    assert result.error_message == (
        "The manual partition assignment includes broker 1, but all its log directories are cordoned."
    )
    assert grow(controller, "a", 2, assignments=[[1]]).error_code == refused
    assert move(controller, [1]) == refused
    controller.heartbeat(1, cordoned=[])
    assert not create(controller, topic("b", assignments={0: [2, 1]}))[0].error_code


def test_cordoned_directories_before_their_level():
    controller = Controller(level=29).join(1)
    assert controller.heartbeat(1, cordoned=[directory(1)]).records == []
