"""DescribeUserScramCredentials (50), version 0: which users have SCRAM credentials (KIP-554).

- Null or an empty list requests all users. The response has the mechanisms and the iterations, but
  neither salts nor keys.
- A user without credentials gets RESOURCE_NOT_FOUND. A user that is requested twice gets
  DUPLICATE_RESOURCE.
- The metadata of this node is described. It may lag behind the controller's.
"""

from __future__ import annotations

from collections import Counter

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.core.metadata.image import MetadataImage
from odradek.core.sasl.scram_keys import BY_NUMBER
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from odradek.wire.generated.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    node: Broker | Controller, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the credentials of each user.

    Raises:
        ApiError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_cluster(node, context, AclOperation.DESCRIBE)
    image = node.metadata.image
    if request.users:
        counts = Counter(each.name for each in request.users)
    else:
        counts = Counter({user for _, user in image.scram})
    results = [_result(image, user, count) for user, count in counts.items()]
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _result(image: MetadataImage, user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message="Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {user}",
        )
    found = [
        CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        for mechanism in BY_NUMBER
        if (credential := image.scram.get((mechanism, user))) is not None
    ]
    if not found:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(user=user, error_message=None, credential_infos=found)


def _error_response(
    request: DescribeUserScramCredentialsRequest, error: ApiError
) -> DescribeUserScramCredentialsResponse:
    """Return the error, and for each requested user an error without the user's name."""
    results = [
        DescribeUserScramCredentialsResult(error_code=error.code, error_message=error.details)
        for _ in request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(
        error_code=error.code, error_message=error.details, results=results
    )


HANDLER = Handler(
    request=DescribeUserScramCredentialsRequest,
    handle=handle,
    controller=handle,
    error_response=_error_response,
)
