"""How a worker is a member of the application's group: of a classic group or of a Streams group.

In a Streams group (KIP-1071) the coordinator assigns tasks, creates the internal topics, and says what is
wrong with topics. Tasks move alone: others go on. In a classic group the members assign partitions with the
assignor `range`, and each rebalance stops all tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from odradek.client.consuming.consumer import Consumer
from odradek.client.consuming.state import Callback
from odradek.client.consuming.streams_group import StreamsConsumer, new_uuid
from odradek.client.core import streams_member as streams
from odradek.client.core.streams_member import Endpoint, EndpointPartitions, StreamsProcess
from odradek.client.core.streams_topology import TaskId as GroupTaskId
from odradek.client.errors import BrokerError, ClientError, UnsupportedVersionError
from odradek.core.streams.model.errors import StreamsError, TopologyError
from odradek.core.streams.topology.definition import Topology
from odradek.model.errors import ErrorCode
from odradek.streams.process.group_topology import group_topology
from odradek.streams.process.layout import Layout
from odradek.streams.process.settings import MAIN_CONSUMER, STREAMS, WorkerSettings
from odradek.streams.process.task_states import TaskId
from odradek.streams.process.tasks import Progress

log = logging.getLogger(__name__)


class Membership(Protocol):
    """A member with its consumer."""

    @property
    def consumer(self) -> Consumer:
        """What reads the partitions of the tasks."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether records may be processed."""
        ...

    def hosts(self) -> Mapping[Endpoint, EndpointPartitions]:
        """Return which process with an endpoint has which partitions."""
        ...

    def join(self, on_assigned: Callback, on_revoked: Callback, on_lost: Callback) -> None:
        """Join the group. The callbacks are those of a consumer."""
        ...

    def tasks(self, owned: Iterable[TaskId]) -> tuple[set[TaskId], set[TaskId]]:
        """Return the active and the standby tasks. `owned` are those whose partitions are assigned."""
        ...

    def check(self, now: float) -> None:
        """Look at what the group says. `now` is in seconds.

        Raises:
            StreamsError: the application cannot go on.
        """
        ...

    def report(self, progress: Mapping[TaskId, Progress]) -> None:
        """Tell how far changelogs have been read."""
        ...

    def shut_down_application(self) -> None:
        """See `Worker`."""
        ...


def membership(topology: Topology, settings: WorkerSettings, layout: Layout) -> Membership:
    """Return the member of a worker, which joins later."""
    if settings.group_protocol == STREAMS:
        return StreamsMembership(topology, settings)
    return ClassicMembership(topology, settings, layout)


class ClassicMembership:
    """A member of a classic group."""

    is_ready = True

    def __init__(self, topology: Topology, settings: WorkerSettings, layout: Layout) -> None:
        self._topics = layout.source_topics()
        self.consumer = Consumer(
            settings.clients[MAIN_CONSUMER],
            group_id=topology.application_id,
            enable_auto_commit=False,
            partition_assignment_strategy="range",
        )

    def hosts(self) -> Mapping[Endpoint, EndpointPartitions]:
        """See `Membership`."""
        return {}

    def join(self, on_assigned: Callback, on_revoked: Callback, on_lost: Callback) -> None:
        """See `Membership`."""
        self.consumer.subscribe(
            self._topics, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
        )

    def tasks(self, owned: Iterable[TaskId]) -> tuple[set[TaskId], set[TaskId]]:
        """See `Membership`."""
        return set(owned), set()

    def check(self, now: float) -> None:
        """See `Membership`."""

    def report(self, progress: Mapping[TaskId, Progress]) -> None:
        """See `Membership`."""

    def shut_down_application(self) -> None:
        """See `Membership`."""
        raise TopologyError('only Streams groups can be ended: set group_protocol="streams"')


class StreamsMembership:
    """A member of a Streams group."""

    def __init__(self, topology: Topology, settings: WorkerSettings) -> None:
        self._topology = group_topology(topology, settings.replication_factor)
        self._process = StreamsProcess(
            new_uuid(),
            None if settings.endpoint is None else Endpoint(*settings.endpoint),
            settings.client_tags,
        )
        self._missing_since: float | None = None
        self._said: object = ()
        self.consumer = StreamsConsumer(
            settings.clients[MAIN_CONSUMER],
            group_id=topology.application_id,
            enable_auto_commit=False,
        )

    @property
    def is_ready(self) -> bool:
        """See `Membership`."""
        return self.consumer.is_ready

    def hosts(self) -> Mapping[Endpoint, EndpointPartitions]:
        """See `Membership`."""
        return self.consumer.hosts

    def join(self, on_assigned: Callback, on_revoked: Callback, on_lost: Callback) -> None:
        """See `Membership`."""
        self.consumer.join(
            self._topology,
            self._process,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
        )

    def tasks(self, owned: Iterable[TaskId]) -> tuple[set[TaskId], set[TaskId]]:
        """See `Membership`."""
        found = self.consumer.tasks
        return set(map(_task_id, found.active)), set(map(_task_id, found.standby | found.warmup))

    def check(self, now: float) -> None:
        """See `Membership`. Source topics may be missing for two heartbeats, as in Kafka Streams."""
        statuses = self.consumer.statuses
        if statuses != self._said:
            self._said = statuses
            for each in statuses:
                log.warning("group %s: %s", self.consumer.group_metadata.group_id, each.detail)
        by_code = {each.code: each.detail for each in statuses}
        if streams.SHUTDOWN_APPLICATION in by_code:
            raise ApplicationEndedError(
                f"a process has asked all processes of the application to end: "
                f"{by_code[streams.SHUTDOWN_APPLICATION]}"
            )
        if streams.INCORRECTLY_PARTITIONED_TOPICS in by_code:
            raise TopologyError(by_code[streams.INCORRECTLY_PARTITIONED_TOPICS])
        missing = by_code.get(streams.MISSING_SOURCE_TOPICS)
        if missing is None:
            self._missing_since = None
            return
        if self._missing_since is None:
            self._missing_since = now
        elif (now - self._missing_since) * 1000 > 2 * self.consumer.heartbeat_interval_ms:
            raise TopologyError(f"missing source topics: {missing}")

    def report(self, progress: Mapping[TaskId, Progress]) -> None:
        """See `Membership`."""
        found = {
            GroupTaskId(str(number), partition): each
            for (number, partition), each in progress.items()
        }
        self.consumer.report(
            {task: each.position for task, each in found.items()},
            {task: each.end for task, each in found.items() if each.end is not None},
        )

    def shut_down_application(self) -> None:
        """See `Membership`."""
        self.consumer.shut_down_application()


class ApplicationEndedError(StreamsError):
    """Another process has ended the whole application."""


def explained(error: ClientError, settings: WorkerSettings) -> ClientError:
    """Return the error with what to do about it, if the cluster has no Streams groups."""
    is_refused = isinstance(error, UnsupportedVersionError) or (
        isinstance(error, BrokerError) and error.code == ErrorCode.UNSUPPORTED_VERSION
    )
    if settings.group_protocol == STREAMS and is_refused:
        return UnsupportedVersionError(
            f"the cluster has no Streams groups: {error}",
            'Set group_protocol="classic", or streams.version=1 with `odradek cluster feature`.',
        )
    return error


def _task_id(task: GroupTaskId) -> TaskId:
    return int(task.subtopology), task.partition
