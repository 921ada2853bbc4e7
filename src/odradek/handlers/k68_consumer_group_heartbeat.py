"""ConsumerGroupHeartbeat (68), versions 0-1: a member joins, follows its target, leaves (KIP-848).

- Member epoch 0 joins, -1 leaves, -2 leaves for a while (static members).
- Members may subscribe by regular expression from version 1 on, which is also when they bring
  an id of their own.
- FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID: give up all partitions and join again.
- UNSUPPORTED_VERSION while the feature group.version is 0, or without `consumer` in
  group.coordinator.rebalance.protocols.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.coordinator.shard import Answer
from odradek.core.metadata.versions import GROUP_VERSION
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest


def check_enabled(broker: Broker) -> None:
    """Whether there are consumer groups in this cluster.

    Raises:
        ApiError: UNSUPPORTED_VERSION.
    """
    is_finalized = broker.metadata.image.features.level(GROUP_VERSION) > 0
    if not is_finalized or "consumer" not in broker.config.group_coordinator_rebalance_protocols:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def handle(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Answer:
    """The member's epoch, and its assignment if that has changed."""
    check_enabled(broker)
    return broker.groups.consumer_heartbeat(context, request)


HANDLER = Handler(request=ConsumerGroupHeartbeatRequest, versions=(0, 1), handle=handle)
