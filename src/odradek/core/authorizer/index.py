"""The ACLs in a form in which a check costs microseconds, however many ACLs there are.

The ACLs of a pattern are a dictionary: (principal, host) -> the operations that are allowed and
denied, as bits of one number. A check collects the bits of all patterns that match the resource:

- the literal pattern with the resource's name, and the literal pattern `*`;
- the prefixes of the name. The index knows which lengths the prefixes have, and looks up the
  beginning of the name with each of these lengths.

In each pattern it looks up the principal and `User:*`, with the client's host and with `*`. So the
cost depends on the number of lengths, and not on the number of ACLs.

Addresses are compared in their shortest form (`::1`), and an IPv4 address in IPv6 form equals the
IPv4 address.

The host of an ACL can be a range of addresses (`address_ranges`). The index knows how many bits the
ranges fix, and looks up the range of each such size that contains the client's address. Only
patterns that have ranges are looked up again, so that the others cost what they cost without ranges.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeVar

from odradek.core.authorizer.address_ranges import network_name, range_of
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import (
    ANYONE,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
)

DENIED = 32
"""The bit of a denied operation is the bit of the allowed operation, shifted by this number."""
HAS_ACLS = 1 << 64
"""The bit which says that a pattern matches, whatever its principals."""

_ALL = 1 << AclOperation.ALL


def _bits(*operations: AclOperation) -> int:
    return sum(1 << each for each in operations) | _ALL


_IMPLIED_BY = {
    AclOperation.DESCRIBE: _bits(
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: _bits(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
ALLOWED_BY = tuple(_IMPLIED_BY.get(each, _bits(each)) for each in AclOperation)
"""By operation: each of these bits allows it. An allowed READ also allows DESCRIBE, but a denied
READ does not deny DESCRIBE."""
DENIED_BY = tuple(_bits(each) << DENIED for each in AclOperation)
"""By operation: each of these bits denies it."""
EXACTLY_ALLOWED_BY = tuple(_bits(each) for each in AclOperation)
"""By operation: each of these bits allows it, without implied operations."""


class Pattern(NamedTuple):
    """The resources that an ACL applies to."""

    resource_type: int
    pattern_type: int
    name: str


KeyT = TypeVar("KeyT")

_Who = tuple[str, str]
"""A principal, and a host or the name of a range."""
_Key = tuple[int, int, str]
"""A pattern. Plain tuples are equal to patterns, and are made faster."""


@lru_cache(maxsize=4096)
def short_host(host: str) -> str:
    """Return an address in its shortest form. Any other text is returned unchanged."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


class AclIndex:
    """The ACLs by pattern. `put` and `remove` change it."""

    __slots__ = (
        "_entries",
        "_lengths",
        "_of_principal",
        "_patterns",
        "_range_sizes",
        "_ranged",
        "_repeated",
    )

    def __init__(self) -> None:
        self._entries: dict[bytes, AccessControlEntry] = {}
        self._patterns: dict[_Key, dict[_Who, int]] = {}
        self._lengths: dict[int, dict[int, int]] = {}
        """Resource type -> length -> how many prefixes have this length."""
        self._of_principal: dict[tuple[int, str], dict[Pattern, int]] = {}
        """(Resource type, principal) -> pattern -> how many hosts have ACLs."""
        self._repeated: dict[tuple[Pattern, _Who, int], int] = {}
        """How often an ACL occurs again with another id. The controller creates no such ACLs, except
        with two names of one range."""
        self._ranged: dict[_Key, int] = {}
        """Pattern -> how many principals and ranges have ACLs."""
        self._range_sizes: dict[tuple[int, int], int] = {}
        """(IP version, number of fixed bits) -> in how many places such a range occurs."""

    def __len__(self) -> int:
        """Return the number of ACLs."""
        return len(self._entries)

    # -- changes ----------------------------------------------------------------------------------

    def put(self, entry_id: bytes, entry: AccessControlEntry) -> bool:
        """Add or replace an ACL. Return whether the index has changed."""
        if self._entries.get(entry_id) == entry:
            return False
        self.remove(entry_id)
        self._entries[entry_id] = entry
        pattern, who, bit = _place(entry)
        cell = self._patterns.get(pattern)
        if cell is None:
            cell = self._patterns[pattern] = {}
            if pattern.pattern_type == PatternType.PREFIXED:
                lengths = self._lengths.setdefault(pattern.resource_type, {})
                _add(lengths, len(pattern.name), 1)
        bits = cell.get(who)
        if bits is None:
            of_principal = self._of_principal.setdefault((pattern.resource_type, who[0]), {})
            _add(of_principal, pattern, 1)
            cell[who] = bit
            self._count_range(pattern, who, 1)
        elif bits & bit:
            _add(self._repeated, (pattern, who, bit), 1)
        else:
            cell[who] = bits | bit
        return True

    def remove(self, entry_id: bytes) -> bool:
        """Remove an ACL. Return whether it was in the index."""
        entry = self._entries.pop(entry_id, None)
        if entry is None:
            return False
        pattern, who, bit = _place(entry)
        if (pattern, who, bit) in self._repeated:
            _add(self._repeated, (pattern, who, bit), -1)
            return True
        cell = self._patterns[pattern]
        cell[who] &= ~bit
        if not cell[who]:
            del cell[who]
            self._count_range(pattern, who, -1)
            of_principal = self._of_principal[pattern.resource_type, who[0]]
            _add(of_principal, pattern, -1)
            if not of_principal:
                del self._of_principal[pattern.resource_type, who[0]]
        if not cell:
            del self._patterns[pattern]
            if pattern.pattern_type == PatternType.PREFIXED:
                _add(self._lengths[pattern.resource_type], len(pattern.name), -1)
        return True

    def _count_range(self, pattern: Pattern, who: _Who, count: int) -> None:
        network = range_of(who[1])
        if network is not None:
            _add(self._ranged, pattern, count)
            _add(self._range_sizes, (network.version, network.prefixlen), count)

    # -- checks -----------------------------------------------------------------------------------

    def bits(self, resource_type: int, name: str, principal: str, host: str) -> int:
        """Return what the ACLs allow and deny a client on a resource, as bits."""
        find = self._patterns.get
        keys = self._keys(resource_type, name)
        cells = [cell for cell in map(find, keys) if cell is not None]
        if not cells:
            return 0
        result = HAS_ACLS
        hosts = _who(principal, host)
        for cell in cells:
            for who in hosts:
                found = cell.get(who)
                if found is not None:
                    result |= found
        if self._ranged:
            result |= self._bits_of_ranges(keys, principal, host)
        return result

    def _bits_of_ranges(self, keys: list[_Key], principal: str, host: str) -> int:
        result = 0
        ranged = [self._patterns[key] for key in keys if key in self._ranged]
        if ranged:
            for network in self._networks(host):
                for cell in ranged:
                    result |= cell.get((principal, network), 0) | cell.get((ANYONE, network), 0)
        return result

    def _networks(self, host: str) -> Iterator[str]:
        """Yield the names of the ranges that contain an address, and that ACLs could have."""
        host = short_host(host)
        for version, bits in self._range_sizes:
            network = network_name(host, version, bits)
            if network is not None:
                yield network

    def rule(
        self,
        resource_type: int,
        name: str,
        principal: str,
        host: str,
        operation: AclOperation,
    ) -> AccessControlEntry | None:
        """Return the ACL that decides about an operation: a denial if there is one.

        Return None if no ACL decides. The ACL has the shortest form of its host.
        """
        clients = [*_who(principal, host)]
        clients += [(user, each) for user in (principal, ANYONE) for each in self._networks(host)]
        for wanted in (DENIED_BY[operation], ALLOWED_BY[operation]):
            for pattern in self._matching(resource_type, name):
                for who in clients:
                    found = self._patterns[pattern].get(who, 0) & wanted
                    if found:
                        return _entry(pattern, who, found)
        return None

    def allows_anywhere(
        self, resource_type: int, principal: str, host: str, operation: AclOperation
    ) -> bool:
        """Return whether ACLs allow an operation on any resource of a type.

        This is the rule of Kafka's Authorizer.authorizeByResourceType (KIP-679). Implied operations
        do not count. A denial for all resources denies. An allowance for a name or a prefix counts
        unless the same name or one of its prefixes is denied.
        """
        allowed: list[Pattern] = []
        denied: set[Pattern] = set()
        everywhere = Pattern(resource_type, PatternType.LITERAL, WILDCARD)
        hosts = [short_host(host), WILDCARD, *self._networks(host)]
        for user in (principal, ANYONE):
            for pattern in self._of_principal.get((resource_type, user), ()):
                cell = self._patterns[pattern]
                bits = 0
                for each in hosts:
                    bits |= cell.get((user, each), 0)
                if bits & DENIED_BY[operation]:
                    denied.add(pattern)
                if bits & EXACTLY_ALLOWED_BY[operation]:
                    allowed.append(pattern)
        if everywhere in denied:
            return False
        if everywhere in allowed:
            return True
        return any(not _is_denied(pattern, denied) for pattern in allowed)

    def _keys(self, resource_type: int, name: str) -> list[_Key]:
        """Return the patterns that match a resource, whether they have ACLs or not."""
        literal = PatternType.LITERAL
        keys: list[_Key] = [(resource_type, literal, name), (resource_type, literal, WILDCARD)]
        prefixed, longest = PatternType.PREFIXED, len(name)
        lengths = self._lengths.get(resource_type)
        if lengths:
            keys += [(resource_type, prefixed, name[:n]) for n in lengths if n <= longest]
        return keys

    def _matching(self, resource_type: int, name: str) -> Iterator[Pattern]:
        """Yield the patterns that match a resource, the longest prefix first after the name."""
        literal = PatternType.LITERAL
        keys = [Pattern(resource_type, literal, name)]
        keys += [
            Pattern(resource_type, PatternType.PREFIXED, name[:length])
            for length in sorted(self._lengths.get(resource_type, ()), reverse=True)
            if length <= len(name)
        ]
        keys.append(Pattern(resource_type, literal, WILDCARD))
        return (key for key in keys if key in self._patterns)


