"""Sends the requests of a history of a Streams group to one broker, and records the responses.

Member ids and topic ids are the same for both brokers. So the tasks are the same too, and only
timestamps, messages and throttle times are left out of the transcript.

After a change of topics, the player waits until the group coordinator knows the change: it asks with
a group of its own (a probe), whose partition of `__consumer_offsets` is the same, because there is
only one partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from compat.lab.wire_client import WireClient

from odradek.core.group.streams.status import MISSING_INTERNAL_TOPICS, MISSING_SOURCE_TOPICS
from odradek.wire.generated import streams_group_heartbeat_request as wire
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.generated.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.delete_groups_request import DeleteGroupsRequest
from odradek.wire.generated.delete_groups_response import DeleteGroupsResponse
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest
from odradek.wire.generated.delete_topics_response import DeleteTopicsResponse
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.join_group_response import JoinGroupResponse
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.list_groups_response import ListGroupsResponse
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from odradek.wire.generated.offset_fetch_response import OffsetFetchResponse
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.generated.streams_group_describe_response import StreamsGroupDescribeResponse
from odradek.wire.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from odradek.wire.generated.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

Step = tuple[str, dict[str, Any]]
Plan = dict[str, Any]
TOPICS = {"s1": 1, "s2": 2, "s3": 3, "t3": 3, "s5": 5}
"""The source topics of all histories."""
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.02
GROUP_RESOURCE = 32


class Player:
    """One Streams group on one broker."""

    def __init__(self, port: int, group_id: str) -> None:
        self._client = WireClient(port)
        self.group_id = group_id
        self._epochs: dict[str, int] = {}
        self._held: dict[str, tuple[Any, Any]] = {}
        self._probes = 0
        self.transcript: list[str] = []

    def play(self, steps: Iterable[Step]) -> list[str]:
        """Send the requests of a history. Return a transcript with a line for each response."""
        with self._client:
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
        plan: Plan | None = None,
        epoch: int | None = None,
        owned: str = "held",
        endpoint: tuple[str, int] | None = None,
        endpoint_epoch: int = 0,
        **fields: Any,
    ) -> Any:
        """A heartbeat with the member's epoch, or another one.

        `owned`: the member reports the tasks that it holds, no tasks (`none`), or all tasks of the
        first subtopology (`all`), or it leaves them out (`unknown`).
        """
        sent = self._epochs.get(member, 0) if epoch is None else epoch
        active, standby = self._held.get(member, ([], []))
        if owned == "none" or sent == 0:
            active, standby = [], []
        elif owned == "all":
            active = [("0", list(range(3)))]
        tags = fields.pop("tags", None)
        offsets = fields.pop("offsets", None)
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member,
            member_epoch=sent,
            topology=None if plan is None else self._topology(plan),
            active_tasks=None if owned == "unknown" else _ids(active),
            standby_tasks=None if owned == "unknown" else _ids(standby),
            warmup_tasks=None if owned == "unknown" else [],
            user_endpoint=(
                None if endpoint is None else wire.Endpoint(host=endpoint[0], port=endpoint[1])
            ),
            endpoint_information_epoch=endpoint_epoch,
            client_tags=(
                None if tags is None else [wire.KeyValue(key=k, value=v) for k, v in tags.items()]
            ),
            task_offsets=(
                None
                if offsets is None
                else [
                    wire.TaskOffset(subtopology_id=each, partition=index, offset=offset)
                    for each, index, offset in offsets
                ]
            ),
            **fields,
        )
        answer = self._beat(request)
        if answer.error_code:
            return answer.error_code
        if sent < 0:
            self._epochs.pop(member, None)
            self._held.pop(member, None)  # a static member that returns has no tasks yet
        else:
            self._epochs[member] = answer.member_epoch
            if answer.active_tasks is not None:
                self._held[member] = _tasks(answer.active_tasks), _tasks(answer.standby_tasks)
        shown = self._shown(answer)
        self._await_internal_topics(answer)
        return shown

    def _beat(self, request: StreamsGroupHeartbeatRequest) -> Any:
        return self._client.call("StreamsGroupHeartbeat", 1, request, StreamsGroupHeartbeatResponse)

    def _shown(self, answer: Any) -> Any:
        return (
            answer.member_id,
            answer.member_epoch,
            answer.heartbeat_interval_ms,
            answer.acceptable_recovery_lag,
            answer.topology_description_required,
            answer.task_offset_interval_ms,
            [(each.status_code, self._plain(each.status_detail)) for each in answer.status or []],
            answer.status is None,
            None
            if answer.active_tasks is None
            else [
                _tasks(tasks)
                for tasks in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            ],
            answer.endpoint_information_epoch,
            None
            if answer.partitions_by_user_endpoint is None
            else sorted(
                (
                    each.user_endpoint.host,
                    each.user_endpoint.port,
                    sorted((p.topic, sorted(p.partitions)) for p in each.active_partitions),
                    sorted((p.topic, sorted(p.partitions)) for p in each.standby_partitions),
                )
                for each in answer.partitions_by_user_endpoint
            ),
        )

    def _plain(self, detail: str) -> str:
        return detail.split("; Creation failed")[0]

    def _topology(self, plan: Plan) -> wire.Topology:
        """The topology of a plan. Names of topics that begin with `-` are the group's own topics."""

        def named(names: Iterable[str]) -> list[str]:
            return [self._name(each) for each in names]

        def infos(topics: dict[str, int]) -> list[wire.TopicInfo]:
            return [
                wire.TopicInfo(
                    name=self._name(each),
                    partitions=count,
                    topic_configs=[wire.KeyValue(key="cleanup.policy", value="delete")],
                )
                for each, count in topics.items()
            ]

        return wire.Topology(
            epoch=plan.get("epoch", 0),
            subtopologies=[
                wire.Subtopology(
                    subtopology_id=each["id"],
                    source_topics=named(each.get("sources", ())),
                    repartition_source_topics=infos(each.get("repartition", {})),
                    repartition_sink_topics=named(each.get("sinks", ())),
                    state_changelog_topics=infos(dict.fromkeys(each.get("changelogs", ()), 0)),
                    copartition_groups=[
                        wire.CopartitionGroup(
                            source_topics=list(a), repartition_source_topics=list(b)
                        )
                        for a, b in each.get("together", ())
                    ],
                )
                for each in plan["subtopologies"]
            ],
        )

    def _name(self, topic: str) -> str:
        return self.group_id + topic if topic.startswith("-") else topic

    def _await_internal_topics(self, answer: Any) -> None:
        """If internal topics are missing, wait until they are created."""
        if any(each.status_code == MISSING_INTERNAL_TOPICS for each in answer.status or []):
            details = " ".join(each.status_detail for each in answer.status)
            names = [word.strip(",") for word in details.split() if word.startswith(self.group_id)]
            for each in names:
                self._await_topic(each, exists=True)

    # -- topics ---------------------------------------------------------------------------------

    def do_create(self, topic: str, partitions: int) -> Any:
        """Create a topic of the group."""
        name = self._name(topic)
        made = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[made], timeout_ms=30_000)
        answer = self._client.call("CreateTopics", 7, request, CreateTopicsResponse)
        self._await_topic(name, exists=True)
        return answer.topics[0].error_code

    def do_drop(self, topic: str) -> Any:
        """Delete a topic of the group."""
        name = self._name(topic)
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        answer = self._client.call("DeleteTopics", 5, request, DeleteTopicsResponse)
        self._await_topic(name, exists=False)
        return answer.responses[0].error_code

    def do_standby(self, replicas: int) -> Any:
        """Set the number of standby replicas. The coordinator knows it when it knows a new topic."""
        config = AlterableConfig(
            name="streams.num.standby.replicas", config_operation=0, value=str(replicas)
        )
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.group_id, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = self._client.call(
            "IncrementalAlterConfigs", 1, request, IncrementalAlterConfigsResponse
        )
        self._probes += 1
        self.do_create(f"-mark-{self._probes}", 1)
        return answer.responses[0].error_code

    def _await_topic(self, name: str, *, exists: bool) -> None:
        """Wait until the group coordinator knows whether the topic exists."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        topology = wire.Topology(
            subtopologies=[wire.Subtopology(subtopology_id="0", source_topics=[name])]
        )
        while True:
            self._probes += 1
            request = StreamsGroupHeartbeatRequest(
                group_id=f"probe-{self.group_id}-{self._probes}",
                member_id="probe",
                rebalance_timeout_ms=1000,
                process_id="probe",
                topology=topology,
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
            )
            answer = self._beat(request)
            assert not answer.error_code, answer
            missing = any(each.status_code == MISSING_SOURCE_TOPICS for each in answer.status)
            if missing is not exists:
                return
            assert time.monotonic() < deadline, f"{name}: {answer}"
            time.sleep(POLL_SECONDS)

    # -- administration and other protocols -------------------------------------------------------

    def do_describe(self) -> Any:
        request = StreamsGroupDescribeRequest(
            group_ids=[self.group_id, "no-such-group"], include_topology_description=True
        )
        answer = self._client.call("StreamsGroupDescribe", 1, request, StreamsGroupDescribeResponse)
        return [
            (
                each.error_code,
                each.group_state,
                each.group_epoch,
                each.assignment_epoch,
                each.assignor_name,
                each.topology_description_status,
                None
                if each.topology is None
                else (each.topology.epoch, repr(each.topology.subtopologies)),
                sorted(
                    (
                        m.member_id,
                        m.member_epoch,
                        repr((m.instance_id, m.rack_id, m.client_id, m.client_host)),
                        m.topology_epoch,
                        m.process_id,
                        repr(m.user_endpoint),
                        sorted((tag.key, tag.value) for tag in m.client_tags),
                        _assignment(m.assignment),
                        _assignment(m.target_assignment),
                        m.is_classic,
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

    def do_delete(self) -> Any:
        request = DeleteGroupsRequest(groups_names=[self.group_id])
        answer = self._client.call("DeleteGroups", 2, request, DeleteGroupsResponse)
        return [each.error_code for each in answer.results]

    def do_commit(self, member: str, topic: str, partition: int, ahead: int, version: int) -> Any:
        """Commit an offset with the member's epoch plus `ahead`."""
        epoch = self._epochs.get(member, -1)
        request = OffsetCommitRequest(
            group_id=self.group_id,
            member_id=member if member in self._epochs else "",
            generation_id_or_member_epoch=epoch + ahead if epoch >= 0 else epoch,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=partition
                        )
                    ],
                )
            ],
        )
        answer = self._client.call("OffsetCommit", version, request, OffsetCommitResponse)
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    def do_fetch(self, member: str | None, ahead: int) -> Any:
        """Fetch all committed offsets with the member's epoch plus `ahead`."""
        epoch = -1 if member is None else self._epochs.get(member, 0) + ahead
        group = OffsetFetchRequestGroup(
            group_id=self.group_id, member_id=member, member_epoch=epoch, topics=None
        )
        request = OffsetFetchRequest(groups=[group])
        answer = self._client.call("OffsetFetch", 9, request, OffsetFetchResponse)
        return answer.groups[0].error_code, sorted(
            (topic.name, each.partition_index, each.committed_offset)
            for topic in answer.groups[0].topics
            for each in topic.partitions
        )

    def do_consume(self, member: str) -> Any:
        """A consumer tries to join."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["s1"],
            topic_partitions=[],
        )
        answer = self._client.call(
            "ConsumerGroupHeartbeat", 1, request, ConsumerGroupHeartbeatResponse
        )
        return answer.error_code

    def do_join(self, member: str) -> Any:
        """A member of a classic group tries to join."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            member_id=member,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=1000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        answer = self._client.call("JoinGroup", 9, request, JoinGroupResponse)
        return answer.error_code


def _ids(tasks: Iterable[tuple[str, list[int]]]) -> list[wire.TaskIds]:
    return [wire.TaskIds(subtopology_id=each, partitions=found) for each, found in tasks]


def _tasks(tasks: Iterable[Any]) -> list[tuple[str, list[int]]]:
    return sorted((each.subtopology_id, sorted(each.partitions)) for each in tasks)


def _assignment(assignment: Any) -> list[list[tuple[str, list[int]]]]:
    return [
        _tasks(each)
        for each in (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    ]
