"""`odradek group` against a live broker."""

from __future__ import annotations

import base64
import contextlib
import threading
import uuid

import pytest
from compat.lab.wire_client import WireClient

from odradek.client import Consumer
from odradek.client.core.group_protocol import encode_assignment, encode_subscription
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.join_group_response import JoinGroupResponse
from odradek.wire.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.generated.sync_group_response import SyncGroupResponse


@pytest.fixture
def group(odradek, topic):
    """A group that has read 6 of 10 records of partition 0, of the topic of the same name."""
    for second in range(1, 11):
        odradek("produce", topic, f"v{second}", "-p", 0, "--timestamp", f"@{second}000")
    odradek("consume", topic, "--group", topic, "--count", 6)
    return topic


def test_lists(odradek, group):
    assert group in odradek("group", "list", "-q").lines
    (row,) = [line for line in odradek("group", "list").lines if line.startswith(group)]
    assert row.split()[:3] == [group, "classic", "Empty"]
    (found,) = [g for g in odradek("group", "list", "--json").json if g["group"] == group]
    assert found["state"] == "Empty"
    assert group not in odradek("group", "list", "-q", "--state", "stable").lines
    assert "No groups match the filters (" in odradek("group", "list", "--type", "streams").err
    refused = odradek("group", "list", "--state", "Stabel", code=2)
    assert "'Stabel' is not one of" in refused.err


def test_describing(odradek, group):
    described = odradek("group", "describe", group)
    fields = dict(line.split(maxsplit=1) for line in described.lines[:5])
    assert fields == {
        "Group": group, "Type": "classic", "State": "Empty", "Members": "0", "Lag": "4",
    }  # fmt: skip
    assert described.lines[-1].split() == [group, "0", "6", "10", "4", "-", "-"]
    (found,) = odradek("group", "describe", group, "--json").json
    assert found["partitions"] == [
        {
            "topic": group,
            "partition": 0,
            "committed": 6,
            "metadata": "",
            "end": 10,
            "lag": 4,
            "member": None,
        }
    ]


def test_describing_what_does_not_exist(odradek, group):
    outcome = odradek("group", "describe", "no-such-group", group, code=1)
    assert "GROUP_ID_NOT_FOUND" in outcome.err
    assert group in outcome.out


def test_members(odradek, group, bootstrap):
    ready, stop = threading.Event(), threading.Event()

    def read():
        with Consumer(
            bootstrap_servers=bootstrap,
            client_id="reader",
            group_id=group,
            enable_auto_commit=False,
        ) as consumer:
            consumer.subscribe(group)
            while not stop.is_set():
                consumer.poll(0.05)
                if consumer.assignment:
                    ready.set()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert ready.wait(30)
        described = odradek("group", "describe", group)
        assert described.lines[-2].split()[-2:] == ["reader", "127.0.0.1"]
        assert "1 partition with nothing committed" in described.out
        described = odradek("group", "describe", group, "--members")
        assert described.lines[-1].split()[-2:] == [f"{group}-0", f"{group}-1"]
        outcome = odradek("group", "reset-offsets", group, "--to", "end", code=1)
        assert "has 1 active member" in outcome.err
        outcome = odradek("group", "delete", group, "--yes", code=1)
        assert "Stop the group's consumers first" in outcome.err
    finally:
        stop.set()
        thread.join(30)


@pytest.mark.parametrize(
    ("options", "offset"),
    [
        (["--to", "beginning"], 0),
        (["--to", "end"], 10),
        (["--to", "3"], 3),
        (["--to", "99"], 10),
        (["--to", "@3500"], 3),
        (["--to", "-4"], 6),
        (["--shift", "-2"], 4),
        (["--shift", "+99"], 10),
        (["--shift", "-99"], 0),
    ],
)
def test_moving(odradek, group, options, offset):
    dry = odradek("group", "reset-offsets", group, *options, "--json")
    assert dry.json == [{"topic": group, "partition": 0, "committed": 6, "offset": offset}]
    assert "This was a dry run" in dry.err

    def committed():
        (found,) = odradek("group", "describe", group, "--json").json
        return found["partitions"][0]["committed"]

    assert committed() == 6
    done = odradek("group", "reset-offsets", group, *options, "--execute")
    assert done.lines[1].split() == [group, "0", "6", str(offset), f"{offset - 6:+d}"]
    assert done.err == ""
    assert committed() == offset


def test_moving_by_a_file(odradek, group, tmp_path):
    plan = tmp_path / "plan"
    plan.write_text(f"{group},0,2\n\n{group},1,0\n")
    odradek("group", "reset-offsets", group, "--file", plan, "--execute")
    assert odradek("consume", group, "--group", group, "--count", 1).lines == ["v3"]
    plan.write_text(odradek("group", "reset-offsets", group, "--to", "7", "--json").out)
    odradek("group", "reset-offsets", group, "--file", plan, "--execute")
    assert odradek("consume", group, "--group", group, "--count", 1).lines == ["v8"]


@pytest.mark.parametrize("text", ["", "a,b", "t,0,x", "[5]", "[", '[{"topic": "t"}]'])
def test_files_that_are_no_plan(odradek, group, tmp_path, text):
    plan = tmp_path / "plan"
    plan.write_text(text)
    outcome = odradek("group", "reset-offsets", group, "--file", plan, code=1)
    assert "offsets" in outcome.err


