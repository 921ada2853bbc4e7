"""The check that the handlers of Streams groups have in common."""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.core.metadata.versions import STREAMS_VERSION
from odradek.model.errors import ApiError, ErrorCode


def check_enabled(broker: Broker) -> None:
    """Check that Streams groups are enabled in this cluster.

    Raises:
        ApiError: UNSUPPORTED_VERSION.
    """
    is_finalized = broker.metadata.image.features.level(STREAMS_VERSION) > 0
    if not is_finalized or "streams" not in broker.config.group_coordinator_rebalance_protocols:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
