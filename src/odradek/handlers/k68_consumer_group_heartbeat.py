"""ConsumerGroupHeartbeat (68), versions 0-1: a member joins, gets its assignment, leaves (KIP-848).

- With member epoch 0 a member joins the group, and with -1 a member leaves the group. With -2 a
  static member leaves the group temporarily.
- From version 1 on members can subscribe by a regular expression, and must choose their own member
  id.
- After the errors FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID a member must give up all partitions
  and join again.
- The error is UNSUPPORTED_VERSION if the level of the feature group.version is 0, or if
  group.coordinator.rebalance.protocols does not contain `consumer`.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.shard import Answer
from odradek.core.metadata.versions import GROUP_VERSION
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, require
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest


def check_enabled(broker: Broker) -> None:
    """Raise an error if consumer groups are not enabled in this cluster.

    Raises:
        ApiError: UNSUPPORTED_VERSION.
    """
    is_finalized = broker.metadata.image.features.level(GROUP_VERSION) > 0
    if not is_finalized or "consumer" not in broker.config.group_coordinator_rebalance_protocols:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def handle(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Answer:
    """Return the member's epoch, and the member's assignment if it has changed."""
    check_enabled(broker)
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    names = request.subscribed_topic_names or ()
    if denied(broker, context, AclOperation.DESCRIBE, TOPIC, names):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return broker.coordinators.groups.consumer_heartbeat(context, request)


HANDLER = Handler(request=ConsumerGroupHeartbeatRequest, handle=handle)
