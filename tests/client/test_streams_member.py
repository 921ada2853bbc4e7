"""The member of Streams groups, with our own coordinator and answers by hand."""

from __future__ import annotations

import pytest
from tests.client.group_lab import GROUP, Lab, User

from odradek.client.core.member_events import Assigned, Lost, Revoked
from odradek.client.core.member_settings import MemberSettings
from odradek.client.core.streams_member import (
    ASSIGNMENT_DELAYED,
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    SHUTDOWN_APPLICATION,
    Endpoint,
    StreamsMember,
    StreamsProcess,
)
from odradek.client.core.streams_topology import (
    NO_TASKS,
    StreamsSubtopology,
    StreamsTopology,
    TaskId,
    TopicToMake,
)
from odradek.client.errors import BrokerError
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from odradek.wire.generated.streams_group_heartbeat_response import Status

LINES = TopicToMake("app-words", 0, -1, {"cleanup.policy": "delete"})
TOPOLOGY = StreamsTopology(
    [
        StreamsSubtopology("0", ["t"], repartition_sinks=["app-words"]),
        StreamsSubtopology("1", [], repartition_sources=[LINES], changelogs=[TopicToMake("log")]),
    ]
)


class StreamsLab(Lab):
    """A coordinator that creates the internal topics at once."""

    def __init__(self, **settings):
        plain = {
            "group_streams_initial_rebalance_delay_ms": 0,
            "group_streams_assignment_interval_ms": 0,
            "group_streams_heartbeat_interval_ms": 1_000,
            "group_streams_min_heartbeat_interval_ms": 1_000,
        }
        super().__init__(topics={"t": 4}, **{**plain, **settings})
        self.version = 1
        self.creates = True
        self.changes = {}
        """What to set in each response."""

    def user(self, **options):
        self.users.append(StreamsUser(self, len(self.users), **options))
        return self.users[-1]

    def answer(self, request):
        if not isinstance(request, StreamsGroupHeartbeatRequest) or self.refusals.get(
            type(request)
        ):
            return super().answer(request)
        context = self.coordinator.context(self.version)
        outcome = self.coordinator.groups.streams_heartbeat(context, request)
        return Patched(self, outcome)

    def create(self, topics):
        if self.creates:
            known = {
                name: len(each.partitions)
                for name, each in self.coordinator.image.topics.by_name.items()
            }
            new = {name: each.num_partitions for name, each in topics.items()}
            if new.keys() - known.keys():
                self.coordinator.set_topics(**known, **new)


class Patched:
    """The response of a heartbeat, when there is one."""

    def __init__(self, lab, outcome):
        self.lab, self.outcome = lab, outcome

    def done(self):
        return not hasattr(self.outcome, "done") or self.outcome.done()

    def result(self):
        outcome = self.outcome.result() if hasattr(self.outcome, "done") else self.outcome
        self.lab.create(outcome.missing_topics)
        response = outcome.response
        for name, value in self.lab.changes.items():
            setattr(response, name, value)
        if self.lab.version == 0:
            response.acceptable_recovery_lag = -1  # the default of a field that is not sent
        return response


class StreamsUser(User):
    """A process with one member."""

    def __init__(self, lab, number, *, instance_id=None, endpoint=None, tags=None, **options):
        self.streams = {"endpoint": endpoint, "tags": tags or {}}
        super().__init__(lab, number, kind="range", instance_id=instance_id, **options)
        self.member = StreamsMember(
            self.routes,
            MemberSettings(GROUP, instance_id, "r", **options),
            f"member-{number}-{len(lab.users)}",
            self.routes.random,
            TOPOLOGY,
            StreamsProcess(f"process-{number}", endpoint, tags or {}),
        )
        self.subscription = None
        self.commits = type(self.commits)(self.routes, self.member, self.routes.random)
        self.member.join(lab.now)

    def heartbeats(self):
        return self.requests(StreamsGroupHeartbeatRequest)

    @property
    def active(self):
        return sorted(map(str, self.member.tasks.active))

    @property
    def standby(self):
        return sorted(map(str, self.member.tasks.standby))


@pytest.fixture
def make():
    made = []

    def lab(**options):
        made.append(StreamsLab(**options))
        return made[-1]

    yield lab
    for each in made:
        each.close()


def have_all(lab, each_has):
    """Whether all eight tasks are active, and the users have so many of them."""
    tasks = sorted(task for user in lab.users for task in user.active)
    everything = [f"{one}_{two}" for one in range(2) for two in range(4)]
    sizes = [len(user.active) for user in lab.users if user.wants_in]
    return tasks == everything and sizes == each_has and all(u.member.is_ready for u in lab.users)


def kinds(user):
    return [type(each).__name__ for each in user.events]