def _who(principal: str, host: str) -> tuple[_Who, ...]:
    host = short_host(host)
    return (principal, host), (principal, WILDCARD), (ANYONE, host), (ANYONE, WILDCARD)


def _place(entry: AccessControlEntry) -> tuple[Pattern, _Who, int]:
    """Return where an ACL is stored.

    An unknown operation matches no operation. An unknown permission denies, and an unknown pattern
    is a prefix, as in Apache Kafka.
    """
    is_literal = entry.pattern_type == PatternType.LITERAL
    kind = PatternType.LITERAL if is_literal else PatternType.PREFIXED
    shift = int(AclOperation(entry.operation))
    if entry.permission_type != AclPermissionType.ALLOW:
        shift += DENIED
    pattern = Pattern(entry.resource_type, kind, entry.resource_name)
    network = range_of(entry.host)
    host = short_host(entry.host) if network is None else str(network)
    return pattern, (entry.principal, host), 1 << shift


def _entry(pattern: Pattern, who: _Who, bits: int) -> AccessControlEntry:
    """Return the ACL of the lowest bit."""
    position = (bits & -bits).bit_length() - 1
    permission = AclPermissionType.ALLOW if position < DENIED else AclPermissionType.DENY
    return AccessControlEntry(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        *who,
        position % DENIED,
        permission,
    )


def _is_denied(pattern: Pattern, denied: set[Pattern]) -> bool:
    kind, prefixed, name = pattern.resource_type, PatternType.PREFIXED, pattern.name
    if pattern.pattern_type == PatternType.LITERAL and pattern in denied:
        return True
    return any(Pattern(kind, prefixed, name[: n + 1]) in denied for n in range(len(name)))


def _add(counts: dict[KeyT, int], key: KeyT, count: int) -> None:
    """Change a count. A count of 0 is removed."""
    after = counts.get(key, 0) + count
    if after:
        counts[key] = after
    else:
        del counts[key]
