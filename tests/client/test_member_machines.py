"""The members of classic groups and of KIP-848, with our own coordinator and answers by hand."""

from __future__ import annotations

import os
import random
import re

import pytest
from tests.client.group_lab import GROUP, Lab
from tests.support.run_seed import seeds

from odradek.client import Consumer
from odradek.client.core.classic_member import ClassicMember
from odradek.client.core.commits import Commits, Outsider
from odradek.client.core.member_events import Joined, Lost, Revoked
from odradek.client.core.member_protocol import GivenProtocol
from odradek.client.errors import CommitFailedError, RequestTimeoutError
from odradek.client.group_metadata import CommittedOffset
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.leave_group_request import LeaveGroupRequest
from odradek.wire.generated.offset_commit_request import OffsetCommitRequest
from odradek.wire.generated.offset_fetch_request import OffsetFetchRequest
from odradek.wire.generated.sync_group_request import SyncGroupRequest

HISTORIES = int(os.environ.get("ODRADEK_MEMBER_HISTORIES", "4"))
"""How many random histories of each kind of member are played."""
KINDS = ("range", "sticky", "cooperative-sticky", "consumer")
HEARTBEATS = dict.fromkeys(KINDS, HeartbeatRequest) | {"consumer": ConsumerGroupHeartbeatRequest}


@pytest.fixture
def make():
    made = []

    def lab(**options):
        made.append(Lab(**options))
        return made[-1]

    yield lab
    for each in made:
        each.close()


def kinds(user):
    return [type(each).__name__ for each in user.events]


@pytest.mark.parametrize("kind", KINDS)
def test_one_member_gets_everything_and_leaves(make, kind):
    lab = make()
    user = lab.user(kind=kind)
    lab.until(lab.is_shared)
    assert kinds(user) == ["Assigned"]
    assert user.member.group_metadata.member_id
    user.leave()
    lab.until(lambda: user.is_out)
    assert kinds(user) == ["Assigned", "Revoked"]
    assert user.has == set()
    lab.run(500)
    if kind == "consumer":
        assert user.requests(ConsumerGroupHeartbeatRequest)[-1].member_epoch == -1
    else:
        assert len(user.requests(LeaveGroupRequest)) == 1
    assert user.member.group_metadata.member_id == ""


@pytest.mark.parametrize("kind", KINDS)
def test_members_come_and_go(make, kind):
    lab = make()
    first = lab.user(kind=kind)
    lab.until(lab.is_shared)
    second = lab.user(kind=kind)
    lab.until(lab.is_shared)
    assert len(first.has) == len(second.has) == 3
    is_incremental = kind in ("cooperative-sticky", "consumer")
    given_up = next(each for each in first.events if isinstance(each, Revoked))
    assert len(given_up.partitions) == (3 if is_incremental else 6)
    second.leave()
    lab.until(lambda: second.is_out and len(first.has) == 6)


@pytest.mark.parametrize("kind", KINDS)
def test_heartbeats_go_on_while_the_user_works(make, kind):
    lab = make(group_consumer_heartbeat_interval_ms=5_000)
    first = lab.user(kind=kind)
    lab.until(lab.is_shared)
    first.work_ms = 0
    second = lab.user(kind=kind)
    lab.until(lambda: first.works is not None or len(first.events) > 1)
    before = len(first.requests(HEARTBEATS[kind]))
    first.polls = False  # its callback takes long
    lab.run(25_000)
    assert len(first.requests(HEARTBEATS[kind])) >= before + 3
    first.polls = True
    lab.until(lab.is_shared)
    assert not any(isinstance(each, Lost) for each in first.events + second.events)


