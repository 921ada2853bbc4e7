"""AlterClientQuotas (49), versions 0-1: the controller changes the limits of clients (KIP-546).

- An entity is a user, a client id, a user with a client id, or an address. A name of null is the
  default. Each entity has its own result, and all its changes are made or none.
- The error is INVALID_REQUEST for unknown limits, for values that are not greater than 0 or too
  large, for fractions where the limit must be a whole number, and for an entity that the request
  names twice.
- The name of an entity `ip` must be an address. Apache Kafka also accepts host names.
- The client needs ALTER_CONFIGS on the cluster. An error of the whole request is the error of each
  entity.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.wire.generated.alter_client_quotas_request import AlterClientQuotasRequest
from odradek.wire.generated.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)


def _error_response(
    request: AlterClientQuotasRequest, error: ApiError
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryData(
                error_code=error.code,
                error_message=error.message,
                entity=[
                    EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


HANDLER = Handler(
    request=AlterClientQuotasRequest,
    controller=decide,
    error_response=_error_response,
)
