"""ACLs as words, and the reasons of the authorizer."""

from __future__ import annotations

import pytest

from odradek.client.admin.acls import Explanation
from odradek.core.authorizer.authorizer import Rule
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.operations.acls import (
    Pattern,
    acl_json,
    operation_text,
    parse_operation,
    parse_pattern,
    principal_of,
    reason_text,
)

TOPIC = AclResourceType.TOPIC


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("topic:flights", Pattern(TOPIC, "flights", PatternType.LITERAL)),
        ("Topic:flights-*", Pattern(TOPIC, "flights-", PatternType.PREFIXED)),
        ("topic:*", Pattern(TOPIC, "*", PatternType.LITERAL)),
        ("topic:a:b", Pattern(TOPIC, "a:b", PatternType.LITERAL)),
        (
            "transactional_id:job",
            Pattern(AclResourceType.TRANSACTIONAL_ID, "job", PatternType.LITERAL),
        ),
        ("cluster", Pattern(AclResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)),
    ],
)
def test_resources(text, pattern) -> None:
    assert parse_pattern(text) == pattern
    assert parse_pattern(str(pattern)) == pattern


@pytest.mark.parametrize("text", ["", "topics:a", "topic", "topic:", "cluster:other", "any:a"])
def test_what_is_no_resource(text) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_pattern(text)


@pytest.mark.parametrize("each", [e for e in AclOperation if e > AclOperation.ANY])
def test_operations_are_read_as_they_are_written(each) -> None:
    assert parse_operation(operation_text(each)) is each
    assert parse_operation(f" {each.name} ") is each


def test_what_is_no_operation() -> None:
    with pytest.raises(ValueError, match="there is no operation 'any'"):
        parse_operation("any")


def test_principals() -> None:
    assert principal_of("alice") == "User:alice"
    assert principal_of("Group:ops") == "Group:ops"


def entry(operation: AclOperation, host: str = "*") -> AccessControlEntry:
    return AccessControlEntry(
        TOPIC, "flights-", PatternType.PREFIXED, "User:a", host, operation, AclPermissionType.ALLOW
    )


def test_an_acl_as_json() -> None:
    assert acl_json(entry(AclOperation.DESCRIBE_CONFIGS)) == {
        "principal": "User:a",
        "permission": "allow",
        "operation": "describe-configs",
        "resource_type": "topic",
        "resource_name": "flights-",
        "pattern_type": "prefixed",
        "host": "*",
    }


def explanation(rule: Rule | None, *applying: AccessControlEntry) -> Explanation:
    return Explanation(rule is None or rule.is_allowed, rule, applying, ())


def test_the_reason_is_the_rule_that_decides() -> None:
    by_acl = Rule(True, "MatchingAcl", entry(AclOperation.READ, "10.0.0.1"))
    assert reason_text(explanation(by_acl), AclOperation.DESCRIBE) == (
        "An ACL allows User:a read on topic:flights-* from 10.0.0.1, which implies describe."
    )
    assert reason_text(explanation(by_acl), AclOperation.READ).endswith("from 10.0.0.1.")
    default = Rule(False, "DefaultDeny", None)
    assert "none allows this" in reason_text(
        explanation(default, entry(AclOperation.READ)), AclOperation.WRITE
    )
    assert reason_text(explanation(default), AclOperation.WRITE).endswith("is false.")
    assert "no authorizer" in reason_text(explanation(None), AclOperation.WRITE)
    assert "super.users" in reason_text(
        explanation(Rule(True, "SuperUser", None)), AclOperation.WRITE
    )