def test_the_first_heartbeat_describes_the_process_and_later_ones_what_changed(make):
    lab = make()
    user = lab.user(
        endpoint=Endpoint("here", 8080), tags={"zone": "a"}, max_poll_interval_ms=60_000
    )
    lab.until(lambda: have_all(lab, [8]))
    lab.run(5_000)
    first, *rest = user.heartbeats()
    assert (first.group_id, first.member_epoch, first.rebalance_timeout_ms) == (GROUP, 0, 60_000)
    assert first.member_id == user.member.group_metadata.member_id
    assert (first.process_id, first.rack_id, first.instance_id) == ("process-0", "r", None)
    assert (first.user_endpoint.host, first.user_endpoint.port) == ("here", 8080)
    assert [(each.key, each.value) for each in first.client_tags] == [("zone", "a")]
    assert first.active_tasks == first.standby_tasks == first.warmup_tasks == []
    assert first.endpoint_information_epoch == -1
    assert [each.subtopology_id for each in first.topology.subtopologies] == ["0", "1"]
    assert first.topology.subtopologies[0].repartition_sink_topics == ["app-words"]
    assert not first.shutdown_application
    assert all(each.topology is None and each.rebalance_timeout_ms == -1 for each in rest)
    told = [each for each in rest if each.active_tasks is not None]
    assert [
        [(tasks.subtopology_id, tasks.partitions) for tasks in each.active_tasks] for each in told
    ][-1] == [("0", [0, 1, 2, 3]), ("1", [0, 1, 2, 3])]
    assert len(told) <= 2
    assert user.has == {(topic, index) for topic in ("t", "app-words") for index in range(4)}
    assert user.member.hosts[Endpoint("here", 8080)].active == {
        TopicPartition(topic, index) for topic in ("t", "app-words") for index in range(4)
    }


def test_a_second_member_gets_tasks_while_the_others_stay(make):
    lab = make()
    first = lab.user()
    lab.until(lambda: have_all(lab, [8]))
    second = lab.user()
    lab.until(lambda: have_all(lab, [4, 4]))
    given_up = [each for each in first.events if isinstance(each, Revoked)]
    assert sum(len(each.partitions) for each in given_up) == 4
    assert "Lost" not in kinds(first) + kinds(second)
    second.leave()
    lab.until(lambda: second.is_out)
    assert second.heartbeats()[-1].member_epoch == -1
    assert second.member.tasks == NO_TASKS
    assert second.has == set()
    lab.users.remove(second)
    lab.until(lambda: have_all(lab, [8]))


def test_standby_tasks_are_told_without_partitions(make):
    lab = make(group_streams_num_standby_replicas=1)
    first = lab.user()
    lab.until(lambda: have_all(lab, [8]))
    assert first.standby == []
    second = lab.user()
    lab.until(lambda: have_all(lab, [4, 4]) and first.standby and second.standby)
    stateful = {f"1_{each}" for each in range(4)}
    assert {*first.standby, *second.standby} == stateful
    assert not {*first.standby} & {*first.active}
    assert Assigned(()) in first.events


def test_a_static_member_leaves_for_a_while(make):
    lab = make()
    user = lab.user(instance_id="one")
    other = lab.user(instance_id="two")
    lab.until(lambda: have_all(lab, [4, 4]))
    before = user.active
    user.leave()
    lab.until(lambda: user.is_out)
    assert user.heartbeats()[-1].member_epoch == -2
    lab.run(5_000)
    assert len(other.active) == 4
    lab.users.remove(user)
    back = lab.user(instance_id="one")
    lab.until(lambda: back.active == before)


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_loses_its_tasks_and_joins_again(make, code):
    lab = make()
    user = lab.user()
    lab.until(lambda: have_all(lab, [8]))
    lab.refusals[StreamsGroupHeartbeatRequest] = [code]
    lab.until(lambda: any(isinstance(each, Lost) for each in user.events))
    lab.until(lambda: have_all(lab, [8]))
    assert kinds(user)[-2:] == ["Lost", "Assigned"]
    again = [each for each in user.heartbeats() if each.member_epoch == 0]
    assert len(again) == 2
    assert again[1].topology is not None
    assert {each.member_id for each in again} == {again[0].member_id}, "the member id is kept"


@pytest.mark.parametrize(
    "code",
    [
        E.GROUP_AUTHORIZATION_FAILED,
        E.INVALID_REQUEST,
        E.GROUP_MAX_SIZE_REACHED,
        E.STREAMS_INVALID_TOPOLOGY,
        E.STREAMS_INVALID_TOPOLOGY_EPOCH,
        E.STREAMS_TOPOLOGY_FENCED,
        E.UNSUPPORTED_VERSION,
        E.UNKNOWN_SERVER_ERROR,
    ],
)
def test_some_errors_end_the_membership(make, code):
    lab = make()
    user = lab.user()
    lab.until(lambda: have_all(lab, [8]))
    lab.refusals[StreamsGroupHeartbeatRequest] = [code]
    lab.until(lambda: user.member.error is not None and user.member.is_at_rest)
    assert isinstance(user.member.error, BrokerError)
    assert user.member.error.code == code
    lab.run()
    assert kinds(user)[-1] == "Lost"
    before = len(user.heartbeats())
    lab.run(10_000)
    assert len(user.heartbeats()) == before


