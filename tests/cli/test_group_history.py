"""`odradek group history`: from records to reasons, and against a live broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from odradek.core.coordinator.record import CoordinatorRecord, encode
from odradek.core.group.consumer.records import group_epoch
from odradek.core.group.records import group_metadata, group_metadata_tombstone, offset_commit
from odradek.operations.group_history import History
from odradek.records.record import Record
from odradek.wire.generated.consumer_group_member_metadata_key import (
    ConsumerGroupMemberMetadataKey,
)
from odradek.wire.generated.consumer_group_member_metadata_value import (
    ConsumerGroupMemberMetadataValue,
)
from odradek.wire.generated.group_metadata_value import MemberMetadata
from odradek.wire.generated.offset_commit_value import OffsetCommitValue


def classic(generation: int, *members: str, group: str = "g") -> CoordinatorRecord:
    """Members are `id`, `id/instance` or `id/instance/subscription`."""
    found = []
    for text in members:
        member_id, instance_id, subscription = [*text.split("/"), "", ""][:3]
        found.append(
            MemberMetadata(
                member_id=member_id,
                group_instance_id=instance_id or None,
                client_id="c",
                client_host="/127.0.0.1",
                subscription=subscription.encode(),
            )
        )
    return group_metadata(group, protocol_type="consumer", generation=generation, members=found)


def modern(member_id: str, *topics: str) -> CoordinatorRecord:
    """A member of a group of the new protocol; without topics it leaves."""
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id=member_id)
    value = ConsumerGroupMemberMetadataValue(
        client_id="c", client_host="/127.0.0.1", subscribed_topic_names=list(topics)
    )
    return CoordinatorRecord(key, value if topics else None)


def told(*records: CoordinatorRecord, step_ms: int = 1) -> list[tuple[str, int, str]]:
    """Type, generation and reasons of each rebalance."""
    stored = [
        Record(offset=place, timestamp=place * step_ms, key=key, value=value, headers=())
        for place, (key, value) in enumerate(map(encode, records))
    ]
    found = History("g").rebalances(stored)
    return [(each.type, each.generation, "; ".join(each.reasons)) for each in found]


def test_members_of_a_classic_group_come_and_go():
    assert told(
        classic(0),
        classic(1, "a"),
        classic(7, "x", group="other"),
        offset_commit("g", "topic", 0, OffsetCommitValue(offset=3)),
        classic(2, "a", "b"),
        classic(2, "a", "b"),
        classic(3, "a", "b"),
        classic(4, "b//other"),
        classic(5),
        group_metadata_tombstone("g"),
        classic(1, "c"),
    ) == [
        ("classic", 0, "created"),
        ("classic", 1, "a joined"),
        ("classic", 2, "b joined"),
        ("classic", 3, "the same members, assigned anew"),
        ("classic", 4, "b changed its subscription; a left"),
        ("classic", 5, "b left"),
        ("", -1, "deleted, or forgotten as it was empty"),
        ("classic", 1, "c joined"),
    ]


def test_a_static_member_comes_back():
    assert told(classic(1, "a/i", "b/j"), classic(2, "c/i")) == [
        ("classic", 1, "i joined; j joined"),
        ("classic", 2, "i came back; j left"),
    ]


def test_a_group_changes_its_type_in_one_moment():
    records = (
        classic(3, "a"),
        group_metadata_tombstone("g"),
        modern("a", "t"),
        modern("b", "t"),
        group_epoch("g", 4, 0),
    )
    assert told(*records, step_ms=0)[1:] == [
        ("consumer", 4, "the group is of type consumer now; b joined")
    ]
    assert told(*records)[1:] == [
        ("", -1, "deleted, or forgotten as it was empty"),
        ("consumer", 4, "a joined; b joined"),
    ]


def test_a_group_of_the_new_protocol():
    assert told(
        modern("b", "t"),
        group_epoch("g", 4, 0),
        modern("d", "t"),
        modern("b", "t", "u"),
        group_epoch("g", 5, 0),
        group_epoch("g", 6, 1),
        modern("d"),
        group_epoch("g", 7, 1),
        group_epoch("g", 0, 0)._replace(value=None),
    ) == [
        ("consumer", 4, "b joined"),
        ("consumer", 5, "b changed its subscription; d joined"),
        ("consumer", 6, "the same members, assigned anew"),
        ("consumer", 7, "d left"),
        ("", -1, "deleted, or forgotten as it was empty"),
    ]


def test_what_is_no_record_is_left_out():
    stored = [
        Record(offset=0, timestamp=0, key=key, value=value, headers=())
        for key, value in ((None, b"x"), (b"\x00", b""), (b"\x00\x02\x00\x01g", b"\x00\x63"))
    ]
    assert not list(History("g").rebalances(stored))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group(odradek, topic, bootstrap, protocol):
    odradek("produce", topic, "v")
    group = f"{topic}-{protocol}"
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    consumer.close()
    found = odradek("group", "history", group, "--json").json
    reasons = [reason.rpartition(" ")[2] for each in found for reason in each["reasons"]]
    assert [each for each in reasons if each != "created"] == ["joined", "left"]
    assert {each["type"] for each in found} == {protocol}
    (member,) = found[-2]["members"]
    assert (member["client_id"], member["host"]) == ("reader", "127.0.0.1")
    assert found[-1]["members"] == []
    shown = odradek("group", "history", group).lines
    assert shown[0].split() == ["Time", "Type", "Generation", "Members", "Reason"]
    assert shown[-1].endswith("left")


def test_nothing_is_known(odradek):
    assert "has no records about" in odradek("group", "history", "nobody-knows", code=1).err
