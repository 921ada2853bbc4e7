"""Requests that show at the end what the other requests have changed."""

from __future__ import annotations

from tests.authorizer.matrix.request import Request
from tests.authorizer.matrix.rights import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, Right

from odradek.model.acl import CLUSTER_NAME, AclOperation

EVERYTHING = tuple(
    Right(AclOperation.ALL, kind, CLUSTER_NAME if kind is CLUSTER else "*")
    for kind in (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID)
)
CREATED, DELETED = ("new-a", "n3", "n4"), ("d1", "d3", "d5", "d6")
"""The topics that users with the right to do so have created and deleted."""
_GROUPS = ("g", "h", "o", "e1", "e2")
_ACLS = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}

FINAL_REQUESTS = [
    Request("at the end", api, version, fields, EVERYTHING)
    for api, version, fields in (
        ("Metadata", 12, {"topics": None, "include_topic_authorized_operations": True}),
        ("ListGroups", 5, {}),
        ("OffsetFetch", 9, {"groups": [{"group_id": each, "topics": None} for each in _GROUPS]}),
        ("DescribeGroups", 5, {"groups": [*_GROUPS, "classic", "j3", "j5"]}),
        ("ListTransactions", 1, {}),
        ("DescribeTransactions", 0, {"transactional_ids": ["x", "y", "open", "i4", "i5"]}),
        ("DescribeAcls", 3, {**_ACLS, "principal_filter": "User:z"}),
        ("DescribeAcls", 2, {**_ACLS, "principal_filter": "User:z2"}),
        ("DescribeClientQuotas", 1, {"components": [], "strict": False}),
        ("DescribeUserScramCredentials", 0, {"users": None}),
        (
            "DescribeShareGroupOffsets", 0,
            {"groups": [{"group_id": each, "topics": None} for each in ("s-both", "s-empty")]},
        ),
        (
            "ListOffsets", 5,
            {"replica_id": -1, "topics": [
                {"name": each, "partitions": [{"partition_index": 0, "timestamp": -1}]}
                for each in ("t", "u", "w", "v", "r")
            ]},
        ),
    )
]  # fmt: skip
