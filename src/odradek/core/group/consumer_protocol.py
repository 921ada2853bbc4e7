"""Subscriptions and assignments of consumers in classic groups (`ConsumerProtocol`).

The format is an int16 version, followed by the message in this version. New versions only add
fields at the end. So a message in an unknown, newer version is decoded in the newest known version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

from odradek.wire.generated.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from odradek.wire.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.primitives import MalformedMessage

_VERSION = Struct(">h")


class MalformedSubscription(ValueError):
    """The bytes are not a valid subscription or assignment."""


def read_subscription(metadata: bytes) -> tuple[ConsumerProtocolSubscription, int]:
    """Return the subscription of a member, and its version.

    Raises:
        MalformedSubscription: the bytes are invalid.
    """
    version = _read_version(metadata)
    known = min(version, ConsumerProtocolSubscription.VERSION_MAX)
    try:
        message, _ = ConsumerProtocolSubscription.decode_prefix(metadata, known, _VERSION.size)
    except MalformedMessage as error:
        raise MalformedSubscription(str(error)) from error
    return message, version


def _read_version(text: bytes) -> int:
    if len(text) < _VERSION.size:
        raise MalformedSubscription("the version is missing")
    (version,) = _VERSION.unpack_from(text)
    if version < 0:
        raise MalformedSubscription(f"{version} is not a version")
    return int(version)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Return the assignment of a member.

    Raises:
        MalformedSubscription: the bytes are invalid.
    """
    known = min(_read_version(assignment), ConsumerProtocolAssignment.VERSION_MAX)
    try:
        message, _ = ConsumerProtocolAssignment.decode_prefix(assignment, known, _VERSION.size)
    except MalformedMessage as error:
        raise MalformedSubscription(str(error)) from error
    return message


def write_assignment(partitions: Mapping[str, list[int]], like: bytes) -> bytes:
    """Encode an assignment in the version of the member's subscription, which is `like`.

    Raises:
        MalformedSubscription: `like` is invalid.
    """
    version = min(_read_version(like), ConsumerProtocolAssignment.VERSION_MAX)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=those) for topic, those in partitions.items()
        ]
    )
    return _VERSION.pack(version) + message.encode(version)


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all subscriptions; None if a subscription is invalid.

    Only the fields of version 0 are read, because all versions begin with them.
    """
    topics: set[str] = set()
    for each in metadata:
        try:
            message, _ = ConsumerProtocolSubscription.decode_prefix(each, 0, _VERSION.size)
        except MalformedMessage:
            return None
        topics.update(message.topics)
    return frozenset(topics)
