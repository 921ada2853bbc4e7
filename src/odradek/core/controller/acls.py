"""Creates and deletes ACLs (Kafka's AclControlManager and AclApis).

Each ACL of a request has its own result. For an ACL that already exists, no record is written. The
records of a request are one batch, so that all or none of them are committed.
"""

from __future__ import annotations

from odradek.core.authorizer.address_ranges import is_range, parse_range
from odradek.core.authorizer.filters import AclFilter
from odradek.core.controller.state import ControllerState, Decision, check_record_count
from odradek.core.metadata.image import AccessControlEntry
from odradek.core.metadata.releases import LEVEL_NAMES
from odradek.core.metadata.versions import LEVEL_ADDRESS_RANGES
from odradek.model.acl import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.uuids import is_reserved, make, to_text
from odradek.wire.generated.access_control_entry_record import AccessControlEntryRecord
from odradek.wire.generated.create_acls_request import AclCreation, CreateAclsRequest
from odradek.wire.generated.create_acls_response import AclCreationResult, CreateAclsResponse
from odradek.wire.generated.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.generated.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from odradek.wire.generated.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from odradek.wire.primitives import Message


def create_acls(
    state: ControllerState, request: CreateAclsRequest, version: int
) -> Decision[CreateAclsResponse]:
    """Create the ACLs that are valid and do not exist.

    Raises:
        ApiError: SECURITY_DISABLED: there is no authorizer.
    """
    _check_authorizer(state)
    records: list[Message] = []
    created: set[AccessControlEntry] = set()
    results: list[AclCreationResult] = []
    for creation in request.creations:
        problem = _problem(creation)
        code = ErrorCode.INVALID_REQUEST
        if problem is None:
            code, problem = _host_problem(creation.host, state.level)
        if problem is not None:
            results.append(AclCreationResult(error_code=code, error_message=problem))
            continue
        entry = _entry(creation)
        if entry not in created and not state.acl_ids.of(entry):
            created.add(entry)
            records.append(AccessControlEntryRecord(id=_new_id(state), **entry._asdict()))
        results.append(AclCreationResult())
    check_record_count(len(records))
    return Decision(records, CreateAclsResponse(results=results))


def _problem(creation: AclCreation) -> str | None:
    """Return what is wrong with an ACL; None if it is valid."""
    kind = AclResourceType(creation.resource_type)
    pattern = PatternType(creation.resource_pattern_type)
    operation = AclOperation(creation.operation)
    permission = AclPermissionType(creation.permission_type)
    if kind is AclResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not creation.resource_name:
        return "Invalid empty resource name"
    if kind in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        return f"Invalid resourceType {kind.name}"
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {pattern.name}"
    if operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        return f"Invalid operation {operation.name}"
    if permission not in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        return f"Invalid permissionType {permission.name}"
    if ":" not in creation.principal:
        return (
            f"Could not parse principal from `{creation.principal}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    return None


def _host_problem(host: str, level: int) -> tuple[ErrorCode, str | None]:
    """Return what is wrong with the host of an ACL, and the error; None if it is valid.

    A host without a slash is not checked: it may be a name, which no client has.
    """
    if not host:
        return ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty"
    if not is_range(host):
        return ErrorCode.NONE, None
    if level < LEVEL_ADDRESS_RANGES:
        return ErrorCode.UNSUPPORTED_VERSION, (
            "CIDR-based ACL host patterns require metadata version "
            f"{LEVEL_NAMES[LEVEL_ADDRESS_RANGES]} or higher."
        )
    try:
        parse_range(host)
    except ValueError as reason:
        return ErrorCode.INVALID_REQUEST, f"Invalid CIDR notation '{host}': {reason}"
    return ErrorCode.NONE, None


def _entry(creation: AclCreation) -> AccessControlEntry:
    return AccessControlEntry(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _new_id(state: ControllerState) -> bytes:
    """Return a random id that no ACL has."""
    while True:
        entry_id = make(state.random_bytes(16))
        is_usable = not is_reserved(entry_id) and not to_text(entry_id).startswith("-")
        if is_usable and entry_id not in state.image.acls:
            return entry_id


def delete_acls(
    state: ControllerState, request: DeleteAclsRequest, version: int
) -> Decision[DeleteAclsResponse]:
    """Delete the ACLs that match the filters. Each filter lists all ACLs that match it.

    Raises:
        ApiError: SECURITY_DISABLED: there is no authorizer.
    """
    _check_authorizer(state)
    removed: dict[bytes, None] = {}
    results: list[DeleteAclsFilterResult] = []
    for each in request.filters:
        acl_filter = _filter(each)
        problem = _filter_problem(acl_filter)
        if problem is not None:
            results.append(
                DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=problem)
            )
            continue
        found = matching(state, acl_filter)
        removed.update(dict.fromkeys(found))
        results.append(
            DeleteAclsFilterResult(
                error_message=None, matching_acls=[_deleted(acl) for acl in found.values()]
            )
        )
    check_record_count(len(removed))
    records: list[Message] = [RemoveAccessControlEntryRecord(id=entry_id) for entry_id in removed]
    return Decision(records, DeleteAclsResponse(filter_results=results))


def matching(state: ControllerState, acl_filter: AclFilter) -> dict[bytes, AccessControlEntry]:
    """Return the ACLs that a filter selects, by id."""
    acls = state.image.acls
    only = acl_filter.entry
    if only is not None:
        return {entry_id: acls[entry_id] for entry_id in state.acl_ids.of(only)}
    return dict(acl_filter.select(acls.items()))


def _filter(each: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        AclResourceType(each.resource_type_filter),
        each.resource_name_filter,
        PatternType(each.pattern_type_filter),
        each.principal_filter,
        each.host_filter,
        AclOperation(each.operation),
        AclPermissionType(each.permission_type),
    )


def _filter_problem(acl_filter: AclFilter) -> str | None:
    if acl_filter.is_pattern_unknown:
        return "Unknown patternFilter."
    if acl_filter.is_entry_unknown:
        return "Unknown entryFilter."
    return None


def _deleted(acl: AccessControlEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(error_message=None, **acl._asdict())


def _check_authorizer(state: ControllerState) -> None:
    if not state.config.authorizer_class_name:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
