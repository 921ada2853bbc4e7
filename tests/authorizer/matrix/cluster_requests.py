"""Requests of the matrix about settings, ACLs, quotas, users and the cluster."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.authorizer.matrix.node_requests import OTHER, requests_between_nodes
from tests.authorizer.matrix.request import NAMES, UNKNOWN_ID, Request, by_name
from tests.authorizer.matrix.rights import Right, cluster, groups, topics

from odradek.model.acl import AclOperation

DESCRIBE, ALTER, CREATE = AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.CREATE
DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
TOPIC_KIND, BROKER_KIND, LOGGER_KIND, METRICS_KIND, GROUP_KIND = 2, 4, 8, 16, 32
_ACL = {
    "resource_type": 2,
    "resource_name": "unused",
    "principal": "User:z2",
    "host": "*",
    "operation": int(AclOperation.READ),
    "permission_type": 3,
}
_FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def _resources(*pairs: tuple[int, str], **fields: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": k, "resource_name": n, **fields} for k, n in pairs]}


def _described_settings() -> list[Request]:
    kinds = [*((TOPIC_KIND, name) for name in NAMES), (GROUP_KIND, "g"), (GROUP_KIND, "h")]
    everything = [*kinds, (BROKER_KIND, "1"), (METRICS_KIND, "m")]
    keys = {"configuration_keys": ["cleanup.policy", "consumer.session.timeout.ms"]}
    nothing: dict[str, Any] = {"configs": []}
    valid = {"validate_only": True}
    mine = [*topics(DESCRIBE_CONFIGS), *groups(DESCRIBE_CONFIGS), *cluster(DESCRIBE_CONFIGS)]
    alter = [*topics(ALTER_CONFIGS), *groups(ALTER_CONFIGS), *cluster(ALTER_CONFIGS)]
    return [
        Request("", "DescribeConfigs", 4, _resources(*everything, **keys), mine),
        Request("", "DescribeConfigs", 1, _resources(*everything, **keys), mine),
        Request(
            "only ALTER_CONFIGS", "DescribeConfigs", 4, _resources(*everything, **keys), alter
        ),
        Request(
            "of brokers", "DescribeConfigs", 4,
            _resources((BROKER_KIND, ""), (BROKER_KIND, "1"), (LOGGER_KIND, "1"),
                       configuration_keys=["no.such"]),
            cluster(DESCRIBE_CONFIGS),
        ),
        Request(
            "of a missing broker", "DescribeConfigs", 4,
            _resources((BROKER_KIND, "99"), (TOPIC_KIND, "t"), **keys), mine,
        ),
        *(
            Request("an unknown type", api, 1, {**_resources((TOPIC_KIND, "t"), (7, "x"), **fields), **more}, mine)
            for api, fields, more in (
                ("DescribeConfigs", keys, {}),
                ("AlterConfigs", nothing, valid),
                ("IncrementalAlterConfigs", nothing, valid),
            )
        ),
    ]  # fmt: skip


def _wrong_settings_of_a_broker(needs: list[Right]) -> list[Request]:
    changes = {
        "an invalid value of a broker": ("log.cleaner.threads", 0, "many"),
        "an element of an unknown setting of a broker": ("no.such.setting", 2, "a"),
    }
    return [
        Request(
            title, "IncrementalAlterConfigs", 1,
            {**_resources((BROKER_KIND, "1"), configs=[
                {"name": name, "config_operation": operation, "value": value}]),
             "validate_only": True},
            needs,
        )
        for title, (name, operation, value) in changes.items()
    ]  # fmt: skip


_TOPICS = [(TOPIC_KIND, name) for name in NAMES]
_OTHERS = [(GROUP_KIND, "g"), (GROUP_KIND, "h"), (BROKER_KIND, "1"), (METRICS_KIND, "m")]


def _settings_of_topics_and_loggers(alter: list[Right]) -> list[Request]:
    nothing: dict[str, Any] = {"configs": []}
    valid = {"validate_only": True}
    return [
        Request(
            "loggers twice", "IncrementalAlterConfigs", 1,
            {**_resources((LOGGER_KIND, "1"), (LOGGER_KIND, "1"), (TOPIC_KIND, "t"), **nothing),
             **valid},
            alter,
        ),
        Request(
            "null values", "IncrementalAlterConfigs", 1,
            {**_resources(*_TOPICS[:2], configs=[
                {"name": "retention.ms", "config_operation": 0, "value": None}]), **valid},
            alter,
        ),
    ]  # fmt: skip


def _changed_settings(alter: list[Right]) -> list[Request]:
    changed = {"configs": [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]}
    of_group = {
        "configs": [
            {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}
        ]
    }
    nothing: dict[str, Any] = {"configs": []}
    valid = {"validate_only": True}
    return [
        Request("", "IncrementalAlterConfigs", 1, {**_resources(*_TOPICS, **changed), **valid}, alter),
        Request(
            "other types", "IncrementalAlterConfigs", 1,
            {**_resources(*_OTHERS, **nothing), **valid}, alter,
        ),
        Request(
            "of groups", "IncrementalAlterConfigs", 0,
            {**_resources((GROUP_KIND, "g"), (GROUP_KIND, "h"), **of_group), **valid}, alter,
        ),
        Request(
            "loggers and defaults", "IncrementalAlterConfigs", 1,
            {**_resources((LOGGER_KIND, "1"), (BROKER_KIND, ""), (BROKER_KIND, "99"), **nothing),
             **valid},
            cluster(ALTER_CONFIGS),
        ),
        Request(
            "twice", "IncrementalAlterConfigs", 1,
            {**_resources((TOPIC_KIND, "t"), (TOPIC_KIND, "t"), (TOPIC_KIND, "u"), **changed),
             **valid},
            alter,
        ),
    ]  # fmt: skip


def _replaced_settings(alter: list[Right]) -> list[Request]:
    replaced = {"configs": [{"name": "retention.ms", "value": "1000"}]}
    nothing: dict[str, Any] = {"configs": []}
    valid = {"validate_only": True}
    return [
        Request("", "AlterConfigs", 2, {**_resources(*_TOPICS, **replaced), **valid}, alter),
        Request(
            "other types", "AlterConfigs", 0,
            {**_resources(*_OTHERS, **nothing), **valid}, alter,
        ),
        *(
            Request(
                "", "ListConfigResources", version, fields, cluster(DESCRIBE_CONFIGS)
            )
            for version, fields in (
                (0, {}), (1, {"resource_types": [TOPIC_KIND]}), (1, {"resource_types": [4, 16, 32]})
            )
        ),
    ]  # fmt: skip


def _settings() -> list[Request]:
    alter = [*topics(ALTER_CONFIGS), *groups(ALTER_CONFIGS), *cluster(ALTER_CONFIGS)]
    return [
        *_described_settings(),
        *_settings_of_topics_and_loggers(alter),
        *_wrong_settings_of_a_broker(alter),
        *_changed_settings(alter),
        *_replaced_settings(alter),
    ]


def _rules() -> list[Request]:
    alter = cluster(ALTER)
    describe = cluster(DESCRIBE)
    return [
        Request(
            "", "DescribeAcls", 3, {**_FILTER, "principal_filter": "User:z"}, describe
        ),
        Request(
            "only ALTER", "DescribeAcls", 1, {**_FILTER, "principal_filter": "User:z"}, alter
        ),
        Request("", "CreateAcls", 3, {"creations": [_ACL]}, alter),
        Request(
            "a user's own ACL", "DescribeAcls", 2, {**_FILTER, "principal_filter": "User:z2"},
            describe,
        ),
        Request(
            "", "DeleteAcls", 3, {"filters": [{**_FILTER, "principal_filter": "User:z2"}]}, alter
        ),
    ]  # fmt: skip


def _users_and_logs() -> list[Request]:
    alter = cluster(ALTER)
    describe = cluster(DESCRIBE)
    quota = {
        "entity": [{"entity_type": "user", "entity_name": "z"}],
        "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
    }
    salted = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p"}
    return [
        Request(
            "", "DescribeClientQuotas", 1,
            {"components": [{"entity_type": "user", "match_type": 0, "match": "z"}]},
            cluster(DESCRIBE_CONFIGS),
        ),
        Request(
            "", "AlterClientQuotas", 1, {"entries": [quota], "validate_only": True},
            cluster(ALTER_CONFIGS),
        ),
        Request(
            "named", "DescribeUserScramCredentials", 0,
            {"users": [{"name": "z"}, {"name": "scram"}]}, describe,
        ),
        Request(
            "", "AlterUserScramCredentials", 0,
            {"deletions": [{"name": "z", "mechanism": 1}], "upsertions": []}, alter,
        ),
        Request(
            "upserted", "AlterUserScramCredentials", 0,
            {"deletions": [], "upsertions": [{"name": "", **salted}]}, alter,
        ),
        Request(
            "", "AlterReplicaLogDirs", 2,
            {"dirs": [{"path": "/no/such", "topics": [
                {"name": each, "partitions": [0]} for each in ("t", "gone")
            ]}]},
            alter,
        ),
        Request("all", "DescribeLogDirs", 4, {"topics": None}, describe),
        Request(
            "", "DescribeLogDirs", 5,
            {"topics": [{"topic": each, "partitions": [0]} for each in NAMES]}, describe,
        ),
        Request("", "DescribeLogDirs", 2, {"topics": None}, alter),
    ]  # fmt: skip


def _partitions() -> list[Request]:
    alter = cluster(ALTER)
    describe = cluster(DESCRIBE)
    quorum = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    elected = [{"topic": each, "partitions": [0]} for each in ("t", "gone")]
    moved = [
        {"name": each, "partitions": [{"partition_index": 0, "replicas": [1]}]}
        for each in ("t", "gone")
    ]
    return [
        Request("", "ElectLeaders", 2, {"topic_partitions": elected, "timeout_ms": 5000}, alter),
        Request("all", "ElectLeaders", 0, {"topic_partitions": None, "timeout_ms": 5000}, alter),
        Request(
            "", "AlterPartitionReassignments", 1, {"topics": moved, "timeout_ms": 5000}, alter
        ),
        Request("all", "ListPartitionReassignments", 0, {"topics": None}, describe),
        Request(
            "", "ListPartitionReassignments", 0,
            {"topics": by_name(0, ("t", "gone"), parts="partition_indexes")}, describe,
        ),
        Request("", "DescribeQuorum", 2, {"topics": quorum}, describe),
        Request("", "DescribeQuorum", 0, {"topics": quorum}, describe),
        Request("another topic", "DescribeQuorum", 2, {"topics": [
            {"topic_name": "t", "partitions": [{"partition_index": 0}]}]}, describe),
        Request("", "UpdateFeatures", 1, {"feature_updates": [], "validate_only": True}, alter),
        Request(
            "an unknown feature", "UpdateFeatures", 2,
            {
                "feature_updates": [
                    {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1}
                ],
                "validate_only": True,
            },
            alter,
        ),
    ]  # fmt: skip


def _nodes() -> list[Request]:
    alter = cluster(ALTER)
    describe = cluster(DESCRIBE)
    operations = {"include_cluster_authorized_operations": True}
    voter = {"cluster_id": OTHER, "timeout_ms": 1000, "voter_id": 99}
    return [
        Request("", "DescribeCluster", 0, operations, describe),
        Request("", "DescribeCluster", 2, {**operations, "include_fenced_brokers": True}, describe),
        Request(
            "operations", "DescribeCluster", 1, operations,
            [*describe, *alter, *cluster(ALTER_CONFIGS)],
        ),
        Request("of controllers", "DescribeCluster", 1, {**operations, "endpoint_type": 2}, alter),
        Request("", "UnregisterBroker", 0, {"broker_id": 99}, alter),
        Request("", "UnregisterController", 0, {"controller_id": 99}, alter),
        Request("", "AddRaftVoter", 1, {**voter, "voter_directory_id": UNKNOWN_ID, "listeners": [
            {"name": "CONTROLLER", "host": "localhost", "port": 1}]}, alter),
        Request(
            "", "RemoveRaftVoter", 0,
            {"cluster_id": OTHER, "voter_id": 99, "voter_directory_id": UNKNOWN_ID}, alter,
        ),
        Request("", "GetTelemetrySubscriptions", 0, {"client_instance_id": UNKNOWN_ID}),
        Request(
            "", "PushTelemetry", 0,
            {"client_instance_id": UNKNOWN_ID, "subscription_id": 5, "metrics": b""},
        ),
        Request("", "ApiVersions", 4, {"client_software_name": "a", "client_software_version": "1"}),
        Request("", "ApiVersions", 2, {}),
        Request("after authentication", "SaslHandshake", 1, {"mechanism": "PLAIN"}),
        Request("after authentication", "SaslHandshake", 0, {"mechanism": "none"}),
        Request("after authentication", "SaslAuthenticate", 2, {"auth_bytes": b"\0admin\0x"}),
    ]  # fmt: skip


def _cluster() -> list[Request]:
    return [*_rules(), *_users_and_logs(), *_partitions(), *_nodes()]


_ALSO_ON_CONTROLLERS = frozenset(
    (
        *("DescribeAcls", "CreateAcls", "DeleteAcls", "AlterConfigs", "IncrementalAlterConfigs"),
        *("AlterClientQuotas", "AlterUserScramCredentials", "ElectLeaders", "DescribeQuorum"),
        *("AlterPartitionReassignments", "ListPartitionReassignments", "UpdateFeatures"),
        *(
            "UnregisterBroker",
            "UnregisterController",
            "AddRaftVoter",
            "RemoveRaftVoter",
            "SaslHandshake",
        ),
        *("SaslAuthenticate", "ApiVersions", "DescribeUserScramCredentials"),
        "DescribeConfigs",
    )
)


def _cluster_requests() -> list[Request]:
    ours = [*_settings(), *_cluster()]
    controllers = [
        dataclasses.replace(each, is_on_controller=True)
        for each in ours
        if each.api in _ALSO_ON_CONTROLLERS
    ]
    return [*ours, *controllers, *requests_between_nodes()]


CLUSTER_REQUESTS = _cluster_requests()
