"""Lists, describes and deletes groups. The same classes describe classic, KIP-848 and Streams groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.core import group_protocol
from odradek.client.errors import (
    BrokerError,
    ClientError,
    MalformedResponseError,
    broker_error,
    check,
)
from odradek.client.fan_out import fan_out, to_coordinators
from odradek.model import api_keys
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated import consumer_group_describe_response as modern
from odradek.wire.generated import describe_groups_response as classic
from odradek.wire.generated import streams_group_describe_response as streams
from odradek.wire.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.generated.delete_groups_request import DeleteGroupsRequest
from odradek.wire.generated.delete_groups_response import DeleteGroupsResponse
from odradek.wire.generated.describe_groups_request import DescribeGroupsRequest
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.leave_group_response import LeaveGroupResponse
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.list_groups_response import ListGroupsResponse
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest

REMOVED_REASON = "member was removed by an admin"
"""What the coordinator logs, as with Kafka's client."""
REASON_LENGTH_MAX = 255
_NO_STREAMS_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list. `type` is empty if the broker does not report it."""

    id: str
    type: str
    state: str
    protocol_type: str
    coordinator: int


class Task(NamedTuple):
    """A task of Kafka Streams: a subtopology for one partition number."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a member of a Streams group."""

    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    warm_up: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A member with the partitions assigned to it. In Streams groups it has tasks instead."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    tasks: Tasks = Tasks()
    unread_assignment: bytes = b""
    """The bytes of an assignment that this client cannot read."""
    assignment_problem: str = ""
    """Why it cannot be read."""
    endpoint: str = ""
    """HOST:PORT where a process of Kafka Streams answers queries (`application.server`)."""
    process_id: str = ""
    """The process of a member of a Streams group."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group. `assignor` is empty while nothing is assigned; `epoch` is -1 for classic groups."""

    id: str
    type: str
    state: str
    assignor: str
    epoch: int
    members: tuple[Member, ...]


def list_groups(
    cluster: Cluster, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """List the groups of all brokers, sorted by id. `states` and `types` filter the list.

    Raises:
        ClientError: a broker does not respond.
    """
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: dict[str, GroupListing] = {}
    for node_id in cluster.refresh([]).nodes:
        response = cluster.ask_node(node_id, request, ListGroupsResponse, _check_list)
        for g in response.groups:
            found[g.group_id] = GroupListing(
                g.group_id, g.group_type, g.group_state, g.protocol_type, node_id
            )
    return sorted(found.values(), key=lambda g: g.id)


def _check_list(response: ListGroupsResponse) -> None:
    check(response.error_code, subject="list of groups")


def describe_groups(cluster: Cluster, ids: Iterable[str]) -> dict[str, Group | ClientError]:
    """Describe groups and their members. Share groups are described by `share_groups`.

    A group that ConsumerGroupDescribe (KIP-848) does not find is requested with DescribeGroups, and
    then with StreamsGroupDescribe (KIP-1071).

    Raises:
        ClientError: a coordinator does not respond.
    """
    order = list(ids)
    found: dict[str, Group | ClientError] = {}
    if api_keys.CONSUMER_GROUP_DESCRIBE in cluster.any().versions:
        found = fan_out(
            order,
            to_coordinators(cluster),
            lambda some: ConsumerGroupDescribeRequest(group_ids=some),
            modern.ConsumerGroupDescribeResponse,
            lambda response: {g.group_id: _modern_group(g) for g in response.groups},
            cluster.timeout_ms,
        )
    left = [each for each in order if each not in found or _is_not_found(found[each])]
    if left:
        found |= fan_out(
            left,
            to_coordinators(cluster),
            lambda some: DescribeGroupsRequest(groups=some),
            classic.DescribeGroupsResponse,
            lambda response: {g.group_id: _classic_group(g) for g in response.groups},
            cluster.timeout_ms,
        )
    left = [each for each in order if _is_not_found(found[each])]
    if left and api_keys.STREAMS_GROUP_DESCRIBE in cluster.any().versions:
        found |= {
            name: group
            for name, group in fan_out(
                left,
                to_coordinators(cluster),
                lambda some: StreamsGroupDescribeRequest(group_ids=some),
                streams.StreamsGroupDescribeResponse,
                lambda response: {g.group_id: _streams_group(g) for g in response.groups},
                cluster.timeout_ms,
            ).items()
            if not isinstance(group, BrokerError) or group.code not in _NO_STREAMS_GROUP
        }
    return {each: found[each] for each in order}


def _is_not_found(result: Group | ClientError) -> bool:
    return isinstance(result, BrokerError) and result.code == ErrorCode.GROUP_ID_NOT_FOUND


def _modern_group(group: modern.DescribedGroup) -> Group | ClientError:
    error = broker_error(group.error_code, group.error_message, f"group {group.group_id}")
    return error or Group(
        group.group_id,
        "consumer",
        group.group_state,
        group.assignor_name,
        group.group_epoch,
        tuple(_modern_member(m) for m in group.members),
    )


def _modern_member(member: modern.Member) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(
            TopicPartition(t.topic_name, index)
            for t in member.assignment.topic_partitions
            for index in t.partitions
        ),
    )


