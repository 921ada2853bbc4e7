"""What `odradek cluster status` finds, from facts."""

from __future__ import annotations

import dataclasses

from odradek.client.address import Address
from odradek.client.admin.cluster import BrokerInfo, ClusterInfo, LogDir, Quorum, QuorumReplica
from odradek.client.admin.reassignments import Reassignment
from odradek.client.errors import BrokerError, ClientError, DisconnectedError
from odradek.client.metadata import Partition, Topic
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_health import Facts, Severity, diagnose, is_partly_hidden

NOW_MS = 1_000_000
T0 = TopicPartition("t", 0)


def brokers(*fenced):
    made = (BrokerInfo(each, Address("h", each), None, each in fenced) for each in (1, 2, 3))
    return ClusterInfo("c", 1, tuple(made))


def voter(node_id, age_ms=100):
    return QuorumReplica(node_id, b"", 90, NOW_MS - age_ms, NOW_MS - age_ms)


def facts(in_sync=(1, 2, 3), leader=1, replicas=(1, 2, 3), **changes):
    partition = Partition(0, leader, 0, replicas, in_sync, ())
    whole = Facts(
        brokers(),
        Quorum(1, 4, 100, (voter(1), voter(2), voter(3)), ()),
        {"t": Topic("t", b"", False, {0: partition})},
        {"t": 2},
        now_ms=NOW_MS,
    )
    return dataclasses.replace(whole, **changes)


def only(facts):
    (problem,) = diagnose(facts)
    return problem


def test_a_cluster_that_is_well():
    assert diagnose(facts()) == []


def test_a_partition_without_a_leader():
    found = diagnose(facts(in_sync=(2,), leader=-1, info=brokers(2)))
    assert [each.severity for each in found] == [
        Severity.BROKEN,
        Severity.DEGRADED,
        Severity.DEGRADED,
    ]
    assert "1 partition without a leader" in found[0].what
    assert found[0].affected == ["t-0"]
    assert found[0].advice.startswith("Start broker 2, where the newest replicas are")
    assert "broker 2 (h:2) is fenced" in found[1].what


def test_a_partition_below_its_minimum():
    found = diagnose(facts(in_sync=(1,), info=brokers(2, 3)))
    assert found[0].severity == Severity.BROKEN
    assert "fewer in-sync replicas than min.insync.replicas" in found[0].what
    assert "1 partition under-replicated: brokers 2, 3 not in sync" in found[-1].what


def test_a_topic_with_fewer_replicas_than_its_minimum():
    """From Apache Kafka 3.7 on, acks=all needs no more replicas than there are."""
    few = facts(in_sync=(1,), replicas=(1,))
    assert few.below_minimum() == []
    problem = only(few)
    assert problem.severity == Severity.NOTE
    assert problem.advice == "odradek config set topic t min.insync.replicas=1"


def test_a_replica_that_is_added_need_not_be_in_sync():
    moving = {T0: Reassignment((1, 2, 3), (3,), ())}
    problem = only(facts(in_sync=(1, 2), moving=moving))
    assert (problem.severity, problem.what) == (
        Severity.NOTE,
        "1 partition being moved to other brokers",
    )


def test_a_slow_follower():
    problem = only(facts(in_sync=(1, 2)))
    assert problem.severity == Severity.DEGRADED
    assert problem.what == "1 partition under-replicated: broker 3 not in sync"
    assert "catch up by themselves" in problem.advice


def test_a_broker_that_is_not_registered():
    problem = diagnose(facts(in_sync=(1, 2), replicas=(1, 2, 7)))[1]
    assert problem.what == "1 partition assigned to broker 7, which is not registered"
    assert "odradek cluster drain 7" in problem.advice


def test_a_controller_that_lags():
    quorum = Quorum(1, 4, 100, (voter(1), voter(2, 20_000), voter(3)), ())
    problem = only(facts(quorum=quorum))
    assert problem.what == "1 controller of 3 behind or not running"
    assert problem.affected == ["controller 2: caught up 20 s ago, 10 records behind"]
    assert problem.advice.startswith("One more failure stops the cluster")


def test_no_controller():
    problem = only(facts(quorum=ClientError("no answer")))
    assert problem.severity == Severity.BROKEN
    assert "no active controller: no answer" in problem.what


def severity_of_free_space(usable_bytes):
    log_dir = LogDir("/b", None, 1_000_000, usable_bytes, {}, frozenset())
    return only(facts(log_dirs={2: [log_dir]})).severity


def test_what_the_user_may_not_see():
    refusal = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    found = facts(quorum=refusal, log_dirs={1: refusal})
    assert {each.severity for each in diagnose(found)} == {Severity.NOTE}
    assert [each.what.partition(":")[0] for each in diagnose(found)] == [
        "you may not see the controllers",
        "you may not see the log directories of broker 1",
    ]
    assert is_partly_hidden(found)
    assert not is_partly_hidden(facts(quorum=ClientError("no answer")))


def test_log_directories():
    failed = LogDir("/a", ClientError("gone"), -1, -1, {}, frozenset())
    full = LogDir("/b", None, 1_000_000, 40_000, {}, frozenset())
    well = LogDir("/c", None, 1_000_000, 500_000, {}, frozenset())
    log_dirs = {1: [failed, well], 2: [full], 3: DisconnectedError("closed")}
    found = [each.what for each in diagnose(facts(log_dirs=log_dirs))]
    assert found == [
        "log directory /a of broker 1 has failed",
        "log directory /b of broker 2 is nearly full: 40 kB of 1 MB free",
        "broker 3 does not respond, and leads 0 partitions: closed",
    ]
    assert severity_of_free_space(49_999) == Severity.DEGRADED
    assert severity_of_free_space(50_000) == Severity.NOTE
    assert severity_of_free_space(99_999) == Severity.NOTE
    problem = only(facts(log_dirs={1: DisconnectedError("closed")}))
    assert (problem.severity, problem.affected) == (Severity.BROKEN, ["t-0"])


def test_brokers_with_unequal_loads():
    partitions = {each: Partition(each, 1, 0, (1, 2), (1, 2), ()) for each in range(6)}
    found = diagnose(facts(topics={"t": Topic("t", b"", False, partitions)}))
    assert [each.severity for each in found] == [Severity.NOTE] * 2
    assert found[0].what == "brokers have unequal numbers of replicas (1: 6, 2: 6, 3: 0)"
    assert found[1].what == "brokers have unequal numbers of leaders (1: 6, 2: 0, 3: 0)"
