"""Consumer groups: joining, reconciliation, leaving and fencing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.coordinator.support import topic_id
from tests.group.consumer_support import Member, as_topics, beat, settle
from tests.group.support import Coordinator

from odradek.core.group.group import GroupType
from odradek.core.metadata.image import ConfigResource, ConfigsImage
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode

GROUP = "group"
JOIN = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}


@pytest.fixture
def coordinator():
    made = Coordinator(group_consumer_assignment_interval_ms=0)
    made.set_topics(t=4, u=2)
    yield made
    made.close()


def member(coordinator, name, *topics, **options):
    return Member(coordinator, GROUP, name, *(topics or ("t",)), **options).join()


def state(coordinator):
    return coordinator.group(GROUP).state_name


def test_one_member_gets_everything_at_once(coordinator):
    one = member(coordinator, "one")
    assert one.told == {("t", 0), ("t", 1), ("t", 2), ("t", 3)}
    assert (one.epoch, state(coordinator)) == (2, "Stable")
    assert one.beat().assignment is None, "nothing has changed"


def test_partitions_move_when_their_owner_has_revoked_them(coordinator):
    one = member(coordinator, "one")
    two = member(coordinator, "two")
    assert two.told == set()
    assert two.epoch == 3
    assert one.beat(gives_up=False).member_epoch == 2, "it has to give up before it goes on"
    assert len(one.told) == 2
    assert two.beat().assignment is None, "they are still owned"
    assert one.beat().member_epoch == 3
    assert len(two.say(two.epoch).assignment.topic_partitions[0].partitions) == 2
    assert settle([one, two])
    assert one.told.isdisjoint(two.told)
    assert state(coordinator) == "Stable"


def test_states_on_the_way(coordinator):
    one = member(coordinator, "one")
    member(coordinator, "two")
    assert state(coordinator) == "Reconciling"
    one.leave()
    assert state(coordinator) == "Assigning"
    beat(coordinator, GROUP, "two", -1)
    assert state(coordinator) == "Empty"


def test_an_empty_group_has_no_old_target(coordinator):
    """The next member would get the epoch of a target that does not exist (KAFKA-20442)."""
    one, two = member(coordinator, "one"), member(coordinator, "two")
    settle([one, two])
    one.leave()
    group = coordinator.group(GROUP)
    assert group.assignment_epoch < group.group_epoch
    two.leave()
    group = coordinator.group(GROUP)
    assert group.assignment_epoch == group.group_epoch
    assert member(coordinator, "three").epoch == group.group_epoch


def test_static_members_return_with_another_assignor(coordinator):
    """Once most members want it, the partitions are assigned anew (KAFKA-20434)."""
    names = ("one", "two", "three")
    first = [
        member(coordinator, each, "t", instance_id=each, server_assignor="uniform")
        for each in names
    ]
    settle(first)
    epochs = []
    for each in names:
        beat(coordinator, GROUP, each, -2, instance_id=each)
        fields = {**JOIN, "instance_id": each, "server_assignor": "range"}
        beat(coordinator, GROUP, f"{each}-again", 0, **fields)
        epochs.append(coordinator.group(GROUP).group_epoch)
    assert [later - earlier for earlier, later in pairwise(epochs)] == [1, 0]


def test_other_members_get_the_partitions_of_one_that_leaves(coordinator):
    one, two = member(coordinator, "one"), member(coordinator, "two")
    settle([one, two])
    assert one.leave().member_epoch == -1
    assert settle([two]) == {"two": [("t", index) for index in range(4)]}


def test_a_member_without_heartbeats_is_removed(coordinator):
    one, two = member(coordinator, "one"), member(coordinator, "two")
    settle([one, two])
    for _ in range(5):
        coordinator.run(10_000)
        two.beat()
    assert two.told == {("t", index) for index in range(4)}
    assert one.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_in_time_is_removed(coordinator):
    one = member(coordinator, "one")
    two = member(coordinator, "two")
    for _ in range(5):
        coordinator.run(9_000)
        one.beat(gives_up=False)
        two.beat()
    assert one.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(settle([two])["two"]) == 4


def test_deadlines_hold_after_a_failover(coordinator):
    one = member(coordinator, "one")
    two = member(coordinator, "two")
    one.beat(gives_up=False)
    coordinator.restart()
    assert coordinator.group(GROUP).members.keys() == {"one", "two"}
    for _ in range(4):
        coordinator.run(9_000)
        one.beat(gives_up=False)
        two.beat()
    assert one.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.restart()
    coordinator.run(50_000)
    assert coordinator.group(GROUP).members == {}


def test_epochs(coordinator):
    one = member(coordinator, "one")
    two = member(coordinator, "two")
    fenced = ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(coordinator, GROUP, "one", one.epoch + 1) == fenced
    assert beat(coordinator, GROUP, "one", one.epoch - 1) == fenced
    one.beat()
    one.beat()
    assert one.epoch == 3
    # The answer with the new epoch may have been lost.
    again = beat(coordinator, GROUP, "one", 2, topic_partitions=as_topics(one.told))
    assert again.member_epoch == 3
    stolen = as_topics({("t", index) for index in range(4)})
    assert beat(coordinator, GROUP, "one", 2, topic_partitions=stolen) == fenced
    assert beat(coordinator, GROUP, "one", 2) == fenced
    assert beat(coordinator, GROUP, "one", 0, **JOIN).member_epoch == 3
    assert two.beat().member_epoch == 3


def test_full_heartbeats_are_answered_with_the_assignment(coordinator):
    one = member(coordinator, "one")
    full = one.beat(rebalance_timeout_ms=30_000, subscribed_topic_names=["t"])
    assert full.assignment is not None
    assert one.beat(rebalance_timeout_ms=30_000).assignment is None


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": as_topics([("t", 0)])}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "own"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_refused_heartbeats(coordinator, fields, error):
    said = {"group_id": GROUP, "member_id": "one", "epoch": 0, **JOIN, **fields}
    assert beat(coordinator, **said) == error
    assert GROUP not in coordinator.machine(GROUP).state.groups


def test_old_clients_get_a_member_id(coordinator):
    answer = beat(coordinator, GROUP, "", 0, version=0, **JOIN)
    assert len(answer.member_id) == 22
    assert answer.member_id in coordinator.group(GROUP).members


def test_a_full_group():
    coordinator = Coordinator(group_consumer_max_size=1)
    coordinator.set_topics(t=1)
    member(coordinator, "one")
    assert beat(coordinator, GROUP, "two", 0, **JOIN) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert beat(coordinator, GROUP, "one", 0, **JOIN).member_epoch == 2
    coordinator.close()


def test_a_static_member_returns_to_a_full_group():
    coordinator = Coordinator(group_consumer_max_size=1)
    coordinator.set_topics(t=1)
    member(coordinator, "one", instance_id="i")
    fields = {**JOIN, "instance_id": "i"}
    assert beat(coordinator, GROUP, "two", 0, **fields) == ErrorCode.UNRELEASED_INSTANCE_ID
    beat(coordinator, GROUP, "one", -2, instance_id="i")
    assert beat(coordinator, GROUP, "two", 0, **fields).member_epoch == 2
    assert beat(coordinator, GROUP, "three", 0, **JOIN) == ErrorCode.GROUP_MAX_SIZE_REACHED
    coordinator.close()


def test_subscriptions_change(coordinator):
    one = member(coordinator, "one", "t", "u")
    assert len(one.told) == 6
    one.beat(subscribed_topic_names=["u"])
    assert one.told == {("u", 0), ("u", 1)}
    assert settle([one]) == {"one": [("u", 0), ("u", 1)]}
    assert not coordinator.group(GROUP).is_subscribed_to("t")


def test_members_that_subscribe_to_different_topics(coordinator):
    one, two = member(coordinator, "one", "t"), member(coordinator, "two", "t", "u")
    assert settle([one, two]) == {
        "one": [("t", 0), ("t", 1), ("t", 2)],
        "two": [("t", 3), ("u", 0), ("u", 1)],
    }


def test_new_partitions_and_topics_are_found(coordinator):
    one = member(coordinator, "one", "t", "later")
    coordinator.set_topics(t=6, u=2, later=1)
    assert len(settle([one])["one"]) == 7
    coordinator.set_topics(u=2)
    assert settle([one]) == {"one": []}


def test_the_assignor_that_most_members_prefer_is_used(coordinator):
    one = member(coordinator, "one", "t", "u", server_assignor="range")
    two = member(coordinator, "two", "t", "u", server_assignor="range")
    three = member(coordinator, "three", "t", "u", server_assignor="uniform")
    assert sorted(map(len, settle([one, two, three]).values())) == [1, 2, 3]
    (described,) = coordinator.get(coordinator.groups.describe_consumer_groups([GROUP]))
    assert described.assignor_name == "range"


def test_targets_are_not_computed_too_often():
    coordinator = Coordinator(group_consumer_assignment_interval_ms=5_000)
    coordinator.set_topics(t=4)
    one, two = member(coordinator, "one"), member(coordinator, "two")
    assert coordinator.group(GROUP).state_name == "Assigning"
    assert two.epoch == 2
    coordinator.run(5_000)
    settle([one, two])
    assert two.epoch == 3
    coordinator.close()


def test_a_group_has_settings_of_its_own(coordinator):
    resource = ConfigResource(ResourceType.GROUP, GROUP)
    own = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    machine = coordinator.machine(GROUP)
    image = machine.state.image
    machine.state.image = type(image)(
        image.offset, 1, topics=image.topics, configs=ConfigsImage({resource: own})
    )
    one = member(coordinator, "one")
    assert one.beat().heartbeat_interval_ms == 7000
    coordinator.run(49_000)
    assert one.beat().member_epoch == 2


# -- static members --------------------------------------------------------------------------------


def test_a_static_member_comes_back_to_its_partitions(coordinator):
    one, two = member(coordinator, "one", instance_id="i"), member(coordinator, "two")
    before = settle([one, two])
    assert one.leave(-2).member_epoch == -2
    assert settle([two])["two"] == before["two"], "its partitions wait for it"
    again = member(coordinator, "again", instance_id="i")
    assert sorted(again.told) == before["one"]
    assert again.epoch == two.epoch == 3, "nothing is assigned anew"
    assert settle([again, two])["again"] == before["one"]


def test_a_static_member_that_does_not_return_is_removed(coordinator):
    one, two = member(coordinator, "one", instance_id="i"), member(coordinator, "two")
    settle([one, two])
    one.leave(-2)
    for _ in range(5):
        coordinator.run(10_000)
        two.beat()
    assert len(two.told) == 4


def test_instance_ids_have_one_owner(coordinator):
    one = member(coordinator, "one", instance_id="i")
    taken = beat(coordinator, GROUP, "two", 0, instance_id="i", **JOIN)
    assert taken == ErrorCode.UNRELEASED_INSTANCE_ID
    one.leave(-2)
    two = member(coordinator, "two", instance_id="i")
    assert one.beat() == ErrorCode.FENCED_INSTANCE_ID
    assert one.leave(-2) == ErrorCode.FENCED_INSTANCE_ID
    assert beat(coordinator, GROUP, "x", 1, instance_id="j") == ErrorCode.UNKNOWN_MEMBER_ID
    assert two.leave().member_epoch == -1
    assert coordinator.group(GROUP).static_members == {}


# -- patterns ----------------------------------------------------------------------------------------


def subscribe(coordinator, name, regex, **options):
    joined = Member(coordinator, GROUP, name, subscribed_topic_regex=regex, **options).join()
    wait_for_thread(coordinator)
    return joined


def wait_for_thread(coordinator):
    for _ in range(200):
        coordinator.run(1)
        if not coordinator.groups.runtime.shard(
            coordinator.groups.partition_for(GROUP)
        )._tasks._tasks:
            return
    raise AssertionError("patterns were not matched")


def test_a_pattern_is_resolved_again_when_topics_change(coordinator):
    one = subscribe(coordinator, "one", "[tv].*")
    assert one.told == set(), "its topics are looked for"
    assert settle([one]) == {"one": [("t", index) for index in range(4)]}
    coordinator.run(11_000)
    coordinator.set_topics(t=4, u=2, v=1)
    one.beat()
    wait_for_thread(coordinator)
    assert ("v", 0) in settle([one])["one"]
    coordinator.restart()
    assert coordinator.group(GROUP).resolved_regexes["[tv].*"].topics == {"t", "v"}


def test_patterns_of_members_that_leave_are_removed(coordinator):
    one = subscribe(coordinator, "one", "t.*")
    two = Member(coordinator, GROUP, "two", subscribed_topic_regex="t.*").join()
    settle([one, two])
    one.leave()
    assert coordinator.group(GROUP).resolved_regexes.keys() == {"t.*"}
    two.beat(subscribed_topic_regex="", subscribed_topic_names=["u"])
    group = coordinator.group(GROUP)
    assert not group.resolved_regexes
    assert not group.regex_counts
    assert group.topic_counts.keys() == {"u"}
    assert settle([two]) == {"two": [("u", 0), ("u", 1)]}


# -- offsets -------------------------------------------------------------------------------------------


def test_commits_of_members(coordinator):
    one = member(coordinator, "one")
    mine, other = {("t", 0): 5}, {("t", 3): 7}
    ok = {("t", 0): ErrorCode.NONE}

    def commit(offsets, epoch, member_id="one", version=9):
        return coordinator.commit(
            GROUP, offsets, member_id=member_id, generation=epoch, version=version
        )

    assert commit(mine, one.epoch) == ok
    assert commit(mine, one.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(mine, one.epoch, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(mine, -1, "") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(mine, one.epoch, version=8) == ErrorCode.UNSUPPORTED_VERSION
    two = member(coordinator, "two")
    settle([one, two])
    assert ("t", 3) in two.told, "so that the next lines mean something"
    assert commit(mine, 2) == ok, "it has had the partition since then"
    assert commit(other, 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert coordinator.committed(GROUP, member_id="one", member_epoch=3) == mine
    stale = coordinator.committed(GROUP, member_id="one", member_epoch=2)
    assert stale == ErrorCode.STALE_MEMBER_EPOCH
    unknown = coordinator.committed(GROUP, member_id="nobody", member_epoch=2)
    assert unknown == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.committed(GROUP) == mine
    one.leave()
    two.leave()
    assert commit(mine, -1, "") == ok
    coordinator.restart()
    assert coordinator.committed(GROUP) == mine


def test_a_group_replaces_one_that_only_stores_offsets(coordinator):
    coordinator.commit(GROUP, {("t", 0): 5})
    one = member(coordinator, "one")
    assert len(one.told) == 4
    coordinator.restart()
    assert coordinator.group(GROUP).type.value == "consumer"
    assert coordinator.committed(GROUP) == {("t", 0): 5}


# -- administration --------------------------------------------------------------------------------------


def test_described_and_listed(coordinator):
    one = member(coordinator, "one", instance_id="i", rack_id="r")
    member(coordinator, "two")
    one.beat(gives_up=False)
    found = coordinator.get(coordinator.groups.describe_consumer_groups([GROUP, "none", ""]))
    described, missing, empty = found
    assert (described.group_state, described.group_epoch) == ("Reconciling", 3)
    assert (described.assignment_epoch, described.assignor_name) == (3, "uniform")
    first = described.members[0]
    assert (first.member_id, first.instance_id, first.rack_id) == ("one", "i", "r")
    assert (first.member_epoch, first.member_type, first.client_id) == (2, 1, "client")
    (assigned,) = first.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("t", [0, 1, 2, 3]), "it has them still"
    (target,) = first.target_assignment.topic_partitions
    assert len(target.partitions) == 2
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID
    (listed,) = coordinator.get(coordinator.groups.list_groups(["reconciling"], ["Consumer"]))
    assert (listed.group_id, listed.protocol_type) == (GROUP, "consumer")
    assert coordinator.get(coordinator.groups.list_groups([], ["classic"])) == []
    (classic,) = coordinator.get(
        coordinator.groups.describe_groups(coordinator.context(6), [GROUP])
    )
    assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.groups.count_by_state()[GroupType.CONSUMER, "Reconciling"] == 1
    rebalances = dict.fromkeys(GroupType, 0) | {GroupType.CONSUMER: 2}
    assert coordinator.groups.count_rebalances() == rebalances


def test_deleted_when_empty(coordinator):
    one = member(coordinator, "one")
    coordinator.commit(GROUP, {("t", 0): 5}, member_id="one", generation=one.epoch)

    def delete():
        (result,) = coordinator.get(coordinator.groups.delete_groups([GROUP]))
        return result.error_code

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    one.leave()
    assert delete() == ErrorCode.NONE
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    coordinator.restart()
    assert GROUP not in coordinator.machine(GROUP).state.groups
    assert coordinator.committed(GROUP) == {}


def test_a_failed_write_is_undone(coordinator):
    one = member(coordinator, "one")
    log = coordinator.log(GROUP)
    log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    joined = beat(coordinator, GROUP, "two", 0, **JOIN)
    log.refusal = None
    assert joined == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group = coordinator.group(GROUP)
    assert list(group.members) == ["one"]
    assert (group.group_epoch, group.assignment_epoch) == (2, 2)
    assert group.owner_epoch(topic_id("t"), 0) == 2
    assert settle([one, member(coordinator, "two")])


def test_a_member_whose_leaving_was_not_written_expires(coordinator):
    member(coordinator, "one")
    log = coordinator.log(GROUP)
    log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    left = beat(coordinator, GROUP, "one", -1)
    log.refusal = None
    assert left == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(coordinator.group(GROUP).members) == ["one"]
    coordinator.run(50_000)
    assert not coordinator.group(GROUP).members
