"""Changes the levels of the cluster's features (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from odradek.client.cluster import Cluster
from odradek.client.errors import check
from odradek.wire.generated.update_features_request import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from odradek.wire.generated.update_features_response import UpdateFeaturesResponse


class UpgradeType(IntEnum):
    """Whether a level may be lowered."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Only if no metadata would be lost."""


def update_features(
    cluster: Cluster, levels: Mapping[str, int], kind: UpgradeType, *, validate_only: bool = False
) -> None:
    """Set the levels of features: all of them, or none.

    Raises:
        ClientError: the controller refuses a level (INVALID_UPDATE_VERSION), or does not respond.
    """
    request = UpdateFeaturesRequest(
        timeout_ms=cluster.timeout_ms,
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )

    def check_response(response: UpdateFeaturesResponse) -> None:
        names = ", ".join(levels)
        check(response.error_code, response.error_message, names)
        for each in response.results or ():
            check(each.error_code, each.error_message, each.feature)

    cluster.ask_controller(request, UpdateFeaturesResponse, check_response)
