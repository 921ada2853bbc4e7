"""ApiVersions (18), versions 0-4: what this listener serves, and the finalized features.

- The response to an unsupported version has the format of version 0, with UNSUPPORTED_VERSION and
  one entry, ApiVersions itself (KIP-511): the dispatcher passes `request=None` for it.
- From version 3 on the client names its software; a name or version outside the allowed pattern
  is INVALID_REQUEST.
- Produce is listed from version 0, although 0-2 are rejected: librdkafka would send uncompressed
  records otherwise (KAFKA-18659).
- The telemetry APIs are listed only while there is a subscription for client metrics, so that
  clients do not request it without need (Apache Kafka: only with a receiver).
- Supported features whose lowest level is 0 are left out before version 4 (KAFKA-17011).
"""

from __future__ import annotations

import re

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.core.metadata.versions import KRAFT_VERSION
from odradek.handlers.handler import Handler
from odradek.model.errors import ErrorCode
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
PRODUCE_KEY = 0
TELEMETRY_KEYS = frozenset({71, 72})
NAMED_SOFTWARE_VERSION = 3
ZERO_LEVEL_FEATURES_VERSION = 4


def handle(
    broker: Broker, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Return the APIs of the client's listener."""
    if request is None:
        only = ApiVersion(
            api_key=18, min_version=HANDLER.versions[0], max_version=HANDLER.versions[1]
        )
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
    if context.api_version >= NAMED_SOFTWARE_VERSION:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.peer.name_software(name, version)
    features = broker.metadata.image.features
    answer = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=0 if key == PRODUCE_KEY else low, max_version=high)
            for key, low, high in broker.served_versions
            if key not in TELEMETRY_KEYS or broker.client_telemetry.machine.has_subscriptions
        ],
        finalized_features_epoch=broker.metadata.image.offset,
    )
    answer.supported_features = [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in broker.supported_features.items()
        if low or context.api_version >= ZERO_LEVEL_FEATURES_VERSION
    ]
    answer.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in (*features.finalized.items(), (KRAFT_VERSION, broker.kraft_version()))
        if level
    ]
    return answer


HANDLER = Handler(request=ApiVersionsRequest, versions=(0, 4), handle=handle, controller=handle)
