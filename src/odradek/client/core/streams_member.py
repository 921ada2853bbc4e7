"""A member of a Streams group (KIP-1071): the coordinator assigns tasks.

See `heartbeat_member` for its states. A task is a subtopology for one partition. Its user hears which
partitions of source topics it gets and gives up; standby tasks are in `tasks`. `Assigned` is told for each
new assignment, also without partitions, because standby tasks may have changed.

The first heartbeat has the topology, and what else describes the process. Later ones have the tasks of
the member if they have changed. What the coordinator says of the group is in `statuses`: while topics
are missing or do not fit, or the assignment is delayed, `is_ready` is False, and no records should be processed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from odradek.client.core.backoff import RandomNumber
from odradek.client.core.group_member import MemberState
from odradek.client.core.heartbeat_member import Fields, HeartbeatMember
from odradek.client.core.member_events import Assigned, Lost, MemberEvent, Revoked
from odradek.client.core.member_settings import MemberSettings
from odradek.client.core.routes import Routes
from odradek.client.core.streams_topology import NO_TASKS, StreamsTopology, TaskId, Tasks
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated import streams_group_heartbeat_request as wire
from odradek.wire.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from odradek.wire.generated.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

STALE_TOPOLOGY = 0
MISSING_SOURCE_TOPICS = 1
INCORRECTLY_PARTITIONED_TOPICS = 2
MISSING_INTERNAL_TOPICS = 3
SHUTDOWN_APPLICATION = 4
ASSIGNMENT_DELAYED = 5
_NOT_READY = frozenset(
    {
        MISSING_SOURCE_TOPICS,
        INCORRECTLY_PARTITIONED_TOPICS,
        MISSING_INTERNAL_TOPICS,
        ASSIGNMENT_DELAYED,
    }
)
_NO_EPOCH = -1
_Offsets = tuple[tuple[tuple[TaskId, int], ...], tuple[tuple[TaskId, int], ...]]
"""Offsets of tasks, and the ends."""


class Endpoint(NamedTuple):
    """Where a process answers queries."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class EndpointPartitions(NamedTuple):
    """The partitions of source topics whose tasks a process has."""

    active: frozenset[TopicPartition]
    standby: frozenset[TopicPartition]


class Status(NamedTuple):
    """What the coordinator says of the group."""

    code: int
    detail: str


class StreamsProcess(NamedTuple):
    """What the coordinator must know of the process of a member."""

    process_id: str
    """A UUID. Members of one process share their state."""
    endpoint: Endpoint | None = None
    """`application.server`."""
    tags: Mapping[str, str] = {}
    """`client.tag.NAME`."""