def _streams_group(group: streams.DescribedGroup) -> Group | ClientError:
    error = broker_error(group.error_code, group.error_message, f"group {group.group_id}")
    return error or Group(
        group.group_id,
        "streams",
        group.group_state,
        group.assignor_name or "",
        group.group_epoch,
        tuple(_streams_member(m) for m in group.members),
    )


def _streams_member(member: streams.Member) -> Member:
    held = member.assignment
    tasks = Tasks(_tasks(held.active_tasks), _tasks(held.standby_tasks), _tasks(held.warmup_tasks))
    at = member.user_endpoint
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        (),
        tasks,
        endpoint="" if at is None else f"{at.host}:{at.port}",
        process_id=member.process_id,
    )


def _tasks(ids: Iterable[streams.TaskIds]) -> tuple[Task, ...]:
    return tuple(
        sorted(Task(each.subtopology_id, index) for each in ids for index in each.partitions)
    )


def _classic_group(group: classic.DescribedGroup) -> Group | ClientError:
    subject = f"group {group.group_id}"
    error = broker_error(group.error_code, group.error_message, subject)
    if error is None and group.group_state == "Dead":
        error = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, subject=subject)
    return error or Group(
        group.group_id,
        "classic",
        group.group_state,
        group.protocol_data,
        -1,
        tuple(_classic_member(m, group.protocol_type) for m in group.members),
    )


def _classic_member(member: classic.DescribedGroupMember, protocol_type: str) -> Member:
    found = Member(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, ()
    )
    data = bytes(member.member_assignment)
    if protocol_type != group_protocol.PROTOCOL_TYPE:
        problem = f"it belongs to the protocol {protocol_type}" if data else ""
        return replace(found, unread_assignment=data, assignment_problem=problem)
    try:
        return replace(found, partitions=group_protocol.decode_assignment(data))
    except MalformedResponseError as error:
        return replace(found, unread_assignment=data, assignment_problem=str(error.__cause__))


def remove_members(
    cluster: Cluster, group: str, instance_ids: Iterable[str] | None = None, reason: str = ""
) -> dict[str, ClientError | None]:
    """Remove static members of a classic group by their instance ids, by default all members.

    The keys of the result are instance ids, and the member ids of members without one.

    Raises:
        ClientError: the coordinator does not respond, or returns an error for the whole group.
    """
    if instance_ids is None:
        described = describe_groups(cluster, [group])[group]
        if isinstance(described, ClientError):
            raise described
        members = [(each.id, each.instance_id) for each in described.members]
    else:
        members = [("", each) for each in instance_ids]
    why = f"{REMOVED_REASON}: {reason}" if reason else REMOVED_REASON
    request = LeaveGroupRequest(
        group_id=group,
        members=[
            MemberIdentity(
                member_id="" if instance_id else member_id,
                group_instance_id=instance_id,
                reason=why[:REASON_LENGTH_MAX],
            )
            for member_id, instance_id in members
        ],
    )
    response = cluster.ask_coordinator(
        group,
        request,
        LeaveGroupResponse,
        lambda answer: check(answer.error_code, subject=f"group {group}"),
    )
    return {
        each.group_instance_id or each.member_id: broker_error(
            each.error_code,
            subject=f"group {group}, member {each.group_instance_id or each.member_id}",
        )
        for each in response.members
    }


def delete_groups(cluster: Cluster, ids: Iterable[str]) -> dict[str, ClientError | None]:
    """Delete groups and their committed offsets. A group with members is not deleted.

    Raises:
        ClientError: a coordinator does not respond.
    """

    def read(response: DeleteGroupsResponse) -> dict[str, ClientError | None]:
        return {
            r.group_id: broker_error(r.error_code, r.error_message, f"group {r.group_id}")
            for r in response.results
        }

    return fan_out(
        ids,
        to_coordinators(cluster),
        lambda some: DeleteGroupsRequest(groups_names=some),
        DeleteGroupsResponse,
        read,
        cluster.timeout_ms,
    )
