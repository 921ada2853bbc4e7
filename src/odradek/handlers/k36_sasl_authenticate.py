"""SaslAuthenticate (36), versions 0-2: a token of the SASL mechanism.

On listeners with SASL, `odradek.handlers.sasl_gate` serves the requests before authentication:

- A wrong token gets SASL_AUTHENTICATION_FAILED after connection.failed.authentication.delay.ms.
  Then the connection is closed. The message does not show whether the user exists.
- From version 1 on the last response has the time in which the client must authenticate again
  (connections.max.reauth.ms).

On other listeners and after authentication the error is ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.handler import Handler
from odradek.model.errors import ErrorCode
from odradek.wire.generated.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse


def handle(node: object, context: RequestContext, request: object) -> SaslAuthenticateResponse:
    """Refuse the request."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


HANDLER = Handler(request=SaslAuthenticateRequest, handle=handle, controller=handle)
