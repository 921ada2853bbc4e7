"""DescribeClientQuotas (48), versions 0-1: the limits of clients that a filter selects (KIP-546).

- A component of the filter selects entities with a name, with the default name, or with any name of
  a kind (`user`, `client-id`, `ip`). With `strict`, an entity with a further kind is not selected.
  Without components all entities are selected, or none with `strict`.
- A kind that the filter names twice, `ip` beside another kind, and a match type that does not fit
  the name get INVALID_REQUEST. A kind that is not known gets UNSUPPORTED_VERSION.
- The client needs DESCRIBE_CONFIGS on the cluster. The metadata of this node is described.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.core.metadata.image import ClientQuotaEntity
from odradek.core.quota.limits import CLIENT_ID, IP, USER
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from odradek.wire.generated.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""The match types: this name, the default, any name."""


class _Filter(NamedTuple):
    """What an entity must have."""

    names: dict[str, str | None]
    """Names by kind; None is the default."""
    kinds: set[str]
    """Kinds that may have any name."""
    strict: bool

    def selects(self, entity: ClientQuotaEntity) -> bool:
        parts = dict(entity)
        if self.strict and len(parts) != len(self.names) + len(self.kinds):
            return False
        wanted = self.names.items()
        return self.kinds <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in wanted
        )


def handle(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the selected entities with all their limits.

    Raises:
        ApiError: CLUSTER_AUTHORIZATION_FAILED, or the filter is invalid.
    """
    require_cluster(broker, context, AclOperation.DESCRIBE_CONFIGS)
    wanted = _filter(request)
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=name, value=value) for name, value in values.items()],
        )
        for entity, values in broker.metadata.image.client_quotas.items()
        if wanted.selects(entity)
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _filter(request: DescribeClientQuotasRequest) -> _Filter:
    names: dict[str, str | None] = {}
    kinds: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in names or kind in kinds:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Entity type {kind} cannot appear more than once in the filter.",
            )
        if kind not in (USER, CLIENT_ID, IP):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_name(component)
        if component.match_type == SPECIFIED:
            kinds.add(kind)
        else:
            names[kind] = component.match
    found = names.keys() | kinds
    if IP in found and len(found) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return _Filter(names, kinds, request.strict)


def _check_name(component: ComponentData) -> None:
    problem = None
    if component.match_type == EXACT:
        if component.match is None:
            problem = "Request specified MATCH_TYPE_EXACT, but set match string to null."
    elif component.match_type in (DEFAULT, SPECIFIED):
        if component.match is not None:
            kind = "DEFAULT" if component.match_type == DEFAULT else "SPECIFIED"
            problem = f"Request specified MATCH_TYPE_{kind}, but also specified a match string."
    else:
        problem = f"Unknown match type {component.match_type}"
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def _error_response(
    request: DescribeClientQuotasRequest, error: ApiError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.details, entries=None
    )


HANDLER = Handler(
    request=DescribeClientQuotasRequest,
    handle=handle,
    error_response=_error_response,
)