@pytest.mark.parametrize("kind", KINDS)
def test_who_does_not_poll_leaves_and_comes_back(make, kind):
    lab = make()
    user = lab.user(kind=kind, max_poll_interval_ms=20_000)
    other = lab.user(kind=kind)
    lab.until(lab.is_shared)
    user.polls = False
    lab.until(lambda: len(other.has) == 6)
    assert user.has, "it learns of it when it polls"
    commit = user.commits.commit({TopicPartition("t", 0): CommittedOffset(5)}, lab.now + 60_000)
    lab.until(lambda: commit.done)
    assert isinstance(commit.error, CommitFailedError)
    assert not user.requests(OffsetCommitRequest), "not even as a client that is no member"
    assert "max.poll.interval.ms" in str(commit.error)
    assert "20000 ms" in user.member.loss
    before = len(user.sent)
    lab.run(60_000)
    assert len(user.sent) <= before + 1, "it is not in the group, and says nothing"
    user.polls = True
    lab.until(lab.is_shared)
    told = kinds(user)
    assert set(told[told.index("Lost") + 1 :]) == {"Assigned"}
    assert user.member.loss == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_the_coordinator_has_forgotten(make, kind):
    lab = make()
    user = lab.user(kind=kind)
    lab.until(lab.is_shared)
    lab.refusals[HEARTBEATS[kind]] = [E.UNKNOWN_MEMBER_ID]
    lab.until(lambda: any(isinstance(each, Lost) for each in user.events))
    lab.until(lab.is_shared)
    assert kinds(user) == ["Assigned", "Lost", "Assigned"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [E.FENCED_INSTANCE_ID, E.GROUP_AUTHORIZATION_FAILED])
