"""A member of a consumer group, which consumes and commits offsets while nodes fail."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.client.core.consumed_batch import Batch
from odradek.client.core.member_events import Assigned, Joined, MemberEvent
from odradek.client.errors import BrokerError, ClientError, CommitFailedError, RequestTimeoutError
from odradek.client.group_metadata import GroupMetadata
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import SimClient, group
from odradek.sim.facts import Commit, Facts, Reading
from odradek.sim.membership import CONSUMER, SimConsumer
from odradek.sim.simulation import Simulation
from odradek.sim.workload import Actor
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse

GROUP = "readers"
DELETED_FROM = "shelf"
"""The topic whose records an administrator deletes."""
REJOIN_SHARE = 0.05
"""The fraction of turns after which a member leaves or crashes, so that the group is rebalanced."""
LATE_COMMIT_SHARE = 0.5
"""The fraction of new generations in which a member commits in the earlier generation once more."""


class GroupMember(Actor):
    """Consumes its assigned partitions with read_committed, and commits offsets."""

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        topics: Sequence[str],
        kind: str,
    ) -> None:
        super().__init__(simulation, client, facts)
        self._topics = topics
        self._kind = kind
        self._consumer = self._new_consumer()
        self._identity = GroupMetadata(GROUP)
        self._earlier = self._identity
        """The identity before the newest rebalance."""
        self._positions: dict[TopicPartition, int] = {}
        self._session = facts.begin_session(self.name)

    def _new_consumer(self) -> SimConsumer:
        return SimConsumer(self.client, GROUP, self._topics, self._kind)

    async def run(self) -> None:
        """See `Actor`."""
        while not self.is_stopping:
            await self._work_on_events()
            self._consume()
            if self.random.random() < 0.5:
                await self._commit()
            if self.random.random() < REJOIN_SHARE:
                await self._rejoin()
            await self.pause(0.2)
        await self._consumer.leave()

    async def _rejoin(self) -> None:
        """Leave the group, or end like a process that is killed; and join it again."""
        if self.random.random() < 0.5:
            await self._consumer.leave()
        else:
            self._consumer.close()
        self._positions.clear()
        self._consumer = self._new_consumer()
        self._identity = GroupMetadata(GROUP)

    # -- membership -----------------------------------------------------------------------------

    async def _work_on_events(self) -> None:
        before = self._identity
        while (event := await self._consumer.poll()) is not None:
            await self._adopt(event)
            self._consumer.done()
            self._session = self.facts.begin_session(self.name)
        self._identity = self._consumer.identity_now
        if before != self._identity and before.generation_id >= 0:
            self._earlier = before
            await self._commit_late()

    async def _adopt(self, event: MemberEvent) -> None:
        assert not isinstance(event, Joined)
        if not isinstance(event, Assigned):
            for each in event.partitions:
                self._positions.pop(each, None)
            return
        self.facts.count("joined")
        start_ns = self.simulation.now_ns
        generation = self._consumer.identity.generation_id
        found = await self._committed(event)
        for each in event.partitions:
            self.facts.found_committed(GROUP, each, found.get(each, -1), start_ns)
        self._positions.update(await self._consumer.positions(event.partitions))
        if self._kind != CONSUMER and generation >= 0:
            self.facts.assigned(GROUP, generation, self.name, self._positions)

    async def _committed(self, event: Assigned) -> dict[TopicPartition, int]:
        while True:
            try:
                return await self._consumer.committed(event.partitions)
            except ClientError:
                self.facts.count("members that waited for positions")

    # -- consuming ------------------------------------------------------------------------------

    def _consume(self) -> None:
        """Read what is there."""
        try:
            while (batch := self._consumer.take()) is not None:
                self._read(batch)
        except ClientError as error:
            self.unexpected_error("a consumer", error)

    def _read(self, batch: Batch) -> None:
        partition = batch.topic_partition
        if batch.first_offset < self._positions[partition]:
            self.facts.violations.append(
                f"{self.name} read {partition} from {batch.first_offset}, after it had read to"
                f" {self._positions[partition]}"
            )
        if partition.topic == DELETED_FROM and batch.first_offset > self._positions[partition]:
            self._session = self.facts.begin_session(self.name)  # the records before were deleted
            self.facts.count("positions reset")
        for record in batch:
            value = (record.value or b"").decode()
            self.facts.consume(Reading(partition, record.offset, value), self._session.readings)
        self._positions[partition] = batch.next_offset

    async def _commit(self) -> None:
        """Commit the position of one partition."""
        if not self._positions:
            return
        partition = self.random.choice(list(self._positions))
        offset = self._consumer.position(partition)
        if offset is None:
            return  # it is being looked up, or validated with a new leader
        attempt = Commit(offset, self.simulation.now_ns)
        self.facts.commits.setdefault((GROUP, partition), []).append(attempt)
        try:
            await self._consumer.commit(partition)
        except (CommitFailedError, RequestTimeoutError) as error:
            self.facts.count(f"commits that failed: {type(error).__name__}")
        except BrokerError as error:
            if error.code != E.REBALANCE_IN_PROGRESS:
                self.unexpected("OffsetCommit", error.code)
        else:
            self.facts.acknowledge_commit(GROUP, partition, attempt, self.simulation.now_ns)
            self.facts.count("offsets committed")

    async def _commit_late(self) -> None:
        """Commit in the earlier generation, like a request that the network has delayed.

        The coordinator must refuse it. A member of the new protocol may commit with an earlier epoch
        what it had in this epoch.
        """
        earlier = self._earlier
        if (
            self._kind == CONSUMER
            or not self._positions
            or self.random.random() >= LATE_COMMIT_SHARE
        ):
            return
        partition = self.random.choice(list(self._positions))
        index = OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=0
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=earlier.generation_id,
            member_id=earlier.member_id,
            topics=[OffsetCommitRequestTopic(name=partition.topic, partitions=[index])],
        )
        response = await self.ask(request, OffsetCommitResponse, group(GROUP))
        self.facts.count("late commits")
        if response is not None and not response.topics[0].partitions[0].error_code:
            self.facts.violations.append(
                f"{self.name} committed in generation {earlier.generation_id}, after it had joined "
                f"{self._identity.generation_id}"
            )
