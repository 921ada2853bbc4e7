"""Share groups over a topic in memory. The share coordinator is a table of start offsets."""

from __future__ import annotations

import asyncio

from tests.group.support import Coordinator

from odradek.broker.coordinator import share_apis
from odradek.broker.coordinator.share_groups import ShareGroups
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.model.errors import ErrorCode
from odradek.wire.generated import alter_share_group_offsets_request as alter
from odradek.wire.generated import delete_share_group_offsets_request as delete
from odradek.wire.generated import describe_share_group_offsets_request as describe
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest

GROUP = "workers"
END = 100
"""The end offset of every partition."""


class Persister:
    """Keeps (state epoch, start offset) by share partition. `error` is the answer to everything."""

    def __init__(self):
        self.states = {}
        self.error = ErrorCode.NONE
        self.asked = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def initialize(self, request, /):
        def one(key, data):
            self.states[key] = data.state_epoch, data.start_offset

        return await self._answer(share_apis.INITIALIZE, request, one)

    async def delete(self, request, /):
        return await self._answer(
            share_apis.DELETE, request, lambda key, data: self.states.pop(key, None)
        )

    async def read_summary(self, request, /):
        def one(key, data):
            _, start_offset = self.states.get(key, (0, -1))
            count = -1 if start_offset == -1 else 1
            return {"start_offset": start_offset, "delivery_complete_count": count}

        return await self._answer(share_apis.READ_SUMMARY, request, one)

    async def _answer(self, api, request, one):
        self.asked.append((api.operation, request))
        await self.gate.wait()
        results = {}
        for topic in request.topics:
            for data in topic.partitions:
                key = SharePartitionKey(request.group_id, topic.topic_id, data.partition)
                fields = {} if self.error else one(key, data)
                results[key] = api.response_partition(
                    partition=data.partition,
                    error_code=self.error,
                    **(fields if isinstance(fields, dict) else {}),
                )
        return api.respond(request, results)


class Groups(Coordinator):
    """The group coordinator, and the operations of share groups."""

    def __init__(self, **settings):
        self.persister = Persister()
        super().__init__(**{"group_share_assignment_interval_ms": 0, **settings})
        self.epochs = {}
        self.held = {}
        """The last assignment of each member, by topic name."""

    def start(self):
        super().start()
        self.shares = ShareGroups(
            self.groups.shard_of, self.persister, self._ends, lambda: self.image, self.loop
        )
        self.groups.delete_states_with(self.shares.delete_states)

    async def _ends(self, partitions):
        return dict.fromkeys(partitions, END)

    def close(self):
        self.shares.close()
        super().close()

    # -- requests -----------------------------------------------------------------------------

    def beat(self, member_id, *topics, epoch=None, group_id=GROUP):
        """(epoch, assignment by topic name or None), or the error. The initialization ends."""
        sent = self.epochs.get(member_id, 0) if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=sent,
            subscribed_topic_names=list(topics) or None,
        )
        answer = self.get(self.shares.heartbeat(self.context(1), request))
        self.run(10)
        if isinstance(answer, ErrorCode):
            return answer
        self.epochs[member_id] = answer.member_epoch
        if answer.assignment is None:
            return answer.member_epoch, None
        names = self.image.topics.by_id
        self.held[member_id] = {
            names[each.topic_id].name: each.partitions
            for each in answer.assignment.topic_partitions
        }
        return answer.member_epoch, self.held[member_id]

    def settle(self, *member_ids):
        """Heartbeats until nothing changes; the assignments."""
        for _ in range(4):
            for each in member_ids:
                self.beat(each)
        return {each: self.held[each] for each in member_ids}

    def describe(self, group_id=GROUP):
        (group,) = self.get(self.shares.describe([group_id]))
        return group

    def alter(self, offsets, group_id=GROUP):
        """Error codes by (topic, partition), or the error."""
        topics = {}
        for (name, index), offset in offsets.items():
            topic = topics.setdefault(
                name, alter.AlterShareGroupOffsetsRequestTopic(topic_name=name)
            )
            topic.partitions.append(
                alter.AlterShareGroupOffsetsRequestPartition(
                    partition_index=index, start_offset=offset
                )
            )
        request = alter.AlterShareGroupOffsetsRequest(
            group_id=group_id, topics=list(topics.values())
        )
        answer = self.get(self.shares.alter_offsets(request))
        if isinstance(answer, ErrorCode):
            return answer
        return {
            (topic.topic_name, each.partition_index): each.error_code
            for topic in answer.responses
            for each in topic.partitions
        }

    def delete_offsets(self, *topics, group_id=GROUP):
        """Error codes by topic, or the error."""
        request = delete.DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[delete.DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics],
        )
        answer = self.get(self.shares.delete_offsets(request))
        if isinstance(answer, ErrorCode):
            return answer
        return {each.topic_name: each.error_code for each in answer.responses}

    def offsets(self, group_id=GROUP):
        """(start offset, lag) by (topic, partition)."""
        asked = describe.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
        answer = self.get(self.shares.describe_offsets(asked))
        return {
            (topic.topic_name, each.partition_index): (each.start_offset, each.lag)
            for topic in answer.topics
            for each in topic.partitions
        }

    def delete(self, *group_ids):
        """Error codes by group."""
        results = self.get(self.groups.delete_groups(group_ids))
        return {each.group_id: each.error_code for each in results}
