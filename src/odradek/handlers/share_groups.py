"""The check that the handlers of share groups have in common."""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.core.metadata.versions import SHARE_VERSION
from odradek.model.errors import ApiError, ErrorCode


def check_enabled(broker: Broker) -> None:
    """Check that share groups are enabled in this cluster.

    Raises:
        ApiError: UNSUPPORTED_VERSION.
    """
    if broker.metadata.image.features.level(SHARE_VERSION) == 0:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
