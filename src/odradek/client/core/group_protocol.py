"""Encodes and decodes the opaque fields of JoinGroup and SyncGroup of classic consumer groups.

Each field is an int16 version and a message in that version (`ConsumerProtocol`). A message in a
newer version is decoded as the newest version known here, because later versions only add fields
at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from odradek.client.core.assignors.group import Member, as_java
from odradek.client.errors import MalformedResponseError
from odradek.model.topic_partition import TopicPartition, by_topic
from odradek.wire.generated import consumer_protocol_assignment as assignment_message
from odradek.wire.generated import consumer_protocol_subscription as subscription_message
from odradek.wire.primitives import Buffer, MalformedMessage

PROTOCOL_TYPE = "consumer"

_VERSION = struct.Struct(">h")

Assignment = assignment_message.ConsumerProtocolAssignment
Subscription = subscription_message.ConsumerProtocolSubscription


def encode_subscription(
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    generation_id: int,
    *,
    user_data: bytes | None = None,
    rack: str | None = None,
) -> bytes:
    """Encode a member's subscription: its topics, the partitions that it owns, and its rack.

    `user_data` is what the assignor wants to know.
    """
    message = Subscription(
        topics=sorted(topics, key=as_java),
        user_data=user_data,
        owned_partitions=[
            subscription_message.TopicPartition(topic=t, partitions=p)
            for t, p in by_topic(sorted(owned)).items()
        ],
        generation_id=generation_id,
        rack_id=rack or None,
    )
    return _VERSION.pack(Subscription.VERSION_MAX) + message.encode(Subscription.VERSION_MAX)


def decode_subscription(data: Buffer, instance_id: str | None = None) -> Member:
    """Decode the subscription of a member, as the leader gets it.

    Raises:
        MalformedResponseError: the bytes are not a subscription.
    """
    try:
        version = min(_version(data), Subscription.VERSION_MAX)
        message, _ = Subscription.decode_prefix(data, version, 2)
    except MalformedMessage as error:
        raise MalformedResponseError(f"a member's subscription cannot be read: {error}") from error
    return Member(
        message.topics,
        instance_id,
        message.rack_id or "",
        tuple(
            TopicPartition(each.topic, index)
            for each in message.owned_partitions
            for index in each.partitions
        ),
        message.generation_id,
        message.user_data,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode the partitions assigned to a member."""
    message = Assignment(
        assigned_partitions=[
            assignment_message.TopicPartition(topic=t, partitions=p)
            for t, p in by_topic(sorted(partitions)).items()
        ]
    )
    return _VERSION.pack(Assignment.VERSION_MAX) + message.encode(Assignment.VERSION_MAX)


def decode_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """The inverse of `encode_assignment`. Empty bytes mean no partitions.

    Raises:
        MalformedResponseError: the bytes are not an assignment.
    """
    if not data:
        return ()
    try:
        version = min(_version(data), Assignment.VERSION_MAX)
        message, _ = Assignment.decode_prefix(data, version, 2)
    except MalformedMessage as error:
        raise MalformedResponseError(f"a member's assignment cannot be read: {error}") from error
    return tuple(
        TopicPartition(each.topic, index)
        for each in message.assigned_partitions
        for index in each.partitions
    )


def _version(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage("the version is missing")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedMessage(f"{version} is not a version")
    return int(version)
