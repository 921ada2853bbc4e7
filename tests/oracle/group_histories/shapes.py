"""Converts responses to a comparable form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.core.group.consumer_protocol import (
    MalformedSubscription,
    read_assignment,
    read_subscription,
)
from odradek.model.errors import ErrorCode

if TYPE_CHECKING:
    from tests.oracle.group_histories.player import Player

MEMBER_ID_REQUIRED = int(ErrorCode.MEMBER_ID_REQUIRED)


def _partitions(player: Player, topics: Any) -> list[tuple[str, list[int]]]:
    return sorted((player.topic_names[each.topic_id], sorted(each.partitions)) for each in topics)


def heartbeat(player: Player, answer: Any) -> Any:
    if answer.error_code:
        return ErrorCode(answer.error_code).name
    assignment = None
    if answer.assignment is not None:
        assignment = _partitions(player, answer.assignment.topic_partitions)
    who = player.name_of(answer.member_id or "")
    return who, answer.member_epoch, answer.heartbeat_interval_ms, assignment


def joined(player: Player, answer: Any) -> Any:
    """Convert a JoinGroup response without the leader's name.

    Apache Kafka selects the next leader in the order of a hash table of generated ids. The leader's
    response must have the subscriptions of all members.
    """
    error = ErrorCode(answer.error_code).name
    who = player.name_of(answer.member_id)
    if answer.error_code:
        return error, who
    if answer.leader == answer.member_id:
        assert answer.members or answer.skip_assignment, answer
        assert all(_subscribed(each.metadata) for each in answer.members), answer
    else:
        assert not answer.members, answer
    return who, answer.generation_id, answer.protocol_name, answer.skip_assignment


def synced(answer: Any) -> Any:
    if answer.error_code:
        return ErrorCode(answer.error_code).name
    return answer.protocol_type, answer.protocol_name, sorted(assigned(answer.assignment))


def assigned(assignment: bytes) -> set[tuple[str, int]]:
    if not assignment:
        return set()
    message = read_assignment(assignment)
    return {(each.topic, p) for each in message.assigned_partitions for p in each.partitions}


def _subscribed(metadata: bytes) -> Any:
    try:
        subscription, version = read_subscription(metadata)
    except MalformedSubscription:
        return metadata
    return sorted(subscription.topics), version


def offsets(player: Player, answer: Any) -> Any:
    (group,) = answer.groups
    found = [
        (
            each.name or player.topic_names.get(each.topic_id, "?"),
            [
                (p.partition_index, p.committed_offset, p.metadata, p.error_code)
                for p in each.partitions
            ],
        )
        for each in group.topics
    ]
    return ErrorCode(group.error_code).name, sorted(found)


def described(player: Player, group: Any) -> Any:
    if group.error_code:
        return ErrorCode(group.error_code).name, group.group_state
    if hasattr(group, "group_epoch"):
        members = sorted(
            (
                player.name_of(each.member_id),
                each.instance_id,
                each.rack_id,
                each.member_epoch,
                sorted(each.subscribed_topic_names),
                each.subscribed_topic_regex,
                _partitions(player, each.assignment.topic_partitions),
                _partitions(player, each.target_assignment.topic_partitions),
                each.member_type,
            )
            for each in group.members
        )
        epochs = group.group_epoch, group.assignment_epoch
        return group.group_state, *epochs, group.assignor_name, members
    members = sorted(
        (
            player.name_of(each.member_id),
            each.group_instance_id,
            each.client_id,
            each.client_host,
            bool(each.member_metadata),
            sorted(assigned(each.member_assignment)),
        )
        for each in group.members
    )
    return group.group_state, group.protocol_type, group.protocol_data, members
