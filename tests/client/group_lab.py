"""Members of groups and our own coordinator, without a network: time, delays and losses come from a seed."""

from __future__ import annotations

import random
from collections import deque

from tests.coordinator.support import topic_id
from tests.group.support import Coordinator

from odradek.client.core.classic_member import ClassicMember
from odradek.client.core.classic_subscription import ClassicSubscription
from odradek.client.core.commits import Commits
from odradek.client.core.consumer_member import ConsumerMember
from odradek.client.core.group_member import MemberState
from odradek.client.core.member_events import Assigned, Lost, Revoked
from odradek.client.core.member_settings import MemberSettings
from odradek.client.core.routes import Routes
from odradek.client.errors import DisconnectedError
from odradek.model.errors import ApiError
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import Coordinator as Found
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.leave_group_request import LeaveGroupRequest
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.generated.offset_commit_request import OffsetCommitRequest
from odradek.wire.generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.generated.offset_fetch_request import OffsetFetchRequest
from odradek.wire.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from odradek.wire.generated.sync_group_request import SyncGroupRequest

GROUP = "group"
STEP_MS = 50
LINK = (1, "coordinator")
UNKNOWN_TOPIC = 3
UNKNOWN_TOPIC_ID = 100


class Lab:
    """A coordinator, and processes that talk to it."""

    def __init__(self, seed=1, topics=None, **settings):
        self.random = random.Random(seed)
        self.coordinator = Coordinator(seed=seed, **settings)
        self.coordinator.set_topics(**(topics or {"t": 6}))
        self.users = []
        self.loss = 0.0
        """The probability that a request, or its response, is lost."""
        self.delay_ms = 0
        self.refusals = {}
        """Error codes of the next responses, by class of request."""

    def close(self):
        self.coordinator.close()

    @property
    def now(self):
        return int(self.coordinator.loop.time() * 1000)

    def user(self, **options):
        self.users.append(User(self, len(self.users), **options))
        return self.users[-1]

    def run(self, ms=STEP_MS):
        """Let time pass."""
        for _ in range(max(1, ms // STEP_MS)):
            for each in self.users:
                each.step()
            self.coordinator.run(STEP_MS)

    def until(self, is_done, ms=120_000):
        for _ in range(ms // STEP_MS):
            if is_done():
                return
            self.run()
        raise AssertionError(f"not within {ms} ms: {[(u.member.state, u.has) for u in self.users]}")

    def is_settled(self):
        """Whether each partition of the topics is held by exactly one user, which is in the group."""
        held = sorted(each for user in self.users for each in user.has)
        expected = sorted(
            (name, index)
            for name, topic in self.coordinator.image.topics.by_name.items()
            for index in topic.partitions
        )
        return held == expected and all(
            user.member.state.name == "STABLE" and user.assignment == user.has
            for user in self.users
            if user.wants_in
        )

    def is_shared(self):
        """Whether, in addition, the members have equal numbers of partitions."""
        sizes = [len(user.has) for user in self.users if user.wants_in]
        return self.is_settled() and max(sizes) - min(sizes) <= 1

    # -- answers --------------------------------------------------------------------------------

    def answer(self, request):
        """The response, or a future."""
        groups = self.coordinator.groups
        if self.refusals.get(type(request)):
            raise ApiError(self.refusals[type(request)].pop(0))
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        if isinstance(request, FindCoordinatorRequest):
            found = Found(key=request.coordinator_keys[0], node_id=1, host="h", port=1)
            return FindCoordinatorResponse(coordinators=[found])
        if isinstance(request, JoinGroupRequest):
            return groups.join(self.coordinator.context(9), request)
        if isinstance(request, SyncGroupRequest):
            return groups.sync(request)
        if isinstance(request, HeartbeatRequest):
            return groups.heartbeat(request)
        if isinstance(request, LeaveGroupRequest):
            return groups.leave(request)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            return groups.consumer_heartbeat(self.coordinator.context(1), request)
        if isinstance(request, OffsetCommitRequest):
            for topic in request.topics:
                topic.topic_id = topic_id(topic.name)
            return groups.commit_offsets(self.coordinator.context(9), request)
        assert isinstance(request, OffsetFetchRequest)
        return groups.fetch_offsets(request.groups[0], request.require_stable)

    def _metadata(self, request):
        topics = self.coordinator.image.topics
        found = []
        for each in request.topics:
            topic = topics.by_id.get(each.topic_id) if each.name is None else None
            topic = topics.by_name.get(each.name) if topic is None else topic
            if topic is None:
                code = UNKNOWN_TOPIC_ID if each.name is None else UNKNOWN_TOPIC
                asked = MetadataResponseTopic(name=each.name, topic_id=each.topic_id)
                asked.error_code = code
                found.append(asked)
                continue
            partitions = [
                MetadataResponsePartition(
                    partition_index=index, leader_id=1, leader_epoch=1, replica_nodes=[1]
                )
                for index in topic.partitions
            ]
            found.append(
                MetadataResponseTopic(name=topic.name, topic_id=topic.id, partitions=partitions)
            )
        brokers = [MetadataResponseBroker(node_id=1, host="h", port=1, rack="r")]
        return MetadataResponse(brokers=brokers, topics=found)


def refusal(ask, error):
    """The response with an error."""
    if isinstance(ask.request, OffsetCommitRequest):
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=error.code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in ask.request.topics
            ]
        )
    if isinstance(ask.request, OffsetFetchRequest):
        group = OffsetFetchResponseGroup(group_id=GROUP, error_code=error.code)
        return OffsetFetchResponse(groups=[group])
    return ask.response_class(error_code=error.code)


class User:
    """A process with one member."""

    def __init__(
        self, lab, number, *, kind="range", topics=("t",), instance_id=None, pattern=None, **options
    ):
        self.lab = lab
        self.random = lab.random
        self.routes = Routes(lambda: lab.random.getrandbits(31), creates_topics=False)
        self.settings = MemberSettings(
            GROUP, instance_id, "r", session_timeout_ms=10_000, **options
        )
        self.subscription = None
        if kind == "consumer":
            self.member = ConsumerMember(
                self.routes,
                self.settings,
                f"member-{number}",
                self.routes.random,
                topics=topics,
                pattern=pattern,
            )
        else:
            self.subscription = ClassicSubscription(self.routes, topics, kind.split(","), "r")
            self.member = ClassicMember(
                self.routes, self.settings, self.subscription, self.routes.random
            )
        self.commits = Commits(self.routes, self.member, self.routes.random)
        self.routes.opened(LINK, ApiVersionsResponse())
        self.has = set()
        self.events = []
        self.sent = []
        self.wants_in = True
        self.polls = True
        """Whether the program is responsive."""
        self.works = None
        """The event that the program works on, and when it is done with it."""
        self.work_ms = 0
        self.flights = deque()
        """(ask, answer, whether the response will be lost, when it arrives)."""
        self.member.join(lab.now)

    @property
    def assignment(self):
        return set((self.subscription or self.member).assignment)

    def leave(self):
        self.wants_in = False
        self.member.leave()

    @property
    def is_out(self):
        return self.member.state.name == "OUTSIDE"

    def step(self):
        now = self.lab.now
        self.routes.opened(LINK, ApiVersionsResponse())
        self._receive(now)
        if self.polls:
            self.member.polled(now)
            self._work(now)
        for machine in (self.member, self.commits, self.routes):
            for ask in machine.poll(now):
                self._send(ask, now)

    def _work(self, now):
        if self.works is not None and now >= self.works[1]:
            event, self.works = self.works[0], None
            self.member.done(event)
        if self.works is None:
            event = self.member.take_event()
            if event is None:
                return
            self.events.append(event)
            partitions = {(each.topic, each.partition) for each in event.partitions}
            if isinstance(event, Assigned):
                assert not self.has & partitions, "assigned what it has"
                if not self.lab.loss:
                    for other in self.lab.users:
                        # Who is out of the group, and was busy, is told in its next step.
                        knows = other.polls and other.member.may_commit
                        assert not (knows and other.has & partitions), "two have a partition"
                self.has |= partitions
            else:
                assert isinstance(event, Revoked | Lost)
                self.has -= partitions
            self.works = event, now + self.random.randint(0, self.work_ms)

    def _send(self, ask, now):
        self.sent.append(ask.request)
        assert ask.link in (None, LINK)
        is_lost = self.random.random() < self.lab.loss
        if is_lost and self.random.random() < 0.5:
            self.flights.append((ask, None, True, now + 100))
            return
        try:
            answer = self.lab.answer(ask.request)
        except ApiError as error:
            answer = refusal(ask, error)
        arrives = now + self.random.randint(0, self.lab.delay_ms)
        self.flights.append((ask, answer, is_lost, arrives))

    def _receive(self, now):
        waiting, self.flights = self.flights, deque()
        for ask, answer, is_lost, arrives in waiting:
            if now < arrives or (hasattr(answer, "done") and not answer.done() and not is_lost):
                self.flights.append((ask, answer, is_lost, arrives))
                continue
            if is_lost:
                ask.on_error(DisconnectedError("lost"), now)
                continue
            if hasattr(answer, "done"):
                try:
                    answer = answer.result()
                except ApiError as error:
                    answer = refusal(ask, error)
            if isinstance(answer, OffsetFetchResponseGroup):
                answer = OffsetFetchResponse(groups=[answer])
            ask.on_answer(answer, now)

    def requests(self, kind):
        return [each for each in self.sent if isinstance(each, kind)]


def is_idle(user):
    """Whether a classic member waits for its user."""
    return user.member.state == MemberState.PREPARING and user.member.loss
