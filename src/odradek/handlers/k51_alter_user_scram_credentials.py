"""AlterUserScramCredentials (51), version 0: the controller changes SCRAM credentials (KIP-554).

- The client sends salted passwords. The metadata log gets the keys that are computed from them.
- A user that the request names twice gets DUPLICATE_RESOURCE. A credential that does not exist
  cannot be deleted (RESOURCE_NOT_FOUND). Less than 4096 or more than 16384 iterations, and an empty
  name, get UNACCEPTABLE_CREDENTIAL.
- An error of the whole request is the error of each user.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.wire.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
)
from odradek.wire.generated.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def _error_response(
    request: AlterUserScramCredentialsRequest, error: ApiError
) -> AlterUserScramCredentialsResponse:
    names = [each.name for each in request.deletions]
    names += [each.name for each in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name, error_code=error.code, error_message=error.message
            )
            for name in dict.fromkeys(names)
        ]
    )


HANDLER = Handler(
    request=AlterUserScramCredentialsRequest,
    controller=decide,
    error_response=_error_response,
)
