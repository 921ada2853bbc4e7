"""Sends the requests of a history of a share group to one broker, and records the responses.

Member ids and topic ids are the same for both brokers. So the assignments are the same too, and only
timestamps and messages are left out of the transcript.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Self

from compat.lab.wire_client import WireClient

from odradek.broker.coordinator import share_apis
from odradek.broker.coordinator.share_apis import ShareStateApi
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.wire.generated import (
    alter_share_group_offsets_request as alter,
)
from odradek.wire.generated import (
    delete_share_group_offsets_request as delete,
)
from odradek.wire.generated import (
    describe_share_group_offsets_request as describe,
)
from odradek.wire.generated.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
)
from odradek.wire.generated.delete_groups_request import DeleteGroupsRequest
from odradek.wire.generated.delete_groups_response import DeleteGroupsResponse
from odradek.wire.generated.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
)
from odradek.wire.generated.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
)
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.list_groups_response import ListGroupsResponse
from odradek.wire.generated.share_group_describe_request import ShareGroupDescribeRequest
from odradek.wire.generated.share_group_describe_response import ShareGroupDescribeResponse
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

Step = tuple[str, dict[str, Any]]
TOPICS = {"s1": 1, "s2": 2, "s3": 3, "s5": 5, "s12": 12, "s40": 40}
MISSING = "no-such-topic"
PATIENCE_SECONDS = 20.0
POLL_SECONDS = 0.02


class Player:
    """One share group on one broker."""

    def __init__(self, port: int, group_id: str, topic_ids: dict[str, bytes]) -> None:
        self._client = WireClient(port)
        self.group_id = group_id
        self._topic_ids = topic_ids
        self._topic_names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._epochs: dict[str, int] = {}
        self._subscriptions: dict[str, list[str]] = {}
        self.transcript: list[str] = []

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def play(self, steps: Iterable[Step]) -> list[str]:
        """Send the requests of a history. Return a transcript with a line for each response."""
        with self:
            for verb, options in steps:
                answer = getattr(self, f"do_{verb}")(**options)
                self.transcript.append(f"{verb} {options}: {answer}")
        return self.transcript

    def know(self, epochs: dict[str, int]) -> None:
        """Use these epochs of members, who joined with another player."""
        self._epochs.update(epochs)

    # -- members --------------------------------------------------------------------------------

    def do_beat(
        self,
        member: str,
        topics: list[str] | None = None,
        epoch: int | None = None,
        rack: str | None = None,
    ) -> Any:
        """A heartbeat with the member's epoch, or another one. Then wait for the initialization."""
        sent = self._epochs.get(member, 0) if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member,
            member_epoch=sent,
            rack_id=rack,
            subscribed_topic_names=topics,
        )
        answer = self._client.call("ShareGroupHeartbeat", 1, request, ShareGroupHeartbeatResponse)
        if answer.error_code:
            return answer.error_code
        if sent == -1:
            self._epochs.pop(member, None)
            self._subscriptions.pop(member, None)
        else:
            self._epochs[member] = answer.member_epoch
            if topics is not None:
                self._subscriptions[member] = topics
            self._await_initialization()
        return (
            answer.member_id,
            answer.member_epoch,
            answer.heartbeat_interval_ms,
            (None if answer.assignment is None else self._assigned(answer.assignment)),
        )

    def _assigned(self, assignment: Any) -> list[tuple[str, list[int]]]:
        return sorted(
            (self._topic_names[each.topic_id], sorted(each.partitions))
            for each in assignment.topic_partitions
        )

    def _await_initialization(self) -> None:
        """Wait until all partitions of the subscribed topics have share state."""
        names = {name for names in self._subscriptions.values() for name in names} & set(TOPICS)
        wanted = {(name, index) for name in names for index in range(TOPICS[name])}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not wanted <= self.initialized():
            assert time.monotonic() < deadline, f"{self.group_id}: {wanted - self.initialized()}"
            time.sleep(POLL_SECONDS)

    def initialized(self) -> set[tuple[str, int]]:
        """Return the topic and the index of each partition that has share state."""
        answer = self._describe_offsets(None)
        return {
            (topic.topic_name, each.partition_index)
            for topic in answer.topics
            for each in topic.partitions
        }

    # -- administration -------------------------------------------------------------------------

    def do_describe(self) -> Any:
        request = ShareGroupDescribeRequest(group_ids=[self.group_id, "no-such-group"])
        answer = self._client.call("ShareGroupDescribe", 1, request, ShareGroupDescribeResponse)
        return [
            (
                each.error_code,
                each.group_state,
                each.group_epoch,
                each.assignment_epoch,
                each.assignor_name,
                sorted(
                    (
                        m.member_id,
                        m.rack_id,
                        m.member_epoch,
                        m.client_id,
                        m.client_host,
                        sorted(m.subscribed_topic_names),
                        self._assigned(m.assignment),
                    )
                    for m in each.members
                ),
            )
            for each in sorted(answer.groups, key=lambda group: group.group_id)
        ]

    def do_list(self, states: list[str], types: list[str]) -> Any:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        answer = self._client.call("ListGroups", 5, request, ListGroupsResponse)
        return answer.error_code, [
            (each.protocol_type, each.group_state, each.group_type)
            for each in answer.groups
            if each.group_id == self.group_id
        ]

    def _describe_offsets(self, topics: list[tuple[str, list[int]]] | None) -> Any:
        asked = None
        if topics is not None:
            asked = [
                describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
                for name, indexes in topics
            ]
        request = describe.DescribeShareGroupOffsetsRequest(
            groups=[
                describe.DescribeShareGroupOffsetsRequestGroup(group_id=self.group_id, topics=asked)
            ]
        )
        answer = self._client.call(
            "DescribeShareGroupOffsets", 1, request, DescribeShareGroupOffsetsResponse
        )
        return answer.groups[0]

    def do_offsets(self, topics: list[tuple[str, list[int]]] | None) -> Any:
        group = self._describe_offsets(topics)
        return group.error_code, sorted(
            (
                topic.topic_name,
                sorted(
                    (each.partition_index, each.start_offset, each.leader_epoch, each.lag,
                     each.error_code)
                    for each in topic.partitions
                ),
            )
            for topic in group.topics
        )  # fmt: skip

    def do_alter(self, topics: list[tuple[str, list[tuple[int, int]]]]) -> Any:
        request = alter.AlterShareGroupOffsetsRequest(
            group_id=self.group_id,
            topics=[
                alter.AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=[
                        alter.AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=offset
                        )
                        for index, offset in partitions
                    ],
                )
                for name, partitions in topics
            ],
        )
        answer = self._client.call(
            "AlterShareGroupOffsets", 0, request, AlterShareGroupOffsetsResponse
        )
        self._await_alteration(topics, answer)
        return answer.error_code, sorted(
            (
                topic.topic_name,
                topic.topic_id.hex(),
                sorted((each.partition_index, each.error_code) for each in topic.partitions),
            )
            for topic in answer.responses
        )

    def _await_alteration(self, topics: Any, answer: Any) -> None:
        """Apache Kafka records the result after the response."""
        if answer.error_code:
            return
        wanted = {
            (topic.topic_name, each.partition_index)
            for topic in answer.responses
            for each in topic.partitions
            if not each.error_code
        }
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not wanted <= self.initialized():
            assert time.monotonic() < deadline, f"{self.group_id}: {wanted}"
            time.sleep(POLL_SECONDS)

    def do_delete_offsets(self, topics: list[str]) -> Any:
        request = delete.DeleteShareGroupOffsetsRequest(
            group_id=self.group_id,
            topics=[delete.DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics],
        )
        answer = self._client.call(
            "DeleteShareGroupOffsets", 0, request, DeleteShareGroupOffsetsResponse
        )
        return answer.error_code, sorted(
            (each.topic_name, each.topic_id.hex(), each.error_code) for each in answer.responses
        )

    def do_delete(self) -> Any:
        request = DeleteGroupsRequest(groups_names=[self.group_id])
        answer = self._client.call("DeleteGroups", 2, request, DeleteGroupsResponse)
        return [each.error_code for each in answer.results]

    # -- the share coordinator ------------------------------------------------------------------

    def _ask(self, api: ShareStateApi, name: str, version: int, places: Any) -> Any:
        """Results of share partitions; `places` are (topic, partition, fields)."""
        module = REQUESTS[name]
        partitions = {
            SharePartitionKey(self.group_id, self._topic_ids.get(topic, bytes(15) + b"x"), index): (
                module.PartitionData(partition=index, **fields)
            )
            for topic, index, fields in places
        }
        request = api.ask(self.group_id, partitions)
        return api.results(self.group_id, self._client.call(name, version, request, api.response))

    def do_state(self, name: str, places: list[tuple[str, int, dict[str, Any]]]) -> Any:
        api, version = APIS[name]
        if name == "WriteShareGroupState":
            module = share_apis.write_share_group_state_request
            places = [
                (
                    topic,
                    index,
                    {
                        **fields,
                        "state_batches": [
                            module.StateBatch(
                                first_offset=a, last_offset=b, delivery_state=c, delivery_count=d
                            )
                            for a, b, c, d in fields["state_batches"]
                        ],
                    },
                )
                for topic, index, fields in places
            ]
        found = self._ask(api, name, version, places)
        return sorted(
            (
                self._topic_names.get(key.topic_id, "?"),
                key.partition,
                [
                    self._shown(getattr(result, field))
                    for field in type(result).__slots__
                    if field not in ("partition", "error_message")
                ],
            )
            for key, result in found.items()
        )

    def _shown(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [
            (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in value
        ]


REQUESTS = {
    "InitializeShareGroupState": share_apis.initialize_share_group_state_request,
    "ReadShareGroupState": share_apis.read_share_group_state_request,
    "WriteShareGroupState": share_apis.write_share_group_state_request,
    "DeleteShareGroupState": share_apis.delete_share_group_state_request,
    "ReadShareGroupStateSummary": share_apis.read_share_group_state_summary_request,
}
APIS = {
    "InitializeShareGroupState": (share_apis.INITIALIZE, 0),
    "ReadShareGroupState": (share_apis.READ, 0),
    "WriteShareGroupState": (share_apis.WRITE, 1),
    "DeleteShareGroupState": (share_apis.DELETE, 0),
    "ReadShareGroupStateSummary": (share_apis.READ_SUMMARY, 1),
}
