"""Filters that select ACLs (Kafka's AclBindingFilter).

A field that is None, or ANY, selects all values. The pattern type MATCH selects all patterns that
apply to the resource with the name of the filter: the literal pattern with this name, the literal
pattern `*`, and every prefix of the name (KIP-290).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import (
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)

KeyT = TypeVar("KeyT")


class AclFilter(NamedTuple):
    """A filter. A number that this version does not know becomes UNKNOWN, which selects nothing."""

    resource_type: AclResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission_type: AclPermissionType

    @property
    def is_pattern_unknown(self) -> bool:
        """Whether the resource type or the pattern type is unknown."""
        return not self.resource_type or not self.pattern_type

    @property
    def is_entry_unknown(self) -> bool:
        """Whether the operation or the permission type is unknown."""
        return not self.operation or not self.permission_type

    @property
    def entry(self) -> AccessControlEntry | None:
        """The only ACL that the filter can select; None if it can select several ACLs."""
        name, principal, host = self.resource_name, self.principal, self.host
        if (
            name is None
            or principal is None
            or host is None
            or self.resource_type is AclResourceType.ANY
            or self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
            or self.operation is AclOperation.ANY
            or self.permission_type is AclPermissionType.ANY
        ):
            return None
        return AccessControlEntry(
            int(self.resource_type),
            name,
            int(self.pattern_type),
            principal,
            host,
            int(self.operation),
            int(self.permission_type),
        )

    def matches(self, entry: AccessControlEntry) -> bool:
        """Return whether the filter selects an ACL."""
        return (
            (self.resource_type in (AclResourceType.ANY, entry.resource_type))
            and (self.principal is None or self.principal == entry.principal)
            and (self.host is None or self.host == entry.host)
            and (self.operation in (AclOperation.ANY, entry.operation))
            and (self.permission_type in (AclPermissionType.ANY, entry.permission_type))
            and self._matches_pattern(entry)
        )

    def _matches_pattern(self, entry: AccessControlEntry) -> bool:
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (PatternType.ANY, PatternType.MATCH, entry.pattern_type):
            return False
        if name is None:
            return True
        if wanted is not PatternType.MATCH:
            return name == entry.resource_name
        if entry.pattern_type == PatternType.LITERAL:
            return entry.resource_name in (name, WILDCARD)
        return name.startswith(entry.resource_name)

    def select(
        self, entries: Iterable[tuple[KeyT, AccessControlEntry]]
    ) -> Iterator[tuple[KeyT, AccessControlEntry]]:
        """Yield the ACLs that the filter selects, with their keys."""
        return (pair for pair in entries if self.matches(pair[1]))
