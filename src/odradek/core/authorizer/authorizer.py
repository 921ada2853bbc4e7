"""Decides whether a client may do something, as Apache Kafka's StandardAuthorizer (KIP-801).

1. A super user may do everything.
2. If an ACL denies the operation, it is denied, whatever other ACLs allow.
3. If an ACL allows the operation or one that implies it, it is allowed.
4. If any ACL matches the resource, for any principal, the operation is denied.
5. Otherwise `allow.everyone.if.no.acl.found` decides.

The ACLs come from the metadata image (`load`, `apply`). Until they are loaded, operations of super
users are allowed, and all other checks raise UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.core.authorizer.index import ALLOWED_BY, DENIED_BY, HAS_ACLS, AclIndex
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.model.errors import ApiError, ErrorCode

_ANY_NAME = "hardcode"
"""The resource name with which Apache Kafka checks a whole type first."""


class Rule(NamedTuple):
    """Why an operation is allowed or denied."""

    is_allowed: bool
    name: str
    """SuperUser, MatchingAcl, DefaultAllow or DefaultDeny."""
    entry: AccessControlEntry | None = None
    """The ACL that decides."""

    def __str__(self) -> str:
        """Return the rule as Apache Kafka's audit log shows it."""
        acl = self.entry
        if acl is None:
            return self.name
        return (
            f"{self.name}(acl=StandardAcl("
            f"resourceType={AclResourceType(acl.resource_type).name}, "
            f"resourceName={acl.resource_name}, "
            f"patternType={PatternType(acl.pattern_type).name}, "
            f"principal={acl.principal}, host={acl.host}, "
            f"operation={AclOperation(acl.operation).name}, "
            f"permissionType={AclPermissionType(acl.permission_type).name}))"
        )


class StandardAuthorizer:
    """The ACLs of a node, and the settings that decide without ACLs."""

    __slots__ = ("_allow_if_no_acl", "_index", "_super_users", "generation", "is_loaded")

    def __init__(self, super_users: Iterable[str], allow_everyone_if_no_acl_found: bool) -> None:
        """`super_users` are principals such as `User:admin`."""
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_everyone_if_no_acl_found
        self._index = AclIndex()
        self.is_loaded = False
        self.generation = 0
        """Increases when the ACLs change. Cached verdicts are invalid then."""

    @property
    def acl_count(self) -> int:
        """The number of ACLs."""
        return len(self._index)

    # -- changes ----------------------------------------------------------------------------------

    def load(self, acls: Mapping[bytes, AccessControlEntry]) -> None:
        """Use exactly these ACLs from now on."""
        index = AclIndex()
        for entry_id, entry in acls.items():
            index.put(entry_id, entry)
        self._index = index
        self.is_loaded = True
        self.generation += 1

    def apply(self, changed: Mapping[bytes, AccessControlEntry | None]) -> None:
        """Add, replace or remove ACLs. None removes. Changes that were applied are skipped."""
        has_changed = False
        for entry_id, entry in changed.items():
            if entry is None:
                has_changed |= self._index.remove(entry_id)
            else:
                has_changed |= self._index.put(entry_id, entry)
        self.generation += has_changed

    # -- decisions --------------------------------------------------------------------------------

    def allows(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        """Return whether a principal at a host may do something with a resource.

        Raises:
            ApiError: UNKNOWN_SERVER_ERROR: the ACLs are not loaded yet.
        """
        if principal in self._super_users:
            return True
        self._check_loaded()
        return self._decide(self._index.bits(resource_type, name, principal, host), operation)

    def operations(
        self,
        principal: str,
        host: str,
        among: Iterable[AclOperation],
        resource_type: AclResourceType,
        name: str,
    ) -> list[AclOperation]:
        """Return those operations that are allowed on a resource.

        Raises:
            ApiError: UNKNOWN_SERVER_ERROR: the ACLs are not loaded yet.
        """
        if principal in self._super_users:
            return list(among)
        self._check_loaded()
        bits = self._index.bits(resource_type, name, principal, host)
        return [each for each in among if self._decide(bits, each)]

    def allows_anywhere(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether a principal may do something with any resource of a type (KIP-679).

        Raises:
            ApiError: UNKNOWN_SERVER_ERROR: the ACLs are not loaded yet.
        """
        if self.allows(principal, host, operation, resource_type, _ANY_NAME):
            return True
        return self._index.allows_anywhere(resource_type, principal, host, operation)

    def explain(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> Rule:
        """Return the rule that decides. The verdict is the verdict of `allows`."""
        if principal in self._super_users:
            return Rule(True, "SuperUser")
        bits = self._index.bits(resource_type, name, principal, host)
        is_allowed = self._decide(bits, operation)
        entry = self._index.rule(resource_type, name, principal, host, operation)
        if entry is not None:
            return Rule(is_allowed, "MatchingAcl", entry)
        return Rule(is_allowed, "DefaultAllow" if is_allowed else "DefaultDeny")

    def _decide(self, bits: int, operation: AclOperation) -> bool:
        if not bits & HAS_ACLS:
            return self._allow_if_no_acl
        return not bits & DENIED_BY[operation] and bool(bits & ALLOWED_BY[operation])

    def _check_loaded(self) -> None:
        if not self.is_loaded:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the ACLs are not loaded yet")
