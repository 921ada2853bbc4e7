"""What members of classic groups that consume topics say to their leader, and hear from it
(`ConsumerProtocol`).

An int16 version, then the message in that version; versions above ours are read as ours, since
they only add fields at the end.
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
    """Bytes that are not what a consumer says."""


def read_subscription(metadata: bytes) -> tuple[ConsumerProtocolSubscription, int]:
    """The subscription of a member, and the version that it is written in.

    Raises:
        MalformedSubscription: these are other bytes.
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
        raise MalformedSubscription("there is no version")
    (version,) = _VERSION.unpack_from(text)
    if version < 0:
        raise MalformedSubscription(f"{version} is no version")
    return int(version)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """What a leader has assigned to a member.

    Raises:
        MalformedSubscription: these are other bytes.
    """
    known = min(_read_version(assignment), ConsumerProtocolAssignment.VERSION_MAX)
    try:
        message, _ = ConsumerProtocolAssignment.decode_prefix(assignment, known, _VERSION.size)
    except MalformedMessage as error:
        raise MalformedSubscription(str(error)) from error
    return message


def write_assignment(partitions: Mapping[str, list[int]], like: bytes) -> bytes:
    """An assignment by topic, in the version of the member's subscription, `like`.

    Raises:
        MalformedSubscription: `like` is none.
    """
    version = min(_read_version(like), ConsumerProtocolAssignment.VERSION_MAX)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=those) for topic, those in partitions.items()
        ]
    )
    return _VERSION.pack(version) + message.encode(version)


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all subscriptions; None if one of them cannot be read.

    All versions begin with what version 0 holds: no more of them is looked at.
    """
    topics: set[str] = set()
    for each in metadata:
        try:
            message, _ = ConsumerProtocolSubscription.decode_prefix(each, 0, _VERSION.size)
        except MalformedMessage:
            return None
        topics.update(message.topics)
    return frozenset(topics)