def test_moving_partitions_that_nothing_was_committed_for(odradek, group):
    outcome = odradek("group", "reset-offsets", group, "-t", group, "--to", "end", "--json")
    assert [(each["partition"], each["committed"]) for each in outcome.json] == [(0, 6), (1, None)]
    outcome = odradek("group", "reset-offsets", group, "-t", group, "--shift", "1", code=1)
    assert f"nothing is committed to shift from: {group}-1" in outcome.err
    outcome = odradek("group", "reset-offsets", group + "-new", "--to", "end", code=1)
    assert "has committed nothing; choose topics with --topic" in outcome.err


def test_deleting(odradek, group):
    assert odradek("group", "delete", group, "--yes").out == f"Deleted {group}\n"
    outcome = odradek("group", "delete", group, "--yes", code=1)
    assert "GROUP_ID_NOT_FOUND" in outcome.err


UNREADABLE = bytes.fromhex("ff000001ffffffff")


class RawMember:
    """A member of a classic group whose metadata and assignment may be any bytes."""

    def __init__(self, bootstrap, group, metadata, protocol_type="consumer"):
        self.client = WireClient(int(bootstrap.rpartition(":")[2]))
        self.request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )

    def ask(self):
        self.client.send(self.client.frame("JoinGroup", 3, self.request))

    def join(self):
        joined = self.client.call("JoinGroup", 3, self.request, JoinGroupResponse)
        assert joined.error_code == 0
        self.request.member_id = joined.member_id
        return joined

    def sync(self, joined, assignments):
        request = SyncGroupRequest(
            group_id=self.request.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data)
                for member, data in assignments.items()
            ],
        )
        assert self.client.call("SyncGroup", 2, request, SyncGroupResponse).error_code == 0


@pytest.fixture
def raw_member(bootstrap):
    with contextlib.ExitStack() as opened:

        def join(*words, **named):
            member = RawMember(bootstrap, *words, **named)
            opened.callback(member.client.close)
            return member

        yield join


def test_a_member_whose_assignment_cannot_be_read(odradek, topic, raw_member):
    """The other members and partitions are shown."""
    topics = encode_subscription([topic], [], -1)
    first, second = raw_member(topic, topics), raw_member(topic, topics)
    joined = first.join()
    second.ask()
    while len(joined.members) < 2:
        joined = first.join()
    (other,) = {each.member_id for each in joined.members} - {joined.member_id}
    readable = encode_assignment([TopicPartition(topic, 0)])
    first.sync(joined, {joined.member_id: UNREADABLE, other: readable})

    said = odradek("group", "describe", topic)
    assert "8 bytes that cannot be read: -256 is not a version" in said.out
    assert joined.member_id in said.out
    assert other in said.out
    (found,) = odradek("group", "describe", topic, "--json").json
    members = {each["id"]: each for each in found["members"]}
    assert members[other]["partitions"] == [{"topic": topic, "partition": 0}]
    assert members[other]["unread_assignment"] is None
    assert members[joined.member_id]["partitions"] == []
    assert base64.b64decode(members[joined.member_id]["unread_assignment"]) == UNREADABLE
    assert members[joined.member_id]["assignment_problem"] == "-256 is not a version"
    assert topic in odradek("group", "list", "-q").lines
    assert "-256" not in odradek("group", "history", topic).out


SOME = encode_assignment([TopicPartition("no-such-topic", 7), TopicPartition("no name!", -1)])


@pytest.mark.parametrize(
    ("metadata", "assignment", "partitions", "problem"),
    [
        (b"", b"", 0, None),
        (b"\0", b"\0", 0, "the version is missing"),
        (b"\x7f\xff\0\0\0\0", SOME[:12], 0, ""),
        (b"", b"\0\1\0\0\0\1\0\2\xff\xff\0\0\0\1\0\0\0\0\xff\xff\xff\xff", 1, None),
        (b"\0\3\0\0\0\1\0", SOME, 2, None),
        (b"\xff\0", b"\0\x63" + SOME[2:] + b"later fields", 2, None),
    ],
)
def test_what_members_may_send(odradek, raw_member, metadata, assignment, partitions, problem):
    """Assignments of any version, cut short, of topics that do not exist; metadata of any bytes."""
    group = f"raw-{uuid.uuid4()}"
    member = raw_member(group, metadata)
    joined = member.join()
    member.sync(joined, {joined.member_id: assignment})
    (found,) = odradek("group", "describe", group, "--json").json
    (shown,) = found["members"]
    assert len(shown["partitions"]) == partitions
    if problem is None:
        assert shown["assignment_problem"] is None
    else:
        assert problem in shown["assignment_problem"]
        assert base64.b64decode(shown["unread_assignment"]) == assignment
    assert odradek("group", "describe", group, "--members").lines


def test_a_group_of_another_protocol(odradek, raw_member):
    group = f"raw-{uuid.uuid4()}"
    member = raw_member(group, b"anything", protocol_type="sr")
    joined = member.join()
    member.sync(joined, {joined.member_id: b"\1\2\3"})
    assert (
        "3 bytes that cannot be read: it belongs to the protocol sr"
        in odradek("group", "describe", group).out
    )
    (found,) = odradek("group", "describe", group, "--json").json
    assert found["members"][0]["unread_assignment"] == "AQID"
