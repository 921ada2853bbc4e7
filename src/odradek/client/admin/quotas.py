"""Quotas of clients (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.cluster import Cluster
from odradek.client.errors import check
from odradek.wire.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.wire.generated.alter_client_quotas_response import AlterClientQuotasResponse
from odradek.wire.generated.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from odradek.wire.generated.describe_client_quotas_response import DescribeClientQuotasResponse

USER, CLIENT_ID, IP = "user", "client-id", "ip"
Entity = tuple[tuple[str, str | None], ...]
"""Pairs of a kind and a name, sorted by kind. A name of None is the default."""
_EXACT, _DEFAULT = 0, 1


def entity_text(entity: Entity) -> str:
    """Return an entity as text, such as `user alice, default client-id`."""
    parts = [f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity]
    return ", ".join(reversed(parts))  # the user first


def describe_quotas(
    cluster: Cluster, parts: Mapping[str, str | None] | None = None, *, strict: bool = False
) -> dict[Entity, dict[str, float]]:
    """Return the limits by entity, of the entities with these names.

    A name of None is the default. With `strict`, entities with a further kind are not returned.

    Raises:
        ClientError: the broker does not respond, or rejects the request.
    """
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(
                entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
            )
            for kind, name in (parts or {}).items()
        ],
        strict=strict,
    )
    response = cluster.ask_any(request, DescribeClientQuotasResponse)
    check(response.error_code, response.error_message)
    found = {}
    for entry in response.entries or ():
        entity = tuple(sorted((each.entity_type, each.entity_name) for each in entry.entity))
        found[entity] = {each.key: each.value for each in entry.values}
    return found


def alter_quotas(
    cluster: Cluster,
    entity: Entity,
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Set limits of an entity by name; None removes a limit. All changes are made, or none.

    Raises:
        ClientError: the broker does not respond, or rejects the changes.
    """
    request = AlterClientQuotasRequest(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    OpData(key=name, value=value or 0.0, remove=value is None)
                    for name, value in changes.items()
                ],
            )
        ],
        validate_only=validate_only,
    )
    response = cluster.ask_any(request, AlterClientQuotasResponse)
    for entry in response.entries:
        check(entry.error_code, entry.error_message, entity_text(entity))
