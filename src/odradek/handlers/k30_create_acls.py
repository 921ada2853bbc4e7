"""CreateAcls (30), versions 1-3: the controller creates ACLs.

- Each ACL has its own result. An ACL that exists already is no error. An invalid ACL gets the error
  INVALID_REQUEST.
- The client needs ALTER on the cluster.
- Without an authorizer the error is SECURITY_DISABLED.
- Apache Kafka closes the connection if a number of an ACL is 0 (unknown). Odradek returns the error
  INVALID_REQUEST, as for other unknown numbers.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.wire.generated.create_acls_request import CreateAclsRequest
from odradek.wire.generated.create_acls_response import AclCreationResult, CreateAclsResponse


def _error_response(request: CreateAclsRequest, error: ApiError) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=error.code, error_message=error.message)
            for _ in request.creations
        ]
    )


HANDLER = Handler(
    request=CreateAclsRequest,
    controller=decide,
    error_response=_error_response,
)
