"""The controller's work without requests: elections, NoOp records, and large decisions."""

import pytest

from odradek.core.controller import machine, periodic
from odradek.core.controller.machine import batches
from odradek.core.controller.state import RECORDS_PER_BATCH_MAX, Decision
from odradek.core.metadata.registrations import NO_LEADER, RECOVERING
from odradek.wire.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.generated.config_record import ConfigRecord
from odradek.wire.generated.no_op_record import NoOpRecord
from odradek.wire.generated.partition_change_record import PartitionChangeRecord

from .harness import Controller
from .test_alter_partition import alter
from .test_broker_decisions import cluster, partition
from .test_topic_decisions import create, topic

INTERVAL_MS = 300_000
BEAT_MS = 4_000


def live(controller, milliseconds, *brokers):
    """Pass the time while these brokers send heartbeats; return the records."""
    records = []
    end_ms = controller.now_ms + milliseconds
    while controller.now_ms < end_ms:
        for broker in brokers:
            controller.heartbeat(broker)
        records += controller.pass_time(min(BEAT_MS, end_ms - controller.now_ms))
    return records


# -- preferred leaders ----------------------------------------------------------------------------


def moved_away():
    """Broker 2 leads the partition, and the first replica is in sync again."""
    controller = cluster()
    controller.heartbeat(1, fence=True)
    controller.heartbeat(1)
    alter(controller, [2, 3, 1])
    assert partition(controller).leader == 2
    return controller


def test_the_first_replica_becomes_the_leader_again():
    controller = moved_away()
    assert live(controller, INTERVAL_MS - 1, 1, 2, 3) == []
    (record,) = live(controller, 1, 1, 2, 3)
    assert (record.leader, partition(controller).leader) == (1, 1)
    assert live(controller, 3 * INTERVAL_MS, 1, 2, 3) == []


def test_a_first_replica_that_is_not_in_sync_is_tried_again():
    controller = cluster()
    controller.heartbeat(1, fence=True)
    controller.heartbeat(1)
    assert live(controller, INTERVAL_MS + BEAT_MS, 1, 2, 3) == []
    alter(controller, [2, 3, 1])
    (record,) = live(controller, INTERVAL_MS, 1, 2, 3)
    assert record.leader == 1


def test_a_new_controller_balances_what_it_finds():
    controller = moved_away()
    controller.fail_over()
    (record,) = live(controller, INTERVAL_MS, 1, 2, 3)
    assert record.leader == 1


def test_a_run_has_a_limited_number_of_elections(monkeypatch):
    monkeypatch.setattr(periodic, "ELECTIONS_MAX", 3)
    controller = Controller().join(1, 2)
    create(controller, topic("a", assignments={index: [1, 2] for index in range(8)}))
    controller.heartbeat(1, fence=True)
    controller.heartbeat(1)
    topic_id = controller.image.topics.by_name["a"].id
    controller.replay(
        [PartitionChangeRecord(topic_id=topic_id, partition_id=i, isr=[2, 1]) for i in range(8)]
    )
    runs = []
    live(controller, INTERVAL_MS - BEAT_MS, 1, 2)
    for _ in range(3):
        controller.now_ms = controller.machine.deadline_ms(controller.moment)
        decision = controller.machine.due(controller.moment)
        runs.append((controller.now_ms, len(controller.make(decision).records)))
        for broker in (1, 2):
            controller.heartbeat(broker)
    assert [size for _, size in runs] == [3, 3, 2]
    assert runs[1][0] - runs[0][0] == periodic.SOON_MS
    assert {each.leader for each in controller.image.topics.by_name["a"].partitions.values()} == {1}


# -- unclean elections ----------------------------------------------------------------------------


def leaderless(unclean):
    """All replicas in sync are gone; brokers 2 and 3, which were not in sync, live."""
    controller = cluster(elr=False)
    for isr in ([1, 2], [1]):
        alter(controller, isr)
    controller.heartbeat(1, fence=True)
    assert partition(controller).leader == NO_LEADER
    allowed = ConfigRecord(
        resource_type=2,
        resource_name="a",
        name="unclean.leader.election.enable",
        value="true" if unclean else "false",
    )
    controller.replay([allowed])
    return controller


