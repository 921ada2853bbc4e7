"""The fast path of OffsetCommit has the same responses, records and state as the general path."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordinator.support import topic_id
from tests.group.consumer_support import Member, settle
from tests.group.support import Coordinator, Generation, commit_request

from odradek.handlers import k08_offset_commit
from odradek.handlers.error_answers import error_answer
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.wire.generated.offset_commit_request import OffsetCommitRequest
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse
from odradek.wire.generated.response_header import ResponseHeader

CORRELATION = 77
PEER = Peer("127.0.0.1", 50_000, "PLAINTEXT", "127.0.0.1", 9092)
TOPICS = {"topic": 3, "other": 1}


class Side:
    """A coordinator with a classic and a consumer group of two members each, and its handler."""

    def __init__(self, *, quick, is_replicated=False, **settings):
        self.is_quick = quick
        self.answered_at_once = 0
        self.coordinator = coordinator = Coordinator(is_replicated, **settings)
        coordinator.set_topics(**TOPICS)
        self.broker = SimpleNamespace(
            coordinators=SimpleNamespace(groups=coordinator.groups),
            metadata=SimpleNamespace(image=coordinator.image),
            authorizer=None,
        )
        self.classic = Generation(coordinator, "classic", session_timeout_ms=20_000)
        self.consumers = [Member(coordinator, "new", f"m{n}", "topic").join() for n in range(2)]
        settle(self.consumers)
        coordinator.run(1)

    def commit(self, version, **fields):
        """The bytes of the answer to an OffsetCommit, without its size."""
        frame = memoryview(commit_request(**fields).encode(version))
        if self.is_quick:
            answer = k08_offset_commit.quick(self.broker, PEER, frame, 0, version, CORRELATION)
            if answer is not None:
                self.answered_at_once += 1
                assert len(answer) == 4 + int.from_bytes(answer[:4], "big")
                return answer[4:]
        request = OffsetCommitRequest.decode(frame, version)
        coordinator = self.coordinator
        try:
            response = k08_offset_commit.handle(self.broker, coordinator.context(version), request)
            if asyncio.iscoroutine(response) or isinstance(response, asyncio.Future):
                response = coordinator.loop.run_until_complete(response)
        except ApiError as error:
            response = error_answer(request, version, error.code, error.message)
        header = ResponseHeader(correlation_id=CORRELATION).encode(1)
        return bytes(header + response.encode(version))

    def members(self, group_id):
        """The members of a group with their generation or epoch."""
        if group_id == "classic":
            return [(each, self.classic.number) for each in self.classic.ids]
        if group_id == "new":
            return [(each.member_id, each.epoch) for each in self.consumers]
        return [("", -1)] * 2

    def state(self):
        """All that a commit may change."""
        partitions = self.coordinator.topic.partitions
        found = [{index: each.batches for index, each in partitions.items()}]
        for machine in self.coordinator.groups.runtime.machines():
            found.append((machine.offsets.committed, len(machine.journal)))
            found.append({name: each.state_name for name, each in machine.state.groups.items()})
            timers = machine.timers._by_key.values()
            found.append({each.key: each.deadline_ms for each in timers})
        return found

    # -- what else happens --------------------------------------------------------------------

    def wait(self, ms):
        self.coordinator.run(ms)

    def rebalance(self):
        """A member of the classic group joins again: the others have to."""
        self.coordinator.join("classic", self.classic.ids[0])

    def leave(self):
        self.consumers[0].leave()
        self.consumers[1].beat()

    def refuse(self, code):
        for partition in self.coordinator.topic.partitions.values():
            partition.refusal = code

    def set_topics(self, topics):
        self.coordinator.set_topics(**topics)
        self.broker.metadata.image = self.coordinator.image

    def close(self):
        self.refuse(None)
        self.coordinator.close()


GROUPS = st.sampled_from(["classic", "new", "simple", "группа"])


def offsets(topics, partitions, **sizes):
    places = st.tuples(st.sampled_from(topics), st.integers(0, partitions - 1))
    return st.dictionaries(places, st.integers(0, 2**40), **sizes)


usual = st.fixed_dictionaries(
    {
        "version": st.integers(9, 10),
        "group_id": GROUPS,
        "who": st.integers(0, 1),
        "ahead": st.just(0),
        "offsets": offsets(["topic"], 3, min_size=1, max_size=2),
    }
)
odd = st.fixed_dictionaries(
    {
        "version": st.integers(8, 10),
        "group_id": GROUPS,
        "who": st.sampled_from([0, 1, 0, 1, "nobody"]),
        "ahead": st.sampled_from([0, 0, 0, 0, -1, 1, -100]),
        "instance_id": st.sampled_from([None, None, None, "instance"]),
        "offsets": offsets(["topic", "topic", "gone"], 4, max_size=3),
        "metadata": st.sampled_from(["", "", "", None, "text", "long" * 2000]),
    }
)
steps = st.one_of(
    usual,
    usual,
    usual,
    odd,
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 3, 6_000])),
    st.tuples(st.just("rebalance")),
    st.tuples(st.just("leave")),
    st.tuples(st.just("refuse"), st.sampled_from([None, ErrorCode.NOT_ENOUGH_REPLICAS])),
    st.tuples(st.just("set_topics"), st.sampled_from([TOPICS, {"other": 1}])),
)


def play(side, step):
    """One step; the answer, if there is one."""
    if isinstance(step, tuple):
        return getattr(side, step[0])(*step[1:])
    fields = dict(step)
    who, ahead = fields.pop("who"), fields.pop("ahead")
    members = side.members(step["group_id"])
    member_id, generation = members[who] if who != "nobody" else ("nobody", members[0][1])
    return side.commit(member_id=member_id, generation=max(-1, generation + ahead), **fields)


@settings(max_examples=300)
@given(st.lists(steps, min_size=1, max_size=12), st.booleans())
def test_the_fast_path_has_the_same_result(history, spread):
    """With `spread` no two of them meet in a millisecond."""
    sides = Side(quick=True), Side(quick=False)
    try:
        for step in history:
            answers = [play(each, step) for each in sides]
            assert answers[0] == answers[1], step
            if spread:
                play(sides[0], ("wait", 1))
                play(sides[1], ("wait", 1))
            assert sides[0].state() == sides[1].state(), step
    finally:
        for each in sides:
            each.close()


@pytest.fixture
def make_side():
    made = []

    def make(**fields):
        made.append(Side(quick=True, **fields))
        return made[-1]

    yield make
    for each in made:
        each.close()


def codes(answer, version):
    response = OffsetCommitResponse.decode(answer, version, 5)
    return [each.error_code for topic in response.topics for each in topic.partitions]


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("group_id", ["classic", "new", "simple"])
def test_members_are_answered_at_once(make_side, group_id, version):
    side = make_side()
    member_id, generation = side.members(group_id)[1]
    offsets = {("topic", index): 100 + index for index in range(3)}
    fields = {"offsets": offsets, "member_id": member_id, "generation": generation}
    answer = side.commit(version, group_id=group_id, **fields)
    assert codes(answer, version) == [0, 0, 0]
    assert side.answered_at_once == 1
    assert side.coordinator.committed(group_id) == offsets
    side.coordinator.restart()
    assert side.coordinator.committed(group_id) == offsets, "they are in the log"
    assert {
        each.topic_id
        for each in side.coordinator.machine(group_id).offsets.of_group(group_id)["topic"].values()
    } == {topic_id("topic")}


def test_a_commit_counts_as_a_heartbeat(make_side):
    side = make_side()
    for offset in range(4):
        side.wait(12_000)  # the session timeout is 20 s
        for member_id in side.classic.ids:
            offsets = {("topic", 0): offset}
            side.commit(
                9,
                group_id="classic",
                offsets=offsets,
                member_id=member_id,
                generation=side.classic.number,
            )
            side.wait(1)
    assert side.answered_at_once == 8
    assert side.coordinator.group("classic").state_name == "Stable"


def commit_alone(side):
    side.wait(1)
    side.commit(9, group_id="simple", offsets={("topic", 0): 1})
    return side.answered_at_once


def test_requests_that_have_to_wait_are_not_answered_at_once(make_side):
    assert commit_alone(make_side()) == 1
    assert commit_alone(make_side(offsets_topic_compression_codec=1)) == 0
    elsewhere = make_side()
    elsewhere.coordinator.groups.shutdown()
    assert commit_alone(elsewhere) == 0
    behind = make_side()
    shard = behind.coordinator.groups.runtime.shard(
        behind.coordinator.groups.partition_for("simple")
    )
    behind.wait(1)
    shard.write(shard.machine.commit.commit, commit_request("simple", {("topic", 1): 1}), 9)
    behind.coordinator.log("simple").is_replicated = True
    quick = k08_offset_commit.quick
    frame = memoryview(commit_request("simple", {("topic", 0): 1}).encode(9))
    behind.wait(1)
    assert quick(behind.broker, PEER, frame, 0, 9, 1) is None


def test_a_refused_write_is_undone(make_side):
    side = make_side()
    assert commit_alone(side) == 1
    before = side.state()
    side.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    side.wait(1)
    answer = side.commit(9, group_id="simple", offsets={("topic", 0): 2})
    assert codes(answer, 9) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert side.state() == before
    side.refuse(None)
    assert commit_alone(side) == 2
