"""Envelope (58), version 0: a broker forwards a client's request to the controller (KIP-590).

- The envelope has the request with its header, the principal and the address of the client. The
  response has the response with its header.
- The error of the envelope says that the request was not processed: NOT_CONTROLLER, the sender may
  not perform CLUSTER_ACTION, or the envelope cannot be read. All other errors are in the response
  to the client. The controller checks the client's request with the client's principal.
- An API that brokers do not forward gets INVALID_REQUEST. A request that cannot be decoded gets
  UNSUPPORTED_VERSION, and a principal that cannot be decoded PRINCIPAL_DESERIALIZATION_FAILURE.
"""

from __future__ import annotations

import ipaddress
import struct

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.delegation_tokens import require_secure
from odradek.handlers.error_answers import error_answer
from odradek.handlers.handler import Handler
from odradek.handlers.registry import FORWARDED, SERVED
from odradek.model import api_keys
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.wire.api import BY_KEY
from odradek.wire.generated.default_principal_data import DefaultPrincipalData
from odradek.wire.generated.envelope_request import EnvelopeRequest
from odradek.wire.generated.envelope_response import EnvelopeResponse
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.generated.response_header import ResponseHeader
from odradek.wire.primitives import MalformedMessage, Message

TOKENS = frozenset(
    (
        api_keys.CREATE_DELEGATION_TOKEN,
        api_keys.RENEW_DELEGATION_TOKEN,
        api_keys.EXPIRE_DELEGATION_TOKEN,
    )
)
"""The API keys that a client may not use that is authenticated by a delegation token."""

_key_and_version = struct.Struct(">hh").unpack_from


async def handle(
    controller: Controller, context: RequestContext, request: EnvelopeRequest
) -> EnvelopeResponse:
    """Process the request in the envelope.

    Raises:
        ApiError: the error of the envelope.
    """
    require_cluster(controller, context, AclOperation.CLUSTER_ACTION)
    principal, is_by_token = _principal(request.request_principal)
    host = _host(request.client_host_address)
    handler, header, message = _request(request.request_data)
    here = context.peer
    peer = Peer(
        host,
        0,
        here.listener,
        here.local_host,
        here.local_port,
        principal=principal,
        is_token_authenticated=is_by_token,
        is_forwarded=True,
    )
    version = header.request_api_version
    inner = RequestContext(
        peer,
        header.request_api_key,
        version,
        header.correlation_id,
        header.client_id,
        context.received_ms,
    )
    try:
        if message.API_KEY in TOKENS:
            require_secure(controller, inner)
        response = await controller.decisions.submit(inner, message)
    except ApiError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise  # the broker looks for the active controller
        if handler.error_response is not None:
            response = handler.error_response(message, error)
        else:
            response = error_answer(message, version, error.code, error.message)
    header_version = BY_KEY[header.request_api_key].response_header_version(version)
    head = ResponseHeader(correlation_id=header.correlation_id).encode(header_version)
    return EnvelopeResponse(response_data=bytes(head) + bytes(response.encode(version)))


def _principal(data: bytes | None) -> tuple[str, bool]:
    """Return the principal, and whether it was authenticated by a delegation token.

    In `data` they have a version of two bytes before them.
    """
    try:
        (version,) = struct.unpack_from(">h", data or b"")
        principal = DefaultPrincipalData.decode(data or b"", version, 2)
    except (MalformedMessage, struct.error) as error:
        raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return f"{principal.type}:{principal.name}", principal.token_authenticated


def _host(address: bytes) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the client's address is malformed") from error


def _request(data: bytes) -> tuple[Handler, RequestHeader, Message]:
    try:
        key, version = _key_and_version(data)
        api = BY_KEY.get(key)
        served = SERVED.get(key)
        if api is None or served is None or FORWARDED not in served.places:
            name = "an unknown API" if api is None else api.name
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} ({key}) cannot be forwarded")
        if not served.version_min <= version <= served.version_max:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{api.name} version {version}")
        header, end = RequestHeader.decode_prefix(data, api.request_header_version(version))
        handler = served.handler()
        return handler, header, handler.request.decode(data, version, end)
    except (MalformedMessage, struct.error) as error:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error


HANDLER = Handler(request=EnvelopeRequest, controller=handle)
