"""What members of classic groups that consume topics say to their leader (`ConsumerProtocol`).

An int16 version, then the message in that version; versions above ours are read as ours, since
they only add fields at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

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
    if len(metadata) < _VERSION.size:
        raise MalformedSubscription("a subscription has no version")
    (version,) = _VERSION.unpack_from(metadata)
    if version < 0:
        raise MalformedSubscription(f"a subscription has version {version}")
    known = min(version, ConsumerProtocolSubscription.VERSION_MAX)
    try:
        message, _ = ConsumerProtocolSubscription.decode_prefix(metadata, known, _VERSION.size)
    except MalformedMessage as error:
        raise MalformedSubscription(str(error)) from error
    return message, version


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
