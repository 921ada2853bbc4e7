"""Streams groups: members, tasks, epochs, topologies, time-outs, offsets."""

from __future__ import annotations

from random import Random

import pytest
from tests.group.support import CONSUMER
from tests.streams.support import (
    GROUP,
    STATEFUL,
    STATELESS,
    WORD_COUNT,
    endpoint,
    subtopology,
    topology,
)
from tests.support.run_seed import seeds

from odradek.core.group.group import GroupType
from odradek.model.errors import ErrorCode
from odradek.wire.generated.streams_group_heartbeat_request import TaskOffset


def test_a_member_gets_all_tasks(groups):
    answer = groups.enter("a")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5000)
    assert groups.held["a"] == ({"0": [0, 1, 2, 3]}, {})
    assert groups.statuses("a") == []
    group = groups.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)


def test_tasks_move_when_they_are_revoked(groups):
    groups.enter("a")
    assert groups.enter("b").active_tasks == []
    assert groups.describe().group_state == "Reconciling"
    groups.beat("a")  # learns what to revoke
    assert groups.held["a"] == ({"0": [0, 1]}, {})
    assert groups.beat("b").active_tasks is None
    groups.beat("a")
    assert groups.settle("a", "b") == {"a": {"0": [0, 1]}, "b": {"0": [2, 3]}}
    assert groups.describe().group_state == "Stable"


def test_tasks_stay_until_the_member_reports_the_revocation(groups):
    groups.enter("a")
    groups.enter("b")
    groups.beat("a")
    for owned in (({"0": [0, 1, 2, 3]}, {}), None):
        groups.beat("a", owned=owned)
        groups.beat("b")
        assert groups.held["b"] == ({}, {})
    groups.beat("a", owned=({"0": [0, 1]}, {}))
    groups.beat("b")
    assert groups.held["b"] == ({"0": [2, 3]}, {})


def test_a_member_that_does_not_revoke_is_removed(groups):
    groups.enter("a")
    groups.enter("b")
    for _ in range(31):
        groups.run(1_000)
        groups.beat("a", owned=({"0": [0, 1, 2, 3]}, {}))
        groups.beat("b")
    assert groups.beat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.settle("b") == {"b": {"0": [0, 1, 2, 3]}}


def test_a_silent_member_is_removed(groups):
    groups.enter("a")
    groups.run(30_000)
    groups.enter("b")
    groups.run(20_000)
    assert groups.beat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.settle("b") == {"b": {"0": [0, 1, 2, 3]}}