def test_errors_that_end_the_membership(make, kind, code):
    lab = make()
    user = lab.user(kind=kind)
    lab.until(lab.is_shared)
    lab.refusals[HEARTBEATS[kind]] = [code]
    lab.until(lambda: user.member.state.name == "FAILED" and not user.has)
    assert user.member.error.code == code
    assert kinds(user) == ["Assigned", "Lost"]
    before = len(user.sent)
    lab.run(20_000)
    assert len(user.sent) == before
    user.member.join(lab.now)
    lab.until(lab.is_shared)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "code", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_errors_that_pass(make, kind, code):
    lab = make()
    some = [HEARTBEATS[kind], JoinGroupRequest, SyncGroupRequest]
    lab.refusals = {each: [code] for each in some}
    user = lab.user(kind=kind)
    lab.until(lab.is_shared)
    lab.refusals = {each: [code] for each in some}
    lab.run(15_000)
    assert kinds(user) == ["Assigned"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_static_member_keeps_its_partitions(make, kind):
    lab = make()
    first = lab.user(kind=kind, instance_id="a")
    other = lab.user(kind=kind)
    lab.until(lab.is_shared)
    had, before = set(first.has), len(other.events)
    first.leave()
    lab.until(lambda: first.is_out)
    lab.users.remove(first)
    lab.run(3_000)
    assert first.requests(LeaveGroupRequest) == []
    again = lab.user(kind=kind, instance_id="a")
    lab.until(lab.is_shared)
    assert again.has == had
    assert len(other.events) == before, "nothing has moved"


@pytest.mark.parametrize("kind", KINDS)
def test_new_partitions_and_topics(make, kind):
    lab = make(topics={"t": 2, "u": 2})
    lab.user(kind=kind, topics=("t", "u", "missing"))
    lab.user(kind=kind, topics=("t", "u", "missing"))
    lab.until(lab.is_shared)
    lab.coordinator.set_topics(t=5, u=2, missing=3)
    for each in lab.users:
        each.routes.forget_topic("t")
    lab.until(lab.is_settled, 700_000)


def test_a_change_of_topics(make):
    lab = make(topics={"t": 2, "u": 2})
    classic = lab.user(kind="cooperative-sticky", topics=("t", "u"))
    lab.until(lab.is_shared)
    classic.subscription.change(["u"])
    lab.until(lambda: classic.has == {("u", 0), ("u", 1)})
    lab.run(2_000)
    assert classic.events[1] == Revoked((TopicPartition("t", 0), TopicPartition("t", 1)))
    assert classic.member.state.name == "STABLE"


def test_topics_by_a_pattern_and_their_change(make):
    lab = make(topics={"t-1": 2, "t-2": 2})
    user = lab.user(kind="consumer", topics=(), pattern="t-.*")
    lab.until(lab.is_shared)
    user.member.subscribe(["t-2"])
    lab.until(lambda: user.has == {("t-2", 0), ("t-2", 1)})
    assert len(user.has) == 2


def test_only_what_has_changed_is_sent(make):
    lab = make()
    user = lab.user(kind="consumer")
    lab.until(lab.is_shared)
    lab.run(30_000)
    beats = user.requests(ConsumerGroupHeartbeatRequest)
    assert beats[0].subscribed_topic_names == ["t"]
    assert (beats[0].topic_partitions, beats[0].rack_id) == ([], "r")
    assert beats[-1].subscribed_topic_names is None
    assert beats[-1].topic_partitions is None
    assert beats[-1].rebalance_timeout_ms == -1
    told = [each for each in beats if each.topic_partitions]
    assert [sorted(each.topic_partitions[0].partitions) for each in told] == [[0, 1, 2, 3, 4, 5]]


# -- any protocol type ---------------------------------------------------------------------------


def test_a_group_of_any_protocol_type(make):
    lab = make()
    users = []

    def assign(name, metadata):
        assert name == "compatible"
        return {member_id: b"for " + data for member_id, data in metadata.items()}

    class Raw:
        """Keeps what it is told."""

        def __init__(self, data):
            self.user = lab.user()
            protocol = GivenProtocol("connect", [("compatible", data)], assign)
            user = self.user
            user.member = ClassicMember(user.routes, user.settings, protocol, user.routes.random)
            user.commits = Commits(user.routes, user.member, user.routes.random)
            user._work = self.work
            user.member.join(lab.now)
            self.joined = []
            users.append(self)

        def work(self, _now):
            event = self.user.member.take_event()
            if event is not None:
                assert isinstance(event, Joined)
                self.joined.append(event)
                self.user.member.done(event)

    Raw(b"one"), Raw(b"two")
    lab.until(lambda: all(each.joined for each in users))
    lab.until(lambda: users[0].joined[-1].generation_id == users[1].joined[-1].generation_id)
    assert [each.joined[-1].assignment for each in users] == [b"for one", b"for two"]
    assert sum(each.joined[-1].is_leader for each in users) == 1


# -- commits -------------------------------------------------------------------------------------

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_commits_and_fetches(make, kind):
    lab = make()
    user = lab.user(kind=kind)
    lab.until(lab.is_shared)
    commit = user.commits.commit({T0: CommittedOffset(7, 3, "note")})
    fetch = user.commits.fetch([T0, T1], lab.now + 10_000)
    lab.until(lambda: fetch.done)
    assert (commit.done, commit.error) == (True, None)
    assert fetch.offsets == {T0: CommittedOffset(7, 3, "note")}
    (request,) = user.requests(OffsetFetchRequest)
    assert request.require_stable
    assert user.commits.commit({}).done


def test_later_commits_are_sent_later(make):
    lab = make()
    user = lab.user()
    lab.until(lab.is_shared)
    operations = [user.commits.commit({T0: CommittedOffset(n)}, lab.now + 30_000) for n in range(5)]
    lab.refusals[OffsetCommitRequest] = [E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR]
    lab.until(lambda: user.commits.is_idle)
    assert [each.error for each in operations] == [None] * 5
    found = user.commits.fetch([T0], lab.now + 10_000)
    lab.until(lambda: found.done)
    assert found.offsets[T0].offset == 4


def test_a_commit_without_a_deadline_is_tried_once(make):
    lab = make()
    user = lab.user()
    lab.until(lab.is_shared)
    lab.refusals[OffsetCommitRequest] = [E.COORDINATOR_LOAD_IN_PROGRESS]
    commit = user.commits.commit({T0: CommittedOffset(1)})
    lab.until(lambda: commit.done)
    assert commit.error.code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert len(user.requests(OffsetCommitRequest)) == 1


def test_a_commit_with_a_deadline_gives_up_then(make):
    lab = make()
    user = lab.user()
    lab.until(lab.is_shared)
    lab.refusals[OffsetCommitRequest] = [E.COORDINATOR_LOAD_IN_PROGRESS] * 100
    commit = user.commits.commit({T0: CommittedOffset(1)}, lab.now + 5_000)
    lab.run(5_100)
    assert isinstance(commit.error, RequestTimeoutError)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(commit.error)
    assert user.commits.is_idle


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_of_a_zombie(make, kind):
    lab = make()
    user = lab.user(kind=kind)
    lab.until(lab.is_shared)
    lab.refusals[OffsetCommitRequest] = [E.UNKNOWN_MEMBER_ID]
    commit = user.commits.commit({T0: CommittedOffset(1)}, lab.now + 5_000)
    lab.until(lambda: commit.done)
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.__cause__.code == E.UNKNOWN_MEMBER_ID


def test_a_commit_with_an_old_epoch_is_repeated_with_the_new_one(make):
    lab = make()
    user = lab.user(kind="consumer")
    lab.until(lab.is_shared)
    epoch = user.member.group_metadata.generation_id
    lab.delay_ms = 1_000
    lab.refusals[OffsetCommitRequest] = [E.STALE_MEMBER_EPOCH]
    commit = user.commits.commit({T0: CommittedOffset(1)}, lab.now + 60_000)
    lab.run(50)
    lab.user(kind="consumer")
    lab.until(lambda: commit.done)
    if isinstance(commit.error, CommitFailedError):  # the refusal came before the new epoch
        assert user.member.group_metadata.generation_id >= epoch
    else:
        assert commit.error is None


def test_commits_of_outsiders(make):
    lab = make()
    user = lab.user()
    lab.until(lab.is_shared)
    outsider = Commits(user.routes, Outsider(GROUP), user.routes.random)
    user.commits = outsider
    commit = outsider.commit({T0: CommittedOffset(1)}, lab.now + 5_000)
    lab.until(lambda: commit.done)
    assert isinstance(commit.error, CommitFailedError), "the group has members"


# -- random histories ----------------------------------------------------------------------------


def test_a_late_user_is_told_of_the_newest_target_only(make):
    # After an error the late member says that it has nothing, so the coordinator gives others a part
    # of what the member has not told its user yet.
    lab = make()
    late = lab.user(kind="consumer")
    late.polls = False
    lab.run(10_000)
    lab.user(kind="consumer")
    lab.run(10_000)
    lab.refusals[ConsumerGroupHeartbeatRequest] = [E.COORDINATOR_LOAD_IN_PROGRESS] * 2
    lab.run(20_000)
    late.polls = True
    lab.until(lab.is_shared)
    assert kinds(late) == ["Assigned"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(HISTORIES))
def test_members_agree_in_the_end(make, kind, seed):
    """Requests and responses are late and lost, members come, go, stop polling, and work long."""
    draw = random.Random(seed)
    lab = make(seed=seed, topics={"t": draw.randint(1, 8), "u": draw.randint(1, 3)})
    lab.delay_ms = draw.choice([0, 100, 1_000])
    lab.loss = draw.choice([0, 0, 0.05, 0.3])
    for _ in range(30):
        choice = draw.random()
        inside = [each for each in lab.users if each.wants_in]
        if choice < 0.35 and len(inside) < 5:
            user = lab.user(
                kind=kind,
                topics=("t", "u"),
                instance_id=draw.choice([None, f"i{len(lab.users)}"]),
                max_poll_interval_ms=draw.choice([15_000, 300_000]),
            )
            user.work_ms = draw.choice([0, 200, 8_000])
        elif choice < 0.5 and inside:
            draw.choice(inside).leave()
        elif choice < 0.7 and inside:
            user = draw.choice(inside)
            user.polls = not user.polls
        elif choice < 0.8 and inside:
            user = draw.choice(inside)
            user.commits.commit({each: CommittedOffset(1) for each in user.assignment})
        lab.run(draw.choice([100, 1_000, 10_000]))
    lab.loss, lab.delay_ms = 0.0, 0
    for each in lab.users:
        each.polls = True
        each.work_ms = 0
    if not any(each.wants_in for each in lab.users):
        lab.user(kind=kind, topics=("t", "u"))
    lab.until(lab.is_settled, 200_000)
    lab.until(lambda: all(each.is_out for each in lab.users if not each.wants_in))
    assert all(not each.has for each in lab.users if not each.wants_in)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_protocol": "share"}, "group_protocol is 'share'"),
        ({"group_remote_assignor": "range"}, "cannot be set when group.protocol=CLASSIC"),
        ({"group_protocol": "consumer", "session_timeout_ms": 1}, "session.timeout.ms cannot be"),
        ({"partition_assignment_strategy": "fair"}, "'fair' is not an assignor"),
        ({"heartbeat_interval_ms": 45_000}, "must be lower"),
        ({"auto_offset_reset": "first"}, "auto.offset.reset is 'first'"),
        ({"group_id": ""}, "group.id is empty"),
        ({"group_id": None, "enable_auto_commit": True}, "needs a group.id"),
        ({"max_poll_record": 5}, "do you mean max_poll_records"),
    ],
)
def test_settings_that_are_refused(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Consumer({"bootstrap.servers": "h:1"}, **{"group_id": "g", **options})
