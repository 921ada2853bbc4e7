"""Creating and deleting ACLs."""

import pytest

from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.snapshot import image_records
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.create_acls_request import AclCreation, CreateAclsRequest
from odradek.wire.generated.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest

from .harness import Controller


def controller(**arguments):
    return Controller(authorizer_class_name=STANDARD_AUTHORIZER, **arguments).join(1)


def acl(name="t", **fields):
    values = {
        "resource_type": AclResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:a",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermissionType.ALLOW,
    }
    return AclCreation(**{**values, **fields})


def chosen(**fields):
    values = {
        "resource_type_filter": AclResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermissionType.ANY,
    }
    return DeleteAclsFilter(**{**values, **fields})


def create(node, *acls):
    results = node.ask(CreateAclsRequest(creations=list(acls)), 3).response.results
    return [(each.error_code, each.error_message) for each in results]


def delete(node, *filters):
    results = node.ask(DeleteAclsRequest(filters=list(filters)), 3).response.filter_results
    return [
        [found.resource_name for found in each.matching_acls] or each.error_code for each in results
    ]


def names(node):
    return sorted(each.resource_name for each in node.image.acls.values())


def test_acls_are_created_once():
    node = controller()
    assert create(node, acl("a"), acl("b"), acl("a")) == [(0, "")] * 3
    assert create(node, acl("b"), acl("c")) == [(0, "")] * 2
    assert names(node) == ["a", "b", "c"]
    node.fail_over()
    assert create(node, acl("c")) == [(0, "")]
    assert names(node) == ["a", "b", "c"]


def test_a_snapshot_has_the_acls():
    node = controller()
    create(node, acl("a"), acl("b", host="::1"))
    loader = BatchLoader()
    loader.load_snapshot(image_records(node.image), 10, 1)
    assert loader.image.acls == node.image.acls


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"resource_type": AclResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"permission_type": AclPermissionType.ANY}, "Invalid permissionType ANY"),
        ({"resource_type": AclResourceType.CLUSTER}, "The only valid name for the CLUSTER"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"principal": "a"}, "Could not parse principal from `a` (no colon"),
        ({"host": ""}, "Host pattern cannot be null or empty"),
        (
            {"host": "10.0.0.0/33"},
            "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]",
        ),
        ({"host": "a/b"}, "Invalid CIDR notation 'a/b': Could not parse [a/b]"),
    ],
)
def test_invalid_acls_are_refused_alone(wrong, problem):
    node = controller()
    (code, message), fine = create(node, acl(**wrong), acl("fine"))
    assert code == ErrorCode.INVALID_REQUEST
    assert message.startswith(problem)
    assert fine == (0, "")
    assert names(node) == ["fine"]


def test_ranges_of_addresses_need_a_level():
    ranges = [acl("a", host="10.0.0.0/8"), acl("b", host="2001:db8::/32")]
    assert create(controller(), *ranges) == [(0, "")] * 2
    answers = create(controller(level=31), *ranges, acl("c"))
    text = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
    assert answers == [(ErrorCode.UNSUPPORTED_VERSION, text)] * 2 + [(0, "")]


def test_acls_are_deleted_by_filters():
    node = controller()
    create(node, acl("a"), acl("b"), acl("b", principal="User:b"), acl("c", host="1.2.3.4"))
    exact = chosen(
        resource_type_filter=AclResourceType.TOPIC,
        resource_name_filter="a",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter="User:a",
        host_filter="*",
        operation=AclOperation.READ,
        permission_type=AclPermissionType.ALLOW,
    )
    found = delete(node, exact, chosen(principal_filter="User:b"), chosen(host_filter="::1"))
    assert found == [["a"], ["b"], 0]
    assert names(node) == ["b", "c"]
    both = delete(node, chosen(), chosen(resource_name_filter="b"))
    assert [sorted(each) for each in both] == [["b", "c"], ["b"]]
    assert names(node) == []
    assert create(node, acl("a")) == [(0, "")]
    assert names(node) == ["a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type_filter": 0},
        {"pattern_type_filter": 77},
        {"operation": 0},
        {"permission_type": 77},
    ],
)
def test_a_filter_with_an_unknown_number_is_refused(wrong):
    node = controller()
    create(node, acl("a"))
    assert delete(node, chosen(**wrong)) == [ErrorCode.INVALID_REQUEST]
    assert names(node) == ["a"]


@pytest.mark.parametrize("request_", [CreateAclsRequest(), DeleteAclsRequest()])
def test_without_an_authorizer_there_are_no_acls(request_):
    node = Controller().join(1)
    with pytest.raises(ApiError) as caught:
        node.ask(request_, 3)
    assert caught.value.code is ErrorCode.SECURITY_DISABLED