def test_an_unclean_leader_is_elected_where_it_is_allowed():
    controller = leaderless(unclean=True)
    assert live(controller, INTERVAL_MS - 1, 2, 3) == []
    (record,) = live(controller, 1, 2, 3)
    assert record.leader == 2
    state = partition(controller)
    assert (state.leader, state.isr, state.leader_recovery_state) == (2, (2,), RECOVERING)


def test_no_unclean_leader_is_elected_where_it_is_not_allowed():
    controller = leaderless(unclean=False)
    assert live(controller, 2 * INTERVAL_MS, 2, 3) == []
    assert partition(controller).leader == NO_LEADER


# -- NoOp records ----------------------------------------------------------------------------------


def test_an_idle_leader_of_several_voters_writes_no_op_records():
    controller = Controller()
    controller.voters = 3
    records = controller.pass_time(5_000)
    assert [type(each) for each in records] == [NoOpRecord] * 10
    controller.pass_time(400)
    create(controller.join(1), topic("a"))
    assert controller.pass_time(499) == [], "the log was not idle"
    assert len(controller.pass_time(1)) == 1
    controller.voters = 1
    assert controller.pass_time(5_000) == []


def test_no_op_records_change_no_metadata():
    controller = Controller().join(1)
    controller.voters = 3
    before = controller.image
    controller.pass_time(1_000)
    assert controller.image.offset > before.offset
    assert controller.image.topics is before.topics
    assert controller.image.cluster is before.cluster


# -- failed appends and large decisions ------------------------------------------------------------


def test_work_whose_records_were_not_appended_is_repeated():
    controller = cluster()
    controller.now_ms = controller.machine.deadline_ms(controller.moment)
    lost = controller.machine.due(controller.moment)
    assert lost.records
    controller.machine.postpone(controller.now_ms)
    assert controller.machine.deadline_ms(controller.moment) == controller.now_ms + 1_000
    assert len(controller.pass_time(999)) == 0
    assert len(controller.pass_time(1)) >= len(lost.records)
    assert partition(controller).leader == NO_LEADER


def test_a_large_decision_is_split_only_if_it_need_not_be_atomic():
    records = [NoOpRecord() for _ in range(2 * RECORDS_PER_BATCH_MAX + 1)]
    sizes = [len(each) for each in batches(Decision(records, None, is_atomic=False))]
    assert sizes == [RECORDS_PER_BATCH_MAX, RECORDS_PER_BATCH_MAX, 1]
    assert [len(each) for each in batches(Decision(records, None))] == [len(records)]
    assert list(batches(Decision([], None))) == []
    assert list(batches(Decision([], None, is_atomic=False))) == []


@pytest.mark.parametrize("committed", [0, 1, 2])
def test_each_beginning_of_a_split_decision_is_valid(monkeypatch, committed):
    """The next controller continues, whichever batches were committed before the failover."""
    monkeypatch.setattr(machine, "RECORDS_PER_BATCH_MAX", 4)
    controller = Controller().join(1, 2, 3)
    create(controller, topic("a", assignments={index: [1, 2, 3] for index in range(10)}))
    controller.now_ms += 5_000
    for broker in (2, 3):
        controller.heartbeat(broker)
    controller.now_ms += 4_001
    decision = controller.machine.due(controller.moment)
    parts = list(batches(decision))
    assert [len(each) for each in parts] == [4, 4, 3]
    for batch in parts[:committed]:
        controller.replay(batch)
    controller.fail_over()
    assert not controller.image.cluster.brokers[1].fenced
    records = live(controller, 10_000, 2, 3)
    assert isinstance(records[-1], BrokerRegistrationChangeRecord)
    assert len(records) == 11 - 4 * committed
    assert controller.image.cluster.brokers[1].fenced
    for each in controller.image.topics.by_name["a"].partitions.values():
        assert (each.leader, each.isr, each.leader_epoch) == (2, (2, 3), 1)
