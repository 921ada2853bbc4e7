"""Decides on changes of client quotas (Kafka's ClientQuotaControlManager, KIP-546)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from math import isinf
from typing import Final

from odradek.core.controller.state import ControllerState, Decision, check_record_count
from odradek.core.metadata.image import ClientQuotaEntity
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.alter_client_quotas_request import AlterClientQuotasRequest
from odradek.wire.generated.alter_client_quotas_request import EntryData as RequestEntry
from odradek.wire.generated.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)
from odradek.wire.generated.client_quota_record import ClientQuotaRecord
from odradek.wire.generated.client_quota_record import EntityData as RecordEntity
from odradek.wire.primitives import Message

USER, CLIENT_ID, IP = "user", "client-id", "ip"
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
FRACTION_MAX: Final = 1e-6
"""The largest rounding error of a limit that must be a whole number."""

_WHOLE_MAX: Final = {
    "producer_byte_rate": ("a LONG", float(LONG_MAX)),
    "consumer_byte_rate": ("a LONG", float(LONG_MAX)),
    "connection_creation_rate": ("an INT", float(INT_MAX)),
}
"""The limits that are whole numbers, with Kafka's name of their type and its largest value. A limit is a
double, so the largest LONG is rounded up, as in Java."""
_OF_CLIENTS: Final = frozenset(
    ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
)
_OF_ADDRESSES: Final = frozenset(("connection_creation_rate",))


def alter_client_quotas(
    state: ControllerState, request: AlterClientQuotasRequest, version: int
) -> Decision[AlterClientQuotasResponse]:
    """Set and remove limits. Each entity has one result, and all its changes are made or none.

    An entity that the request names twice keeps the changes of the first entry, and its result is
    an error, as in Apache Kafka. A limit that does not change gets no record.
    """
    records: list[Message] = []
    results: dict[ClientQuotaEntity, ApiError | None] = {}
    for entry in request.entries:
        entity = _entity(entry)
        try:
            values = _values(entry, entity)
            if entity in results:
                raise _invalid(f"Ignoring duplicate entity {_text(entity)}")
            _check_entity(entity)
            records += _records(state, entity, values)
            results[entity] = None
        except ApiError as error:
            results[entity] = error
    check_record_count(len(records))
    response = AlterClientQuotasResponse(
        entries=[_result(entity, error) for entity, error in results.items()]
    )
    return Decision([] if request.validate_only else records, response)


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, problem)


def _entity(entry: RequestEntry) -> ClientQuotaEntity:
    """Return the entity in the form of the metadata image. The last of two equal kinds is used."""
    names = {each.entity_type: each.entity_name for each in entry.entity}
    return tuple(sorted(names.items()))


def _text(entity: ClientQuotaEntity) -> str:
    """Return the text of an entity as in Kafka's messages."""
    entries = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{entries}}})"


def _values(entry: RequestEntry, entity: ClientQuotaEntity) -> dict[str, float | None]:
    """Return the changes by name; None removes a limit."""
    values: dict[str, float | None] = {}
    for change in entry.ops:
        if change.key in values:
            raise _invalid(
                f"Duplicate quota key {change.key} not updating quota for this entity "
                f"{_text(entity)}"
            )
        values[change.key] = None if change.remove else change.value
    return values


def _check_entity(entity: ClientQuotaEntity) -> None:
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    kinds = dict(entity)
    if IP in kinds:
        if len(kinds) > 1:
            raise _invalid(
                "Invalid quota entity combination, IP entity shouldnot be combined with User or "
                "ClientId"
            )
        _check_address(kinds[IP])


def _check_address(name: str | None) -> None:
    if name is None:
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise _invalid(f"{name} is not a valid IP or resolvable host.") from None


def _records(
    state: ControllerState, entity: ClientQuotaEntity, values: Mapping[str, float | None]
) -> list[Message]:
    """Return the records of the changes.

    Raises:
        ApiError: INVALID_REQUEST: a limit is invalid.
    """
    current = state.image.client_quotas.get(entity, {})
    known = _OF_ADDRESSES if dict(entity).keys() == {IP} else _OF_CLIENTS
    records: list[Message] = []
    for name, value in values.items():
        if value is None:
            if name in current:
                records.append(_record(entity, name, 0.0, remove=True))
            continue
        _check_value(name, value, known)
        if current.get(name) != value:
            records.append(_record(entity, name, value, remove=False))
    return records


def _check_value(name: str, value: float, known: frozenset[str]) -> None:
    if name not in known:
        raise _invalid(f"Invalid configuration key {name}")
    if not value > 0:  # also if it is not a number
        raise _invalid(f"Quota {name} must be greater than 0")
    if name in _WHOLE_MAX:
        kind, largest = _WHOLE_MAX[name]
        if value > largest:
            raise _invalid(f"Proposed value for {name} is too large for {kind}.")
        if value % 1.0 > FRACTION_MAX:
            raise _invalid(f"{name} cannot be a fractional value.")
    elif isinf(value):
        raise _invalid(f"Quota {name} must be finite")


def _record(entity: ClientQuotaEntity, name: str, value: float, *, remove: bool) -> Message:
    parts = [RecordEntity(entity_type=kind, entity_name=part) for kind, part in entity]
    return ClientQuotaRecord(entity=parts, key=name, value=value, remove=remove)


def _result(entity: ClientQuotaEntity, error: ApiError | None) -> EntryData:
    return EntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )
