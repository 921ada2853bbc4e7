"""Names the current leader in the errors of Produce and Fetch (KIP-951).

A client that gets NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH can send its next request to this
leader. It need not wait for new metadata.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.broker.broker import Broker
from odradek.broker.metadata.listener_view import Address, ListenerView
from odradek.core.metadata.registrations import NO_LEADER
from odradek.network.peer import Peer

UNKNOWN_EPOCH = -1


class LeaderHint(NamedTuple):
    """The leader of a partition, as far as this broker's metadata contain it."""

    leader_id: int
    """-1 if the partition has no leader or is unknown."""
    leader_epoch: int
    address: Address | None
    """The leader's address for the client. None if the leader is fenced or lacks the listener."""
    rack: str | None


def leader_hint(broker: Broker, peer: Peer, topic: str | bytes, index: int) -> LeaderHint:
    """Return the leader of a partition; `topic` is the topic's name or id."""
    image = broker.metadata.image
    topics = image.topics
    found = topics.by_name.get(topic) if isinstance(topic, str) else topics.by_id.get(topic)
    registration = None if found is None else found.partitions.get(index)
    if registration is None:
        return LeaderHint(NO_LEADER, UNKNOWN_EPOCH, None, None)
    leader = image.cluster.brokers.get(registration.leader)
    address = None
    if leader is not None and not leader.fenced:
        address = ListenerView(image, broker.config, peer).address(leader.id)
    return LeaderHint(
        registration.leader,
        registration.leader_epoch,
        address,
        None if leader is None else leader.rack,
    )
