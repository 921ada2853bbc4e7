"""Streams groups over a topic in memory."""

from __future__ import annotations

from tests.group.support import Coordinator

from odradek.core.group.streams import status
from odradek.model.errors import ErrorCode
from odradek.wire.generated.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

GROUP = "application"
NAMES = {
    value: name for name, value in vars(status).items() if name.isupper() and isinstance(value, int)
}


def topology(*subtopologies, epoch=0):
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def subtopology(
    name, *sources, repartition=(), sinks=(), changelogs=(), together=(), configs=(), **fixed
):
    """`repartition` topics may have a fixed number of partitions, by name with `_` for `-`."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        repartition_source_topics=[
            TopicInfo(name=each, partitions=fixed.get(each.replace("-", "_"), 0))
            for each in repartition
        ],
        repartition_sink_topics=list(sinks),
        state_changelog_topics=[
            TopicInfo(name=each, topic_configs=[KeyValue(key=k, value=v) for k, v in configs])
            for each in changelogs
        ],
        copartition_groups=[
            CopartitionGroup(source_topics=list(a), repartition_source_topics=list(b))
            for a, b in together
        ],
    )


STATELESS = topology(subtopology("0", "in"))
STATEFUL = topology(subtopology("0", "in", changelogs=("log",)))
WORD_COUNT = topology(
    subtopology("0", "in", sinks=("words",)),
    subtopology("1", repartition=("words",), changelogs=("counts",)),
)


def ids(tasks):
    """Tasks by subtopology as in requests."""
    return [TaskIds(subtopology_id=each, partitions=list(tasks[each])) for each in tasks]


class Groups(Coordinator):
    """The group coordinator, and members of Streams groups."""

    def __init__(self, **settings):
        plain = {
            "group_streams_initial_rebalance_delay_ms": 0,
            "group_streams_assignment_interval_ms": 0,
        }
        super().__init__(**{**plain, **settings})
        self.epochs = {}
        self.held = {}
        """Active and standby tasks of each member."""
        self.answers = {}
        """The last response to each member."""

    def beat(self, member_id, *, epoch=None, owned=True, group_id=GROUP, version=0, **fields):
        """The response, or the error. `owned` are tasks; True means those of the last response."""
        sent = self.epochs.get(member_id, 0) if epoch is None else epoch
        if sent == 0:
            fields = {"rebalance_timeout_ms": 30_000, "process_id": member_id, **fields}
            owned = ({}, {})
        elif owned is True:
            owned = self.held.get(member_id, ({}, {}))
        tasks = (None, None, None) if owned is None else (ids(owned[0]), ids(owned[1]), [])
        request = StreamsGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=sent,
            active_tasks=tasks[0],
            standby_tasks=tasks[1],
            warmup_tasks=tasks[2],
            **fields,
        )
        outcome = self.call(self.groups.streams_heartbeat, self.context(version), request)
        if isinstance(outcome, ErrorCode):
            return outcome
        answer = outcome.response
        self.missing = outcome.missing_topics
        self.answers[member_id] = answer
        if sent < 0:
            self.epochs.pop(member_id, None)
            self.held.pop(member_id, None)
            return answer
        self.epochs[member_id] = answer.member_epoch
        if answer.active_tasks is not None:
            self.held[member_id] = tuple(
                {each.subtopology_id: each.partitions for each in tasks}
                for tasks in (answer.active_tasks, answer.standby_tasks)
            )
        return answer

    def enter(self, member_id, plan=STATELESS, **fields):
        """A member joins with its topology."""
        return self.beat(member_id, epoch=0, topology=plan, **fields)

    def settle(self, *member_ids):
        """Heartbeats until nothing changes; the active tasks of each member."""
        for _ in range(4):
            for each in member_ids:
                self.beat(each)
        return {each: self.held[each][0] for each in member_ids}

    def standby(self, *member_ids):
        return {each: self.held[each][1] for each in member_ids}

    def statuses(self, member_id):
        return [NAMES[each.status_code] for each in self.answers[member_id].status]

    def details(self, member_id):
        return [each.status_detail for each in self.answers[member_id].status]

    def describe(self, group_id=GROUP):
        (group,) = self.get(self.loop.create_task(self.groups.describe_streams_groups([group_id])))
        return group


def endpoint(host, port=80):
    return Endpoint(host=host, port=port)