def test_leaving(groups):
    groups.enter("a")
    groups.enter("b")
    groups.settle("a", "b")
    answer = groups.beat("a", epoch=-1)
    assert (answer.member_id, answer.member_epoch) == ("a", -1)
    assert groups.settle("b") == {"b": {"0": [0, 1, 2, 3]}}
    groups.beat("b", epoch=-1)
    assert groups.describe().group_state == "Empty"
    assert groups.beat("b", epoch=-1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_wrong_epoch_is_fenced(groups):
    groups.enter("a")
    assert groups.beat("a", epoch=3) is ErrorCode.FENCED_MEMBER_EPOCH
    assert groups.beat("a", epoch=1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert groups.beat("unknown", epoch=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.beat("a", epoch=1, group_id="other") is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_previous_epoch_is_valid_without_other_tasks(groups):
    groups.enter("a")
    groups.enter("b")
    groups.settle("a", "b")
    before = groups.epochs["a"]
    groups.enter("c")
    groups.settle("a")
    assert groups.epochs["a"] > before
    held = groups.held["a"]
    assert groups.beat("a", epoch=before, owned=({"0": [0, 1, 2, 3]}, {})) is (
        ErrorCode.FENCED_MEMBER_EPOCH
    )
    assert groups.beat("a", epoch=before, owned=None) is ErrorCode.FENCED_MEMBER_EPOCH
    assert groups.beat("a", epoch=before, owned=held).member_epoch == groups.epochs["a"]


def test_standby_tasks(make):
    groups = make(group_streams_num_standby_replicas=1)
    groups.set_topics(**{"in": 2, "log": 2})
    groups.enter("a", STATEFUL)
    groups.enter("b", STATEFUL)
    active = groups.settle("a", "b")
    standby = groups.standby("a", "b")
    assert active == {"a": standby["b"], "b": standby["a"]}
    groups.beat("b", epoch=-1)
    assert groups.settle("a") == {"a": {"0": [0, 1]}}
    assert groups.standby("a") == {"a": {}}


def test_a_process_has_a_task_only_once(make):
    groups = make(group_streams_num_standby_replicas=1)
    groups.set_topics(**{"in": 2, "log": 2})
    for each in ("a", "b"):
        groups.enter(each, STATEFUL, process_id="p")
    groups.settle("a", "b")
    assert groups.standby("a", "b") == {"a": {}, "b": {}}


def test_the_initial_delay_and_the_interval(make):
    groups = make(
        group_streams_initial_rebalance_delay_ms=3_000, group_streams_assignment_interval_ms=1_000
    )
    groups.set_topics(**{"in": 2})
    groups.enter("a")
    assert groups.statuses("a") == ["ASSIGNMENT_DELAYED"]
    assert groups.held["a"] == ({}, {})
    assert groups.epochs["a"] > 0
    groups.run(1_000)
    groups.enter("b")
    groups.run(2_500)
    settled = groups.settle("a", "b")
    assert sorted(settled["a"]["0"] + settled["b"]["0"]) == [0, 1]
    groups.beat("b", epoch=-1)
    groups.beat("a")
    assert groups.statuses("a") == ["ASSIGNMENT_DELAYED"]
    assert groups.details("a") == ["Assignment delayed due to the configured assignment interval."]
    groups.run(1_000)
    assert groups.settle("a") == {"a": {"0": [0, 1]}}


# -- topologies -------------------------------------------------------------------------------


def test_missing_source_topics(groups):
    groups.enter("a", topology(subtopology("0", "x", "in", "y", "z", "w")))
    assert groups.statuses("a") == ["MISSING_SOURCE_TOPICS"]
    assert groups.details("a") == ["Source topics w, x, y and 1 additional topics are missing."]
    assert groups.held["a"] == ({}, {})
    assert groups.describe().group_state == "NotReady"
    groups.set_topics(**{"in": 1, "w": 1, "x": 1, "y": 1, "z": 3})
    assert groups.settle("a") == {"a": {"0": [0, 1, 2]}}
    assert groups.statuses("a") == []


def test_internal_topics(groups):
    groups.enter("a", WORD_COUNT)
    assert groups.statuses("a") == ["MISSING_INTERNAL_TOPICS"]
    assert {
        name: (each.num_partitions, each.replication_factor)
        for name, each in groups.missing.items()
    } == {"words": (4, -1), "counts": (4, -1)}
    assert groups.describe().group_state == "NotReady"
    groups.set_topics(**{"in": 4, "words": 4, "counts": 4})
    assert groups.settle("a") == {"a": {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}}
    assert groups.missing == {}
    described = groups.describe().topology.subtopologies
    assert [each.subtopology_id for each in described] == ["0", "1"]
    assert [each.partitions for each in described[1].state_changelog_topics] == [4]


def test_settings_of_internal_topics(groups):
    plan = topology(
        subtopology("0", "in", changelogs=("log",), configs=(("cleanup.policy", "compact"),))
    )
    groups.enter("a", plan)
    (log,) = groups.missing.values()
    assert [(each.name, each.value) for each in log.configs] == [("cleanup.policy", "compact")]


def test_internal_topics_with_another_number_of_partitions(groups):
    groups.set_topics(**{"in": 4, "words": 3})
    groups.enter("a", WORD_COUNT)
    assert groups.statuses("a") == ["INCORRECTLY_PARTITIONED_TOPICS"]
    assert "expected 4, found 3" in groups.details("a")[0]


def test_copartitioned_sources_must_have_the_same_number(groups):
    groups.set_topics(**{"in": 4, "other": 3})
    plan = topology(subtopology("0", "in", "other", together=[((0, 1), ())]))
    groups.enter("a", plan)
    assert groups.statuses("a") == ["INCORRECTLY_PARTITIONED_TOPICS"]


def test_copartitioned_repartition_topics_follow_the_sources(groups):
    groups.set_topics(**{"in": 4, "small": 2})
    plan = topology(
        subtopology("0", "in", sinks=("again",)),
        subtopology("1", "small", repartition=("again",), together=[((0,), (0,))]),
    )
    groups.enter("a", plan)
    assert groups.missing["again"].num_partitions == 2


def test_fixed_repartition_topics(groups):
    plan = topology(
        subtopology("0", "in", sinks=("again",)),
        subtopology("1", repartition=("again",), again=7),
    )
    groups.enter("a", plan)
    assert groups.missing["again"].num_partitions == 7


@pytest.mark.parametrize(
    "plan",
    [
        topology(
            subtopology("0", repartition=("y",), sinks=("x",)),
            subtopology("1", repartition=("x",), sinks=("y",)),
        ),
        topology(subtopology("0", "in"), subtopology("1", repartition=("never-written",))),
    ],
)
def test_impossible_topologies(groups, plan):
    assert groups.enter("a", plan) is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_group_keeps_its_topology(groups):
    groups.enter("a")
    groups.set_topics(**{"in": 4, "log": 4})
    assert groups.enter("b", STATEFUL) is ErrorCode.INVALID_REQUEST
    assert groups.enter("b", topology(subtopology("0", "in"), epoch=1)) is (
        ErrorCode.INVALID_REQUEST
    )


def test_a_member_with_an_older_topology(groups):
    groups.enter("a", topology(subtopology("0", "in"), epoch=3))
    groups.enter("b", topology(subtopology("0", "in"), epoch=2))
    assert groups.statuses("b") == ["STALE_TOPOLOGY"]
    groups.settle("a", "b")
    assert groups.statuses("a") == []


def test_tasks_that_do_not_exist(groups):
    groups.enter("a")
    assert groups.beat("a", owned=({"9": [0]}, {})) is ErrorCode.INVALID_REQUEST
    assert groups.beat("a", owned=({"0": [4]}, {})) is ErrorCode.INVALID_REQUEST


# -- other parts of the protocol --------------------------------------------------------------


def test_shutdown_of_the_application(groups):
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", epoch=-1, shutdown_application=True)
    groups.beat("b")
    assert groups.statuses("b") == ["SHUTDOWN_APPLICATION"]
    groups.beat("b", epoch=-1)
    groups.enter("c")
    assert groups.statuses("c") == []


def test_endpoints(groups):
    groups.enter("a", user_endpoint=endpoint("one"))
    groups.settle("a")
    groups.enter("b", user_endpoint=endpoint("two"), endpoint_information_epoch=-1)
    groups.settle("a", "b")
    groups.beat("a", endpoint_information_epoch=0)
    answer = groups.answers["a"]
    found = {
        each.user_endpoint.host: [(p.topic, sorted(p.partitions)) for p in each.active_partitions]
        for each in answer.partitions_by_user_endpoint
    }
    assert found == {"one": [("in", [0, 1])], "two": [("in", [2, 3])]}
    groups.beat("a", endpoint_information_epoch=answer.endpoint_information_epoch)
    assert groups.answers["a"].partitions_by_user_endpoint is None


def test_a_group_is_full(make):
    groups = make(group_streams_max_size=1)
    groups.set_topics(**{"in": 1})
    groups.enter("a")
    assert groups.enter("b") is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_keeps_its_tasks_while_it_is_away(make):
    groups = make(group_streams_max_size=2)
    groups.set_topics(**{"in": 4})
    groups.enter("a", instance_id="one", process_id="p")
    groups.enter("b")
    settled = groups.settle("a", "b")
    epoch = groups.describe().group_epoch
    assert groups.enter("c", instance_id="one") is ErrorCode.UNRELEASED_INSTANCE_ID
    assert groups.beat("b", instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert groups.beat("b", instance_id="two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.beat("a", epoch=-2, instance_id="one").member_epoch == -2
    assert groups.settle("b")["b"] == settled["b"]
    answer = groups.enter("c", instance_id="one", process_id="p")  # the group is full
    assert answer.member_epoch == epoch
    assert groups.held["c"][0] == settled["a"]
    assert {each.member_id for each in groups.describe().members} == {"b", "c"}
    assert groups.describe().group_epoch == epoch
    groups.beat("c", epoch=-1, instance_id="one")
    assert groups.settle("b") == {"b": {"0": [0, 1, 2, 3]}}


@pytest.mark.parametrize(
    "fields",
    [
        {"instance_id": " "},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"task_offsets": [TaskOffset(subtopology_id="0")] * 2},
    ],
)
def test_invalid_requests(groups, fields):
    assert groups.beat("a", epoch=0, **{"topology": STATELESS, **fields}) is (
        ErrorCode.INVALID_REQUEST
    )


def test_invalid_epochs_and_topologies(groups):
    groups.enter("a")
    assert groups.beat("a", epoch=-2) is ErrorCode.INVALID_REQUEST
    assert groups.beat("a", epoch=-3) is ErrorCode.INVALID_REQUEST
    assert groups.beat("a", topology=STATELESS) is ErrorCode.INVALID_REQUEST


def test_offsets(groups):
    groups.enter("a")
    groups.enter("b")
    groups.settle("a", "b")
    epoch, mine, other = groups.epochs["a"], ("in", 0), ("in", 3)
    assert groups.commit(GROUP, {mine: 5}, member_id="a", generation=epoch) == {mine: 0}
    assert groups.commit(GROUP, {mine: 5}, member_id="a", generation=epoch + 1) is (
        ErrorCode.STALE_MEMBER_EPOCH
    )
    assert groups.commit(GROUP, {mine: 5}) is ErrorCode.UNKNOWN_MEMBER_ID
    groups.enter("c")
    groups.settle("a", "b", "c")
    assert groups.epochs["a"] > epoch
    assert groups.commit(GROUP, {mine: 6}, member_id="a", generation=epoch) == {mine: 0}
    assert groups.commit(GROUP, {other: 6}, member_id="a", generation=epoch) is (
        ErrorCode.STALE_MEMBER_EPOCH
    )
    assert groups.committed(GROUP) == {mine: 6}
    assert groups.committed(GROUP, member_id="a", member_epoch=epoch) is (
        ErrorCode.STALE_MEMBER_EPOCH
    )


def test_other_group_types(groups):
    groups.enter("a")
    answer = groups.get(groups.join(GROUP, protocols=CONSUMER))
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    groups.beat("a", epoch=-1)
    groups.new_member(GROUP)  # an empty group becomes a classic group
    groups.run(60_000)
    assert groups.enter("b", group_id=GROUP).member_epoch == 2
    assert groups.describe().group_state == "Stable"


def test_a_group_replaces_a_group_that_only_stores_offsets(groups):
    groups.commit(GROUP, {("in", 0): 7})
    groups.enter("a")
    assert groups.committed(GROUP) == {("in", 0): 7}
    groups.restart()
    groups.set_topics(**{"in": 4})
    assert groups.committed(GROUP) == {("in", 0): 7}
    assert groups.describe().group_state == "Stable"


def test_deletion(groups):
    groups.enter("a")
    delete = groups.groups.delete_groups
    (result,) = groups.get(groups.loop.create_task(delete([GROUP])))
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    groups.beat("a", epoch=-1)
    (result,) = groups.get(groups.loop.create_task(delete([GROUP])))
    assert result.error_code == 0
    groups.restart()
    assert groups.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    groups.set_topics(**{"in": 4})
    groups.enter("a")
    assert groups.epochs["a"] == 2


def test_metrics(groups):
    groups.enter("a")
    assert groups.groups.count_by_state()[GroupType.STREAMS, "Stable"] == 1
    assert groups.groups.count_rebalances()[GroupType.STREAMS] == 1


def test_a_new_coordinator_goes_on(groups):
    groups.enter("a", user_endpoint=endpoint("one"), client_tags=[])
    groups.enter("b")
    groups.beat("a")
    before = groups.describe()
    groups.restart()
    groups.set_topics(**{"in": 4})
    assert groups.describe() == before
    assert groups.settle("a", "b") == {"a": {"0": [0, 1]}, "b": {"0": [2, 3]}}
    groups.run(46_000)
    assert groups.beat("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_random_histories(make):
    """No active task has two owners at any time, and in the end each has one."""
    for seed in seeds(25):
        random = Random(seed)
        groups = make(group_streams_num_standby_replicas=random.randrange(3))
        groups.set_topics(**{"in": 5, "log": 5})
        alive = {}
        owned = {}
        for _ in range(60):
            kind = random.random()
            if not alive or (kind < 0.2 and len(alive) < 5):
                name = f"m{random.randrange(10**6)}"
                alive[name] = f"p{random.randrange(3)}"
                groups.enter(name, STATEFUL, process_id=alive[name])
            elif kind < 0.3:
                name = random.choice(list(alive))
                groups.beat(name, epoch=-1)
                del alive[name]
                owned.pop(name, None)
                continue
            elif kind < 0.35:
                groups.restart()
                groups.set_topics(**{"in": 5, "log": 5})
                continue
            else:
                name = random.choice(list(alive))
                groups.beat(name)
            owned[name] = {index for each in groups.held[name][0].values() for index in each} | {
                index for index in owned.get(name, ()) if groups.answers[name].active_tasks is None
            }
            taken = [index for each in owned.values() for index in each]
            assert len(taken) == len(set(taken)), f"seed {seed}: {owned}"
        if not alive:
            groups.enter("last", STATEFUL)
            alive["last"] = "p"
        settled = groups.settle(*alive, *alive)
        held = sorted(index for each in settled.values() for t in each.values() for index in t)
        assert held == list(range(5)), f"seed {seed}"
