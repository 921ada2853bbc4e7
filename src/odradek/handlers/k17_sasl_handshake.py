"""SaslHandshake (17), versions 0-1: the client chooses the SASL mechanism.

On listeners with SASL, `odradek.handlers.sasl_gate` serves the requests before authentication:

- A mechanism that is not enabled gets UNSUPPORTED_SASL_MECHANISM and the enabled ones. Then the
  connection is closed.
- After version 0 the tokens are sent without requests around them. Gap: such a token must have at
  least 8 bytes, because shorter frames are refused.

On other listeners and after authentication the error is ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.handler import Handler
from odradek.model.errors import ErrorCode
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.generated.sasl_handshake_response import SaslHandshakeResponse


def handle(node: object, context: RequestContext, request: object) -> SaslHandshakeResponse:
    """Refuse the request."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


HANDLER = Handler(request=SaslHandshakeRequest, handle=handle, controller=handle)
