"""DeleteAcls (31), versions 1-3: the controller deletes the ACLs that filters select.

- Each filter has its own result, with the ACLs that it selects. A filter with an unknown number
  gets the error INVALID_REQUEST.
- The client needs ALTER on the cluster.
- Without an authorizer the error is SECURITY_DISABLED.
- Apache Kafka closes the connection if a number of a filter is 0 (unknown). Odradek returns the
  error INVALID_REQUEST, as for other unknown numbers.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.wire.generated.delete_acls_request import DeleteAclsRequest
from odradek.wire.generated.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse


def _error_response(request: DeleteAclsRequest, error: ApiError) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
            for _ in request.filters
        ]
    )


HANDLER = Handler(
    request=DeleteAclsRequest,
    controller=decide,
    error_response=_error_response,
)
