"""Share groups: members join, get initialized partitions, leave; offsets are altered and deleted."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.coordinator.support import making, topic_id
from tests.share_state.groups import END, GROUP, Groups
from tests.support.run_seed import seeds

from odradek.core.group.group import GroupType
from odradek.core.group.share.assignor import GroupSpec, MemberSpec, assign
from odradek.core.metadata.image import ConfigResource, ConfigsImage
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode

ALL = {"orders": [0, 1, 2, 3]}


@pytest.fixture
def make():
    """Makes coordinators with settings and topics; closes them."""
    yield from making(Groups)


@pytest.fixture
def groups(make):
    made = make()
    made.set_topics(orders=4, stock=1)
    return made


def test_partitions_are_assigned_when_they_are_initialized(groups):
    assert groups.beat("one", "orders") == (2, {})
    assert len(groups.persister.states) == 4
    assert groups.beat("one") == (3, ALL)
    assert groups.beat("one") == (3, None)
    assert groups.offsets() == {("orders", index): (-1, -1) for index in range(4)}


def test_members_share_the_partitions(groups):
    groups.beat("one", "orders")
    groups.beat("two", "orders")
    held = groups.settle("one", "two")
    assert sorted(held["one"]["orders"] + held["two"]["orders"]) == [0, 1, 2, 3]
    for number in range(3, 9):
        groups.beat(f"m{number}", "orders")
    held = groups.settle("one", "two", *(f"m{number}" for number in range(3, 9)))
    taken = [index for each in held.values() for index in each["orders"]]
    assert {index: taken.count(index) for index in taken} == dict.fromkeys(range(4), 2)


def set_of_group(groups, **settings):
    own = {name.replace("_", "."): value for name, value in settings.items()}
    configs = ConfigsImage({ConfigResource(ResourceType.GROUP, GROUP): own})
    state = groups.machine(GROUP).state
    state.image = replace(state.image, configs=configs)


def test_with_priorities_each_member_has_all_topics(groups):
    groups.set_topics(urgent=1, orders=2, stock=5)
    names = [f"m{number}" for number in range(4)]
    for each in names:
        groups.beat(each, "urgent", "orders", "stock")
    assert any(len(each) < 3 for each in groups.settle(*names).values())
    set_of_group(groups, odradek_share_priority="urgent:10")
    groups.beat("last", "urgent", "orders", "stock")
    held = groups.settle(*names, "last")
    assert [set(each) for each in held.values()] == [{"urgent", "orders", "stock"}] * 5
    assert {index for each in held.values() for index in each["stock"]} == set(range(5))


def test_a_member_leaves_and_a_member_is_silent(groups):
    for each in ("one", "two", "three"):
        groups.beat(each, "orders")
    groups.settle("one", "two", "three")
    groups.beat("three", epoch=-1)
    for _ in range(5):
        groups.run(10_000)
        assert groups.beat("one")[0] > 0
    assert groups.settle("one") == {"one": ALL}, "the session of the other one is over"
    assert groups.beat("two") is ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_and_ids_are_checked(groups):
    assert groups.beat("one", "orders", epoch=3) is ErrorCode.GROUP_ID_NOT_FOUND
    groups.beat("one", "orders")
    groups.beat("one")
    assert groups.beat("one", epoch=9) is ErrorCode.FENCED_MEMBER_EPOCH
    assert groups.beat("one", epoch=2)[0] == 3, "the answer before may have been lost"
    assert groups.beat("one", epoch=1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert groups.beat("two", epoch=3) is ErrorCode.UNKNOWN_MEMBER_ID
    for member_id, epoch in (("", 0), ("m" * 37, 0), ("one", -2)):
        assert groups.beat(member_id, "orders", epoch=epoch) is ErrorCode.INVALID_REQUEST
    assert groups.beat("two", epoch=0) is ErrorCode.INVALID_REQUEST, "without topics"


def test_a_group_is_full(make):
    groups = make(group_share_max_size=2)
    groups.set_topics(orders=4)
    groups.beat("one", "orders")
    groups.beat("two", "orders")
    assert groups.beat("three", "orders") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.beat("two")[0] > 0


def test_a_failed_initialization_is_repeated(groups):
    groups.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.beat("one", "orders")
    assert groups.beat("one") == (2, None)
    groups.persister.error = ErrorCode.NONE
    groups.beat("one")
    assert groups.beat("one") == (3, ALL)


def test_an_initialization_without_an_answer_is_repeated_later(groups):
    groups.persister.gate.clear()
    groups.beat("one", "orders")
    groups.beat("one")
    assert len(groups.persister.asked) == 1
    for _ in range(4):
        groups.run(10_000)
        groups.beat("one")
    assert len(groups.persister.asked) == 2
    groups.persister.gate.set()
    groups.run(10)
    assert groups.beat("one") == (3, ALL)


def test_new_partitions_and_deleted_topics(groups):
    groups.beat("one", "orders", "stock")
    assert groups.settle("one")["one"] == {**ALL, "stock": [0]}
    groups.set_topics(orders=5, stock=1)
    assert groups.settle("one")["one"] == {"orders": [0, 1, 2, 3, 4], "stock": [0]}
    added = SharePartitionKey(GROUP, topic_id("orders"), 4)
    assert groups.persister.states.pop(added)[1] == 0, "the records before this are not lost"
    assert {offset for _, offset in groups.persister.states.values()} == {-1}
    groups.set_topics(orders=5)
    assert groups.settle("one")["one"] == {"orders": [0, 1, 2, 3, 4]}
    assert ("stock", 0) not in groups.offsets()


def test_a_restart_loses_nothing(groups):
    groups.beat("one", "orders", "stock")
    groups.beat("two", "orders")
    groups.settle("one", "two")
    before = groups.describe()
    states = groups.group(GROUP).state_partitions
    groups.restart()
    after = groups.describe()
    assert _shown(before) == _shown(after)
    again = groups.group(GROUP).state_partitions
    for field in ("initializing", "initialized"):
        assert {key: each[:2] for key, each in getattr(states, field).items()} == {
            key: each[:2] for key, each in getattr(again, field).items()
        }
    assert groups.beat("one")[0] == before.members[0].member_epoch


def _shown(group):
    return (
        group.group_epoch,
        group.assignment_epoch,
        [
            (
                each.member_id,
                each.member_epoch,
                [t.partitions for t in each.assignment.topic_partitions],
            )
            for each in sorted(group.members, key=lambda member: member.member_id)
        ],
    )


def test_described_and_listed(groups):
    groups.beat("one", "orders")
    groups.settle("one")
    described = groups.describe()
    assert (described.group_state, described.assignor_name) == ("Stable", "simple")
    (member,) = described.members
    assert (member.client_id, member.client_host) == ("client", "/10.0.0.1")
    assert member.assignment.topic_partitions[0].topic_name == "orders"
    assert groups.describe("other").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.describe("").error_code == ErrorCode.INVALID_GROUP_ID
    (listed,) = groups.get(groups.groups.list_groups(["stable"], ["Share"]))
    assert (listed.group_id, listed.protocol_type, listed.group_type) == (GROUP, "share", "share")
    assert groups.groups.count_by_state()[GroupType.SHARE, "Stable"] == 1


def test_groups_of_other_types_keep_their_type(groups):
    groups.beat("one", "orders")
    answer = groups.get(groups.join(GROUP))
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    groups.join("classic")
    assert groups.beat("one", "orders", group_id="classic") is ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.alter({("orders", 0): 1}, "classic") is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_are_altered_and_deleted(groups):
    assert groups.alter({("orders", 1): 40, ("orders", 7): 1, ("gone", 0): 1}) == {
        ("orders", 1): 0,
        ("orders", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert groups.offsets() == {("orders", 1): (40, END - 40 - 1)}
    groups.beat("one", "orders")
    assert groups.alter({("orders", 1): 50}) is ErrorCode.NON_EMPTY_GROUP
    assert groups.delete_offsets("orders") is ErrorCode.NON_EMPTY_GROUP
    groups.beat("one", epoch=-1)
    assert len(groups.offsets()) == 4
    assert groups.delete_offsets("orders", "stock", "gone") == {
        "orders": 0,
        "stock": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert groups.offsets() == {}
    assert groups.persister.states == {}


def test_a_deletion_that_fails_can_be_repeated(groups):
    groups.alter({("orders", 1): 40})
    groups.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    failed = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert groups.alter({("orders", 2): 40}) == {("orders", 2): failed}
    assert groups.delete_offsets("orders") == {"orders": failed}
    assert groups.delete(GROUP) == {GROUP: failed}
    groups.persister.error = ErrorCode.NONE
    assert groups.delete_offsets("orders") == {"orders": ErrorCode.NONE}, (
        "its state is still being deleted"
    )
    assert groups.delete(GROUP) == {GROUP: 0}
    assert groups.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.persister.states == {}


def test_a_group_with_members_is_not_deleted(groups):
    groups.beat("one", "orders")
    assert groups.delete(GROUP, "other") == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "other": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    groups.beat("one", epoch=-1)
    assert groups.delete(GROUP) == {GROUP: 0}
    groups.restart()
    assert groups.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_share_group_does_not_expire(groups):
    groups.beat("one", "orders")
    groups.beat("one", epoch=-1)
    groups.run(8 * 24 * 60 * 60_000)
    assert groups.describe().group_state == "Empty"
    key = SharePartitionKey(GROUP, topic_id("orders"), 0)
    assert key in groups.persister.states


@pytest.mark.parametrize("seed", seeds(20))
def test_the_assignor_gives_each_partition_to_about_as_many_members(seed):
    """Every initialized partition has a member; nobody gets what it does not subscribe to."""
    random = Random(seed)
    counts = {random.randbytes(16): random.randint(1, 9) for _ in range(random.randint(1, 4))}
    assignable = {key: set(range(count)) for key, count in counts.items()}
    is_homogeneous = random.random() < 0.5
    members = {}
    targets = {}
    for _ in range(12):
        if len(members) > 1 and random.random() < 0.4:
            members.pop(random.choice(list(members)))
        else:
            wished = list(counts)
            if not is_homogeneous:
                wished = random.sample(wished, random.randint(1, len(wished)))
            members[f"m{random.randrange(1000)}"] = dict.fromkeys(wished).keys()
        specs = {
            each: MemberSpec(topics, targets.get(each, {})) for each, topics in members.items()
        }
        targets = assign(GroupSpec(specs, counts, assignable, is_homogeneous))
        taken = {}
        for member_id, target in targets.items():
            for topic, partitions in target.items():
                if topic in members[member_id]:
                    for index in partitions:
                        taken.setdefault((topic, index), []).append(member_id)
        wanted = {
            (topic, index)
            for topics in members.values()
            for topic in topics
            for index in assignable[topic]
        }
        assert set(taken) == wanted, f"seed {seed}"
        if is_homogeneous:
            sizes = [sum(map(len, each.values())) for each in targets.values()]
            assert max(sizes) - min(sizes) <= 1, f"seed {seed}"
        else:
            # As in Kafka, a member may keep partitions of a topic to which nobody subscribes any more.
            subscribed = {topic for topics in members.values() for topic in topics}
            for member_id, topics in members.items():
                held = {topic for topic, partitions in targets[member_id].items() if partitions}
                assert held & subscribed == set(topics), f"seed {seed}"