class StreamsMember(HeartbeatMember):
    """One member of one group."""

    _response_class = StreamsGroupHeartbeatResponse

    def __init__(
        self,
        routes: Routes,
        settings: MemberSettings,
        member_id: str,
        random: RandomNumber,
        topology: StreamsTopology,
        process: StreamsProcess,
    ) -> None:
        """`member_id` is a new UUID."""
        super().__init__(routes, settings, member_id, random)
        self.tasks = NO_TASKS
        """The tasks that the member has, or is about to have while its user works on `Assigned`."""
        self.statuses: tuple[Status, ...] = ()
        self.is_ready = False
        """Whether records may be processed."""
        self.hosts: dict[Endpoint, EndpointPartitions] = {}
        """Where which partitions are, of all processes with an endpoint."""
        self.heartbeat_interval_ms = 0
        """That of the group; 0 before the first response."""
        self.has_shutdown_request = False
        """Whether all processes of the application shall end."""
        self._topology = topology
        self._topics = {each.id: each.topics() for each in topology.subtopologies}
        self._process = process
        self._target = NO_TASKS
        self._wanted = NO_TASKS
        """The target of the reconciliation under way."""
        self._hosts_epoch = _NO_EPOCH
        self._offsets: _Offsets = ((), ())
        self._report_at_ms = 0
        self._report_every_ms = 0
        self._reports = False
        """Whether the coordinator accepts offsets of tasks (version 1 of the API)."""

    # -- the user -------------------------------------------------------------------------------

    def partitions_of(self, tasks: Iterable[TaskId]) -> frozenset[TopicPartition]:
        """Return the partitions that tasks read."""
        return frozenset(
            TopicPartition(topic, each.partition)
            for each in tasks
            for topic in self._topics[each.subtopology]
        )

    def take_event(self) -> MemberEvent | None:
        """See `HeartbeatMember`."""
        event = super().take_event()
        if isinstance(event, Assigned):
            self.tasks = self._wanted
        return event

    def done(self, event: MemberEvent) -> None:
        """See `HeartbeatMember`."""
        super().done(event)
        if isinstance(event, Lost) or self.state == MemberState.CLOSING:
            self.tasks = NO_TASKS

    def shut_down_application(self) -> None:
        """Ask all members of the group to end, with the next heartbeat."""
        self.has_shutdown_request = True
        self._beat_soon()

    def report(self, offsets: Mapping[TaskId, int], end_offsets: Mapping[TaskId, int]) -> None:
        """Note how far the changelogs of tasks have been read: sums of offsets, and of the ends.

        The coordinator gets them in the interval that it has asked for, if it knows what they are.
        """
        self._offsets = tuple(sorted(offsets.items())), tuple(sorted(end_offsets.items()))

    # -- what is assigned -----------------------------------------------------------------------

    def _differences(self, now_ms: int) -> list[MemberEvent] | None:
        """See `HeartbeatMember`."""
        target = self._target
        if target == self.tasks:
            return None
        self._wanted = target
        wanted = self.partitions_of(target.active)
        revoked = self.assignment - wanted
        events: list[MemberEvent] = []
        if revoked:
            events.append(Revoked(tuple(sorted(revoked))))
        events.append(Assigned(tuple(sorted(wanted - self.assignment))))
        return events

    def _take(self, response: Any, now_ms: int) -> bool:
        """See `HeartbeatMember`."""
        before = self._target
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        self._reports = response.acceptable_recovery_lag >= 0
        self._report_every_ms = response.task_offset_interval_ms
        self._hosts_epoch = response.endpoint_information_epoch
        if response.partitions_by_user_endpoint is not None:
            self.hosts = {
                Endpoint(each.user_endpoint.host, each.user_endpoint.port): EndpointPartitions(
                    _partitions(each.active_partitions), _partitions(each.standby_partitions)
                )
                for each in response.partitions_by_user_endpoint
            }
        given = response.status or ()
        self.is_ready = not any(each.status_code in _NOT_READY for each in given)
        if response.status is not None:
            self.statuses = tuple(Status(each.status_code, each.status_detail) for each in given)
        active, standby = response.active_tasks, response.standby_tasks
        warmup = response.warmup_tasks
        if active is not None and standby is not None and warmup is not None:
            self._target = Tasks(_task_set(active), _task_set(standby), _task_set(warmup))
        return self._target != before

    def _forget(self) -> None:
        """See `HeartbeatMember`."""
        self._target = NO_TASKS
        self.is_ready = False
        if not self.assignment:
            self.tasks = NO_TASKS

    # -- heartbeats -----------------------------------------------------------------------------

    def _request(
        self, epoch: int, now_ms: int, *, is_leaving: bool
    ) -> tuple[StreamsGroupHeartbeatRequest, Fields]:
        """See `HeartbeatMember`."""
        settings = self._settings
        request = StreamsGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self._hosts_epoch,
            instance_id=settings.instance_id,
            shutdown_application=self.has_shutdown_request,
        )
        if is_leaving:
            return request, {}
        fields: Fields = {"tasks": NO_TASKS}
        if epoch == 0:
            self._describe(request)
        else:
            is_busy = self.state in (MemberState.RECONCILING, MemberState.CLOSING)
            fields["tasks"] = self._told.get("tasks", self.tasks) if is_busy else self.tasks
            if self._told.get("tasks") != fields["tasks"]:
                _name_tasks(request, fields["tasks"])
        told = self._told.get("offsets", ((), ()))
        if self._reports and told != self._offsets and now_ms >= self._report_at_ms:
            self._report_at_ms = now_ms + self._report_every_ms
            request.task_offsets = _task_offsets(self._offsets[0])
            request.task_end_offsets = _task_offsets(self._offsets[1])
            told = self._offsets
        fields["offsets"] = told
        return request, fields

    def _describe(self, request: StreamsGroupHeartbeatRequest) -> None:
        """Say what the coordinator must know of a new member."""
        process = self._process
        request.topology = self._topology.message()
        request.rebalance_timeout_ms = self._settings.max_poll_interval_ms
        request.process_id = process.process_id
        request.rack_id = self._settings.rack or None
        if process.endpoint is not None:
            request.user_endpoint = wire.Endpoint(
                host=process.endpoint.host, port=process.endpoint.port
            )
        request.client_tags = [
            wire.KeyValue(key=name, value=value) for name, value in process.tags.items()
        ]
        _name_tasks(request, NO_TASKS)


def _name_tasks(request: StreamsGroupHeartbeatRequest, tasks: Tasks) -> None:
    request.active_tasks = _task_ids(tasks.active)
    request.standby_tasks = _task_ids(tasks.standby)
    request.warmup_tasks = _task_ids(tasks.warmup)


def _task_ids(tasks: Collection[TaskId]) -> list[wire.TaskIds]:
    found: dict[str, list[int]] = {}
    for each in sorted(tasks):
        found.setdefault(each.subtopology, []).append(each.partition)
    return [
        wire.TaskIds(subtopology_id=name, partitions=partitions)
        for name, partitions in found.items()
    ]


def _task_offsets(offsets: Iterable[tuple[TaskId, int]]) -> list[wire.TaskOffset]:
    return [
        wire.TaskOffset(subtopology_id=task.subtopology, partition=task.partition, offset=offset)
        for task, offset in offsets
    ]


def _task_set(tasks: Iterable[Any]) -> frozenset[TaskId]:
    return frozenset(
        TaskId(each.subtopology_id, partition) for each in tasks for partition in each.partitions
    )


def _partitions(topics: Iterable[Any]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(each.topic, partition) for each in topics for partition in each.partitions
    )
