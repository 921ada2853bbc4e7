"""A consumer whose partitions are those of the tasks that a Streams group gives it (KIP-1071)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from odradek.client.consuming.consumer import Consumer
from odradek.client.consuming.state import Callback, Callbacks, random_number
from odradek.client.core.streams_member import (
    Endpoint,
    EndpointPartitions,
    Status,
    StreamsMember,
    StreamsProcess,
)
from odradek.client.core.streams_topology import NO_TASKS, StreamsTopology, TaskId, Tasks
from odradek.client.errors import ConsumerStateError
from odradek.model import uuids


def new_uuid() -> str:
    """Return a new id for a process or a member, as Kafka writes it."""
    return uuids.to_text(uuid.uuid4().bytes)


class StreamsConsumer(Consumer):
    """A member of a Streams group. `join` takes the place of `subscribe`."""

    _streams: StreamsMember | None = None

    def join(
        self,
        topology: StreamsTopology,
        process: StreamsProcess,
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Read what the tasks of the group read, as a member with a new id.

        The callbacks are those of `subscribe`. `on_assigned` is also called without partitions, if only
        standby tasks have changed: see `tasks`.

        Raises:
            ConsumerStateError: the consumer has no group, or reads something else.
        """
        with self._use:
            self._check_usable()
            machine, settings = self._machine, self._options.member
            if settings is None or machine.is_subscribed or machine.fetcher.states:
                raise ConsumerStateError(
                    "the consumer has no group, or reads something else already",
                    "Set group.id, and call unsubscribe before join.",
                )
            self._callbacks = Callbacks(on_assigned, on_revoked, on_lost)
            topics = [topic for each in topology.subtopologies for topic in each.topics()]
            with self._lock:
                self._streams = StreamsMember(
                    self._routes, settings, new_uuid(), random_number, topology, process
                )
                machine.join_streams(self._streams, topics)

    @property
    def tasks(self) -> Tasks:
        """The tasks that this member has; in `on_assigned`, those that it is about to have."""
        return NO_TASKS if self._streams is None else self._streams.tasks

    @property
    def is_ready(self) -> bool:
        """Whether the coordinator allows records to be processed: all topics are there, and fit."""
        return self._streams is not None and self._streams.is_ready

    @property
    def statuses(self) -> tuple[Status, ...]:
        """What the coordinator says of the group."""
        return () if self._streams is None else self._streams.statuses

    @property
    def hosts(self) -> Mapping[Endpoint, EndpointPartitions]:
        """Which process with an endpoint has which partitions."""
        return {} if self._streams is None else self._streams.hosts

    @property
    def heartbeat_interval_ms(self) -> int:
        """That of the group; 0 before the first answer of the coordinator."""
        return 0 if self._streams is None else self._streams.heartbeat_interval_ms

    def report(self, offsets: Mapping[TaskId, int], end_offsets: Mapping[TaskId, int]) -> None:
        """Tell the coordinator in its interval how far changelogs of tasks have been read.

        These are the sums over the changelogs of a task, of the positions and of the ends.
        """
        with self._lock:
            if self._streams is not None:
                self._streams.report(offsets, end_offsets)

    def shut_down_application(self) -> None:
        """Ask all members of the group to end, with the next heartbeat."""
        with self._lock:
            if self._streams is not None:
                self._streams.shut_down_application()
