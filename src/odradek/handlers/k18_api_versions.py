"""ApiVersions (18), versions 0-5: the APIs and versions that are served, and the features.

- The response to an unsupported version has the format of version 0, the error UNSUPPORTED_VERSION,
  and one API, ApiVersions (KIP-511). The dispatcher passes `request=None` in this case.
- From version 3 on a request contains the name and the version of the client software. If one of
  them does not match the allowed pattern, the error is INVALID_REQUEST.
- From version 5 on a request may say which node of which cluster the client wants to reach. If this
  is another node, the error is REBOOTSTRAP_REQUIRED, and the client starts over (KIP-1242). Listeners
  of controllers do not check it, and neither is it checked before authentication.
- The lowest version of Produce is 0 in the response, although versions 0-2 are rejected. Otherwise
  librdkafka would send uncompressed records (KAFKA-18659).
- The telemetry APIs are included only while there is a subscription for client metrics. Otherwise
  clients would send useless requests. Apache Kafka includes these APIs only if it has a metrics
  receiver.
- Before version 4, supported features whose lowest level is 0 are omitted (KAFKA-17011).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.core.metadata.versions import KRAFT_VERSION
from odradek.handlers.handler import Handler
from odradek.handlers.registry import SERVED
from odradek.model import api_keys
from odradek.model.errors import ErrorCode
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
TELEMETRY_KEYS = frozenset((api_keys.GET_TELEMETRY_SUBSCRIPTIONS, api_keys.PUSH_TELEMETRY))
NAMED_SOFTWARE_VERSION = 3
ZERO_LEVEL_FEATURES_VERSION = 4
EXPECTED_NODE_VERSION = 5


def handle(
    broker: Broker, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Return the APIs of broker listeners."""
    if request is not None and _is_misrouted(broker, context, request):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    served = broker.versions.apis
    if not broker.client_telemetry.machine.has_subscriptions:
        served = [each for each in served if each[0] not in TELEMETRY_KEYS]
    return _respond(broker, context, request, served)


def _is_misrouted(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> bool:
    if context.api_version < EXPECTED_NODE_VERSION or context.peer.awaits_login:
        return False
    if request.cluster_id is None or not _is_named(request):
        return False
    return (request.cluster_id, request.node_id) != (broker.cluster_id, broker.node_id)


def handle_on_controller(
    controller: Controller, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Return the APIs of controller listeners."""
    return _respond(controller, context, request, controller.versions.apis)


def _respond(
    node: Broker | Controller,
    context: RequestContext,
    request: ApiVersionsRequest | None,
    served: Sequence[tuple[int, int, int]],
) -> ApiVersionsResponse:
    if request is None:
        own = SERVED[api_keys.API_VERSIONS]
        only = ApiVersion(api_key=own.key, min_version=own.version_min, max_version=own.version_max)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
    if context.api_version >= NAMED_SOFTWARE_VERSION:
        if not _is_named(request):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.peer.name_software(request.client_software_name, request.client_software_version)
    features = node.metadata.image.features
    answer = ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=key, min_version=0 if key == api_keys.PRODUCE else low, max_version=high
            )
            for key, low, high in served
        ],
        finalized_features_epoch=node.metadata.image.offset,
    )
    answer.supported_features = [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in node.versions.features.items()
        if low or context.api_version >= ZERO_LEVEL_FEATURES_VERSION
    ]
    answer.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in (
            *features.finalized.items(),
            (KRAFT_VERSION, node.versions.kraft_version()),
        )
        if level
    ]
    return answer


def _is_named(request: ApiVersionsRequest) -> bool:
    """Return whether the name and the version of the client software are allowed."""
    name, version = request.client_software_name, request.client_software_version
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))


HANDLER = Handler(request=ApiVersionsRequest, handle=handle, controller=handle_on_controller)
