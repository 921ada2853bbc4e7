"""Changes a simulated cluster while nodes fail and all clients run.

It sets a setting of one group after the other, and changes one topic: it adds partitions, deletes records,
moves, adds and removes replicas, cancels such changes, and changes a setting. A producer writes to this topic,
and the members of a group read it. At the end, all that was acknowledged must be there (`differences`,
`wrong_starts`), and nothing that was not asked for.

Brokers store the start of a log every `log.flush.start.offset.checkpoint.interval.ms`, as in Apache Kafka. So a
deletion of records that was acknowledged may be undone by a crash. `crashed` notes what a machine has stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from odradek.client.errors import ClientError
from odradek.core.metadata.image import MetadataImage
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import ANY, SimClient, leader
from odradek.sim.facts import Facts
from odradek.sim.reading import earliest
from odradek.sim.simulation import Simulation
from odradek.sim.workload import NOT_NOW, Actor
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.generated.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import CreatePartitionsResponse
from odradek.wire.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.generated.delete_records_response import DeleteRecordsResponse
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)

NO_CONTROLLER = NOT_NOW | {
    E.NOT_CONTROLLER,
    E.BROKER_NOT_AVAILABLE,
    E.INVALID_REPLICATION_FACTOR,  # too few brokers are not fenced
}
"""Errors after which a change of the metadata may take effect later, or never."""
NOTHING_TO_CANCEL = {E.NO_REASSIGNMENT_IN_PROGRESS, E.INVALID_REPLICA_ASSIGNMENT}
"""Errors of a cancellation without effect. The second one: no replica is in sync that was there before."""
SETTING, VALUE = "consumer.session.timeout.ms", "45000"
TOPIC, TOPIC_SETTING = "shelf", "max.message.bytes"
PARTITIONS_MAX = 4
REPLICAS_MIN = 2
CANCEL_SHARE = 0.2
"""The fraction of reassignments that only cancel the one in progress."""
_BYTES = 100_000


T = TypeVar("T")


class Possible(Generic[T]):
    """What a value may be: the last one that was acknowledged, and all whose request had no response.

    The network may deliver such a request later than others.
    """

    def __init__(self) -> None:
        self.acknowledged: T | None = None
        self.unknown: list[T] = []

    def ask(self, value: T) -> None:
        """Note that a value is asked for."""
        self.unknown.append(value)

    def acknowledge(self, value: T) -> None:
        """Note that the value was acknowledged."""
        self.unknown.remove(value)
        self.acknowledged = value

    def has(self, value: T | None) -> bool:
        """Whether this may be the value; None if there was none at first."""
        return value == self.acknowledged or value in self.unknown


@dataclass(slots=True)
class Move:
    """Where the replicas of a partition move."""

    replicas: list[int] | None = None
    """Those that were acknowledged last; None if there are none, or they were cancelled."""
    is_certain: bool = True
    """Whether all requests had a response. Without a response a request may take effect at any time."""

    def begin(self) -> None:
        """Note that a request is sent."""
        self.is_certain = False

    def end(self, replicas: list[int] | None) -> None:
        """Note that the only request without a response was acknowledged."""
        self.replicas, self.is_certain = replicas, True


@dataclass(slots=True)
class Changes:
    """What has been asked for, and what was acknowledged."""

    partitions: int = 1
    """The highest number of partitions that was acknowledged."""
    asked_partitions: int = 1
    deleted: dict[int, int] = field(default_factory=dict)
    """By partition, the offset below which all replicas have deleted the records for certain."""
    asked_deleted: dict[int, int] = field(default_factory=dict)
    moves: dict[int, Move] = field(default_factory=dict)
    """By partition."""
    value: Possible[str] = field(default_factory=Possible)
    """Of `TOPIC_SETTING`."""

    def ask_partitions(self, count: int) -> None:
        """Note that partitions are asked for."""
        self.asked_partitions = max(self.asked_partitions, count)

    def acknowledge_partitions(self, count: int) -> None:
        """Note that there are so many partitions."""
        self.partitions = max(self.partitions, count)


class Administrator(Actor):
    """Makes one change after the other."""

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        node_ids: Sequence[int],
        are_all_live: Callable[[], bool],
    ) -> None:
        """`are_all_live` returns whether all brokers take part now. A broker deletes only the records on
        live brokers before it answers, so only then the deletion is certain."""
        super().__init__(simulation, client, facts)
        self.changes = Changes()
        self._node_ids = node_ids
        self._are_all_live = are_all_live
        self._number = 0

    async def run(self) -> None:
        """See `Actor`."""
        acts = (
            *(self._set_group, self._set_group, self._grow, self._set),
            *(self._delete, self._move, self._move),
        )
        while not self.is_stopping:
            self._number += 1
            await self.random.choice(acts)()
            await self.pause(0.4)

    def _is_done(self, what: str, code: int) -> bool:
        """Return whether a change was acknowledged."""
        if code and code not in NO_CONTROLLER:
            self.unexpected(what, code)
        if not code:
            self.facts.count(what)
        return not code

    # -- settings -------------------------------------------------------------------------------

    async def _alter(self, kind: int, name: str, setting: str, value: str) -> bool:
        change = AlterableConfig(name=setting, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await self.ask(request, IncrementalAlterConfigsResponse)
        return response is not None and self._is_done(
            "settings changed", response.responses[0].error_code
        )

    async def _set_group(self) -> None:
        """Set a setting of a group. The group need not exist."""
        name = f"group {self._number}"
        if await self._alter(ResourceType.GROUP, name, SETTING, VALUE):
            self.facts.settings.append(name)

    async def _set(self) -> None:
        value = str(_BYTES + self._number)
        self.changes.value.ask(value)
        if await self._alter(ResourceType.TOPIC, TOPIC, TOPIC_SETTING, value):
            self.changes.value.acknowledge(value)

    # -- the topic ------------------------------------------------------------------------------

    async def _grow(self) -> None:
        count = self.changes.asked_partitions + 1
        if count > PARTITIONS_MAX:
            return
        self.changes.ask_partitions(count)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=count, assignments=None)],
            timeout_ms=3_000,
        )
        response = await self.ask(request, CreatePartitionsResponse)
        if response is None:
            return
        code = response.results[0].error_code
        if code == E.INVALID_PARTITIONS:
            return  # an earlier request without a response has had an effect
        if self._is_done("partitions added", code):
            self.changes.acknowledge_partitions(count)

    async def _delete(self) -> None:
        """Delete the records before one that a producer knows."""
        partition = TopicPartition(TOPIC, self.random.randrange(self.changes.partitions))
        known = [each for each in self.facts.acknowledged.get(partition, {}).values() if each >= 0]
        if known:
            await self._delete_before(partition, self.random.choice(known))

    async def _delete_before(self, partition: TopicPartition, offset: int) -> None:
        index = partition.partition
        asked, deleted = self.changes.asked_deleted, self.changes.deleted
        asked[index] = max(asked.get(index, 0), offset)
        wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[wanted])], timeout_ms=3_000
        )
        response = await self.ask(request, DeleteRecordsResponse, leader(partition))
        if response is None:
            return
        (answer,) = response.topics[0].partitions
        if answer.error_code:
            self.client.forget(leader(partition))
        if answer.error_code == E.OFFSET_OUT_OF_RANGE:
            return  # the leader does not know its high watermark yet
        if self._is_done("records deleted", answer.error_code) and self._are_all_live():
            deleted[index] = max(deleted.get(index, 0), offset)

    async def _move(self) -> None:
        """Move, add or remove replicas of a partition, or cancel this."""
        index = self.random.randrange(self.changes.partitions)
        replicas: list[int] | None = None
        if self.random.random() >= CANCEL_SHARE:
            count = self.random.randint(REPLICAS_MIN, len(self._node_ids))
            replicas = self.random.sample(self._node_ids, count)
        move = self.changes.moves.setdefault(index, Move())
        was_certain = move.is_certain
        move.begin()
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=3_000,
            topics=[
                ReassignableTopic(
                    name=TOPIC,
                    partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
                )
            ],
        )
        response = await self.ask(request, AlterPartitionReassignmentsResponse, ANY)
        if response is None:
            return
        code = response.error_code or response.responses[0].partitions[0].error_code
        if replicas is None and code in NOTHING_TO_CANCEL:
            if was_certain:
                move.end(move.replicas)
            return
        what = "moves cancelled" if replicas is None else "replicas moved"
        if self._is_done(what, code) and was_certain:
            move.end(replicas)

    # -- the end --------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Repeat the deletions that have no effect yet, or not on all replicas, until they have."""
        for index, asked in self.changes.asked_deleted.items():
            partition = TopicPartition(TOPIC, index)
            start = None
            while start is None:
                try:
                    start = await earliest(self.client, partition)
                except ClientError:
                    await self.pause()
            deleted = self.changes.deleted.get(index, 0)
            if not deleted <= start <= asked:
                self.facts.violations.append(
                    f"{partition} begins at {start}, after deletions to {deleted} (acknowledged)"
                    f" and {asked} (asked for)"
                )
            while self.changes.deleted.get(index, 0) < asked:
                await self._delete_before(partition, asked)
                await self.pause()

    def differences(self, image: MetadataImage) -> Iterator[str]:
        """Yield what is not in the metadata as it was acknowledged."""
        changes = self.changes
        topic = image.topics.by_name[TOPIC]
        if not changes.partitions <= len(topic.partitions) <= changes.asked_partitions:
            yield (
                f"{TOPIC} has {len(topic.partitions)} partitions; {changes.partitions} were"
                f" acknowledged, {changes.asked_partitions} asked for"
            )
        value = image.configs.of(ResourceType.TOPIC, TOPIC).get(TOPIC_SETTING)
        if not changes.value.has(value):
            yield f"{TOPIC_SETTING} of {TOPIC} is {value}, not {changes.value.acknowledged}"
        for index, move in changes.moves.items():
            replicas = list(topic.partitions[index].replicas)
            if move.is_certain and move.replicas not in (None, replicas):
                yield f"{TOPIC}-{index} has the replicas {replicas}, not {move.replicas}"

    def crashed(self, stored: Mapping[int, int]) -> None:
        """Note that a machine has crashed, which had stored these starts of logs, by partition."""
        deleted = self.changes.deleted
        for index, start in stored.items():
            if index in deleted:
                deleted[index] = min(deleted[index], start)

    def wrong_starts(self, starts: Mapping[TopicPartition, int]) -> Iterator[str]:
        """Yield the partitions whose log does not begin where records were deleted."""
        for partition, start in starts.items():
            deleted = self.changes.deleted.get(partition.partition, 0)
            if partition.topic == TOPIC and start != deleted:
                yield f"{partition} begins at {start}, after a deletion to {deleted}"