@pytest.mark.parametrize(
    "code",
    [
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.TOPIC_AUTHORIZATION_FAILED,
    ],
)
def test_some_errors_pass_and_the_tasks_are_told_again(make, code):
    lab = make()
    user = lab.user()
    lab.until(lambda: have_all(lab, [8]))
    lab.run(3_000)
    assert user.heartbeats()[-1].active_tasks is None
    before = len(user.heartbeats())
    lab.refusals[StreamsGroupHeartbeatRequest] = [code]
    lab.until(lambda: len(user.heartbeats()) >= before + 2)
    after = user.heartbeats()[before + 1]
    assert after.topology is None, "only who joins says it"
    assert after.active_tasks
    lab.run(3_000)
    assert have_all(lab, [8])
    assert "Lost" not in kinds(user)


@pytest.mark.parametrize(
    ("code", "is_ready"),
    [
        (MISSING_SOURCE_TOPICS, False),
        (INCORRECTLY_PARTITIONED_TOPICS, False),
        (MISSING_INTERNAL_TOPICS, False),
        (ASSIGNMENT_DELAYED, False),
        (SHUTDOWN_APPLICATION, True),
        (0, True),
    ],
)
def test_statuses_say_whether_records_may_be_processed(make, code, is_ready):
    lab = make()
    user = lab.user()
    lab.until(lambda: have_all(lab, [8]))
    lab.changes["status"] = [Status(status_code=code, status_detail="because")]
    lab.run(3_000)
    assert user.member.is_ready is is_ready
    assert user.member.statuses == ((code, "because"),)
    lab.changes["status"] = []
    lab.run(3_000)
    assert user.member.is_ready
    assert user.member.statuses == ()


def test_missing_topics_are_a_status_and_their_creation_ends_it(make):
    lab = make()
    lab.creates = False
    user = lab.user()
    lab.run(5_000)
    assert user.active == []
    assert {each.code for each in user.member.statuses} == {MISSING_INTERNAL_TOPICS}
    lab.creates = True
    lab.until(lambda: have_all(lab, [8]))


def test_one_member_ends_the_application(make):
    lab = make()
    first, second = lab.user(), lab.user()
    lab.until(lambda: have_all(lab, [4, 4]))
    first.member.shut_down_application()
    lab.until(lambda: any(each.code == SHUTDOWN_APPLICATION for each in second.member.statuses))
    assert first.heartbeats()[-1].shutdown_application


@pytest.mark.parametrize("version", [0, 1])
def test_offsets_of_tasks_are_reported_to_those_who_know_them(make, version):
    lab = make(group_streams_task_offset_interval_ms=15_000)
    lab.version = version
    user = lab.user()
    lab.until(lambda: have_all(lab, [8]))
    task = TaskId("1", 2)
    user.member.report({task: 5}, {task: 9})
    lab.run(5_000)
    user.member.report({task: 6}, {task: 9})
    lab.run(40_000)
    reports = [each for each in user.heartbeats() if each.task_offsets is not None]
    found = [
        [(each.subtopology_id, each.partition, each.offset) for each in request.task_offsets]
        for request in reports
    ]
    assert found == ([[("1", 2, 5)], [("1", 2, 6)]] if version else [])
    assert [each.task_end_offsets[0].offset for each in reports] == [9] * len(reports)


def test_who_does_not_poll_leaves_and_comes_back(make):
    lab = make()
    user = lab.user(max_poll_interval_ms=10_000)
    other = lab.user()
    lab.until(lambda: have_all(lab, [4, 4]))
    user.polls = False
    lab.until(lambda: len(other.active) == 8)
    assert user.heartbeats()[-1].member_epoch == -1
    assert "max.poll.interval.ms" in user.member.loss
    user.polls = True
    lab.until(lambda: have_all(lab, [4, 4]))
    assert "Lost" in kinds(user)


@pytest.mark.parametrize("seed", range(4))
def test_members_come_and_go_with_losses_and_delays(make, seed):
    lab = make(seed=seed, group_streams_num_standby_replicas=1)
    lab.loss, lab.delay_ms = 0.05, 300
    for _ in range(3):
        user = lab.user()
        user.work_ms = 500
        lab.run(lab.random.randint(100, 8_000))
    gone = lab.users[lab.random.randrange(3)]
    gone.leave()
    lab.until(lambda: gone.is_out)
    lab.users.remove(gone)
    lab.loss = 0.0
    lab.until(lambda: have_all(lab, [4, 4]))
    assert sorted(each for user in lab.users for each in user.has) == sorted(
        (topic, index) for topic in ("t", "app-words") for index in range(4)
    )
