"""The index of ACLs against a model that looks at each ACL."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.core.authorizer.address_ranges import parse_range
from odradek.core.authorizer.authorizer import StandardAuthorizer
from odradek.core.authorizer.filters import AclFilter
from odradek.core.authorizer.index import AclIndex
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import (
    ANYONE,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
NAMES = ("a", "ab", "abc", "b", "bc", WILDCARD)
USERS = ("User:a", "User:b", "Group:a", ANYONE)
HOSTS = ("10.0.0.1", "::1", WILDCARD, "10.0.0.0/24", "10.0.0.0/31", "::/127", "0.0.0.0/0")
OPERATIONS = tuple(each for each in AclOperation if each > AclOperation.ANY)
ASKED = tuple(each for each in OPERATIONS if each is not AclOperation.ALL)

entries = st.builds(
    AccessControlEntry,
    st.sampled_from((int(TOPIC), int(GROUP))),
    st.sampled_from(NAMES),
    st.sampled_from((int(LITERAL), int(PREFIXED))),
    st.sampled_from(USERS),
    st.sampled_from(HOSTS),
    st.sampled_from(tuple(map(int, OPERATIONS))),
    st.sampled_from((int(ALLOW), int(DENY))),
)
ids = st.sampled_from([bytes([each]) * 16 for each in range(8)])
changes = st.lists(st.tuples(ids, st.one_of(st.none(), entries, entries, entries)), max_size=20)


def matches(acl: AccessControlEntry, kind: int, name: str) -> bool:
    if acl.resource_type != kind:
        return False
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def permissions(
    acls: list[AccessControlEntry], kind: int, name: str, user: str, host: str
) -> list[tuple[int, int]]:
    return [
        (acl.permission_type, acl.operation)
        for acl in acls
        if matches(acl, kind, name)
        and acl.principal in (user, ANYONE)
        and (acl.host in (host, WILDCARD) or is_in_range(acl.host, host))
    ]


def is_in_range(acl_host: str, host: str) -> bool:
    return "/" in acl_host and ip_address(host) in ip_network(acl_host)


IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def verdict(
    acls: list[AccessControlEntry],
    kind: int,
    name: str,
    user: str,
    host: str,
    operation: AclOperation,
    *,
    default: bool = False,
    implied: bool = True,
) -> bool:
    """What Apache Kafka answers."""
    if not any(matches(acl, kind, name) for acl in acls):
        return default
    found = permissions(acls, kind, name, user, host)
    exact = {AclOperation.ALL, operation}
    if any(permission == DENY and each in exact for permission, each in found):
        return False
    enough = exact | (IMPLYING.get(operation, set()) if implied else set())
    return any(permission == ALLOW and each in enough for permission, each in found)


@settings(max_examples=40)
@given(changes, st.booleans())
def test_the_index_decides_as_the_model(
    changed: list[tuple[bytes, AccessControlEntry | None]], default: bool
) -> None:
    authorizer = StandardAuthorizer(["User:root"], default)
    authorizer.load({})
    known: dict[bytes, AccessControlEntry] = {}
    for entry_id, entry in changed:
        before = authorizer.generation
        authorizer.apply({entry_id: entry})
        assert (authorizer.generation > before) == (known.get(entry_id) != entry)
        if entry is None:
            known.pop(entry_id, None)
        else:
            known[entry_id] = entry
    acls = list(known.values())
    assert authorizer.acl_count == len(acls)
    for kind in (TOPIC, GROUP):
        for name in ("a", "ab", "abcd", "c"):
            for user in ("User:a", "User:c", "Group:a"):
                for host in ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"):
                    shown = "::1" if ":" in host else host
                    for operation in ASKED:
                        expected = verdict(
                            acls, kind, name, user, shown, operation, default=default
                        )
                        asked = (user, host, operation, kind, name)
                        assert authorizer.allows(*asked) == expected
                        rule = authorizer.explain(*asked)
                        assert rule.is_allowed == expected
                        if rule.entry is not None:
                            assert rule.entry in acls
                            assert (rule.entry.permission_type == ALLOW) == expected
                    listed = authorizer.operations(user, host, ASKED, kind, name)
                    assert listed == [
                        each for each in ASKED if authorizer.allows(user, host, each, kind, name)
                    ]
    assert authorizer.allows("User:root", "10.0.0.1", AclOperation.ALTER, TOPIC, "a")


@given(st.lists(entries, max_size=12))
def test_what_is_allowed_anywhere(acls: list[AccessControlEntry]) -> None:
    authorizer = StandardAuthorizer([], False)
    authorizer.load({bytes([n]): acl for n, acl in enumerate(acls)})
    names = {acl.resource_name for acl in acls} | {"hardcode"}
    names |= {f"{name}~" for name in names}  # a name that only prefixes match
    for user in ("User:a", "User:c"):
        expected = any(
            verdict(acls, TOPIC, name, user, "10.0.0.1", AclOperation.WRITE, implied=False)
            for name in names
        )
        write = AclOperation.WRITE
        assert authorizer.allows_anywhere(user, "10.0.0.1", write, TOPIC) == expected


@given(changes)
def test_nothing_is_left_of_removed_acls(
    changed: list[tuple[bytes, AccessControlEntry | None]],
) -> None:
    index = AclIndex()
    for entry_id, entry in changed:
        if entry is not None:
            index.put(entry_id, entry)
    for entry_id in {entry_id for entry_id, _ in changed}:
        index.remove(entry_id)
    assert len(index) == 0
    assert not any((index._patterns, index._of_principal, index._repeated))
    assert not any(index._lengths.values())


def test_what_is_unknown_to_this_version() -> None:
    index = AclIndex()
    entry = AccessControlEntry(int(TOPIC), "a", int(LITERAL), "User:a", WILDCARD, 99, int(ALLOW))
    index.put(b"1", entry)
    index.put(b"2", entry._replace(operation=int(AclOperation.ALL), permission_type=9))
    authorizer = StandardAuthorizer([], True)
    authorizer.load({b"1": entry})
    assert not authorizer.allows("User:a", "h", AclOperation.READ, TOPIC, "a")
    authorizer.load({b"1": entry._replace(operation=int(AclOperation.READ), permission_type=9)})
    assert not authorizer.allows("User:a", "h", AclOperation.READ, TOPIC, "a")


def test_addresses() -> None:
    authorizer = StandardAuthorizer([], False)
    hosts = ("192.168.0.1", "2001:db8:0::1", "a.name")
    authorizer.load(
        {
            host.encode(): AccessControlEntry(
                int(TOPIC), "a", int(LITERAL), "User:a", host, int(AclOperation.READ), int(ALLOW)
            )
            for host in hosts
        }
    )

    def allowed(host: str) -> bool:
        return authorizer.allows("User:a", host, AclOperation.READ, TOPIC, "a")

    assert allowed("192.168.0.1")
    assert allowed("::ffff:192.168.0.1")
    assert allowed("2001:db8::1")
    assert not allowed("192.168.0.2")
    assert not allowed("10.0.0.1")


filters = st.builds(
    AclFilter,
    st.sampled_from((AclResourceType.ANY, TOPIC, GROUP, AclResourceType.UNKNOWN)),
    st.one_of(st.none(), st.sampled_from(NAMES), st.just("abcd")),
    st.sampled_from(tuple(PatternType)),
    st.one_of(st.none(), st.sampled_from(USERS)),
    st.one_of(st.none(), st.sampled_from(HOSTS)),
    st.sampled_from((AclOperation.ANY, *OPERATIONS)),
    st.sampled_from((AclPermissionType.ANY, ALLOW, DENY)),
)


def selects(found: AclFilter, acl: AccessControlEntry) -> bool:
    pairs = [
        (found.resource_type, AclResourceType.ANY, acl.resource_type),
        (found.principal, None, acl.principal),
        (found.host, None, acl.host),
        (found.operation, AclOperation.ANY, acl.operation),
        (found.permission_type, AclPermissionType.ANY, acl.permission_type),
    ]
    if any(wanted not in (every, value) for wanted, every, value in pairs):
        return False
    name, kind = found.resource_name, found.pattern_type
    if kind is PatternType.MATCH:
        return name is None or matches(acl, acl.resource_type, name)
    return kind in (PatternType.ANY, acl.pattern_type) and name in (None, acl.resource_name)


@given(filters, entries)
def test_filters(found: AclFilter, acl: AccessControlEntry) -> None:
    assert found.matches(acl) == selects(found, acl)
    if found.entry is not None:
        assert found.matches(acl) == (found.entry == acl)


def test_many_acls() -> None:
    """A check finds the few ACLs that concern it among many."""
    authorizer = StandardAuthorizer([], False)
    acls = {}
    for n in range(5_000):
        entry = AccessControlEntry(
            int(TOPIC),
            f"t{n}",
            int(LITERAL),
            f"User:{n}",
            WILDCARD,
            int(AclOperation.READ),
            int(ALLOW),
        )
        acls[f"literal {n}".encode()] = entry
        acls[f"prefix {n}".encode()] = entry._replace(
            resource_name=f"p{n:04}-", pattern_type=int(PREFIXED)
        )
    authorizer.load(acls)
    for n in range(0, 5_000, 100):
        user, read = f"User:{n}", AclOperation.READ
        assert authorizer.allows(user, "h", read, TOPIC, f"t{n}")
        assert authorizer.allows(user, "h", read, TOPIC, f"p{n:04}-x")
        assert not authorizer.allows(user, "h", read, TOPIC, f"t{n + 1}")
        assert authorizer.allows_anywhere(user, "h", read, TOPIC)
        assert not authorizer.allows_anywhere(user, "h", AclOperation.WRITE, TOPIC)


def acl(host: str, permission: AclPermissionType = ALLOW) -> AccessControlEntry:
    return AccessControlEntry(TOPIC, "a", LITERAL, "User:a", host, AclOperation.WRITE, permission)


def may_write(authorizer: StandardAuthorizer, host: str) -> bool:
    return authorizer.allows("User:a", host, AclOperation.WRITE, TOPIC, "a")


@pytest.mark.parametrize(
    ("acl_host", "inside", "outside"),
    [
        ("10.0.0.0/8", ("10.0.0.0", "10.1.2.3", "10.255.255.255"), ("9.255.255.255", "11.0.0.0")),
        ("10.1.2.3/8", ("10.0.0.0", "10.255.255.255"), ("11.0.0.0", "::a00:1")),
        ("010.1.2.3/32", ("10.1.2.3",), ("10.1.2.2", "10.1.2.4")),
        ("0.0.0.0/0", ("255.255.255.255", "1.2.3.4"), ("::1",)),
        (
            "2001:db8::/32",
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db9::", "10.0.0.1"),
        ),
        ("::/0", ("::1", "ffff::"), ("10.0.0.1", "::ffff:10.0.0.1")),
        ("10.0.0.0/33", (), ("10.0.0.0",)),
        ("10.0.0/8", (), ("10.0.0.0",)),
    ],
)
def test_ranges_of_addresses(
    acl_host: str, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    authorizer = StandardAuthorizer([], False)
    authorizer.load({b"1": acl(acl_host)})
    for host in inside:
        assert may_write(authorizer, host), host
        assert authorizer.allows_anywhere("User:a", host, AclOperation.WRITE, TOPIC)
    for host in outside:
        assert not may_write(authorizer, host), host
        assert not authorizer.allows_anywhere("User:a", host, AclOperation.WRITE, TOPIC)


def test_two_names_of_one_range() -> None:
    authorizer = StandardAuthorizer([], False)
    authorizer.load({b"1": acl("10.0.0.0/8"), b"2": acl("10.9.9.9/8")})
    authorizer.apply({b"1": None})
    assert may_write(authorizer, "10.0.0.1")
    authorizer.apply({b"2": None, b"3": acl("10.0.0.1")})
    assert may_write(authorizer, "10.0.0.1")
    assert not may_write(authorizer, "10.0.0.2")


def test_a_range_denies_an_address_that_is_allowed() -> None:
    authorizer = StandardAuthorizer([], False)
    authorizer.load({b"1": acl("10.0.0.1"), b"2": acl("10.0.0.0/24", DENY)})
    assert not may_write(authorizer, "10.0.0.1")
    rule = authorizer.explain("User:a", "10.0.0.1", AclOperation.WRITE, TOPIC, "a")
    assert rule.entry == acl("10.0.0.0/24", DENY)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("10.0.0.256/8", "Value [256] not in range [0,255]"),
        ("10.0.0/8", "Could not parse [10.0.0/8]"),
        ("/", "Could not parse [/]"),
        ("name/8", "Could not parse [name/8]"),
        (
            "2001:db8::/129",
            "Could not parse [2001:db8::/129] - prefix length must be between 0 and 128",
        ),
        ("2001:db8::/x", "Could not parse [2001:db8::/x] - invalid prefix length"),
        ("2001:zz::/32", "Could not parse [2001:zz::]"),
    ],
)
def test_what_is_no_range(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        parse_range(text)
    assert str(error.value) == problem
